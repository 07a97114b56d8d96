use std::future::Future;

use serde::Deserialize;
use serde_json::Value;
use workflow_sdk::operate::{Done, OperateError, OperateErrorCode, Payload, StartRun};
use workflow_sdk::{ClientError, RunHandle, Workflow};

use super::Flows;
use super::failure::unfit_input;
use crate::check::check_input;
use crate::client::{deadline_of, limits_of, tags_of};
use crate::{FlowStart, FlowWorkflow, flow};

/// Returns the key of a run for a key of a flow. All flows are one workflow, whose keys they share,
/// so the name of the flow stands before it.
#[must_use]
pub fn flow_key(flow: &str, key: &str) -> String {
    format!("{flow}/{key}")
}

impl Flows {
    /// Starts a run once per key. `perform` gets the run, sets its options, and performs the start.
    /// If the key has a run with this input, `perform` is not called, and the answer names that
    /// run: its flow may have been deployed again since, and another account may have started it.
    ///
    /// # Errors
    /// [`Conflict`](OperateErrorCode::Conflict) if the key has a run with another input,
    /// [`BadInput`](OperateErrorCode::BadInput) if the input does not fit the schema of the flow, a
    /// failure of the database, and those of `perform`.
    ///
    /// # Cancel safety
    /// If the future is dropped, the run may or may not have been started. Starting it again with
    /// its key is safe.
    ///
    /// ```
    /// use workflow_flows::{FlowDocument, FlowStore, Flows};
    /// use workflow_sdk::Client;
    /// use workflow_sdk::operate::{Action, Order, StartRun};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = Client::connect("sqlite::memory:").await?;
    /// let flows = Flows::new(client.clone(), FlowStore::in_memory());
    /// let document = "flow: 1\nname: greet\ndo: [ { id: a, set: { x: 1 } } ]\n";
    /// let flow = FlowDocument::new(document).check().flow.ok_or("not valid")?;
    /// flows.deploy(&flow, "ann", None).await?;
    ///
    /// for actor in ["ann", "bob"] {
    ///     let start = flows.find("greet", None).await?.into_start().actor(actor);
    ///     let order = |run: StartRun| Order::new(Action::StartRun(Box::new(run))).actor(actor);
    ///     let perform = |run| client.operate().perform(order(run));
    ///     println!("{}", flows.start(start, Some("greet-1"), perform).await?.message);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn start<F>(
        &self,
        start: FlowStart,
        key: Option<&str>,
        perform: impl FnOnce(StartRun) -> F,
    ) -> Result<Done, OperateError>
    where
        F: Future<Output = Result<Done, OperateError>>,
    {
        let key = key.map(|key| flow_key(&start.name, key));
        if let Some(done) = self.existing(key.as_deref(), &start.input).await? {
            return Ok(done);
        }
        let input = start.input.clone();
        let mut run = start.into_run(None)?;
        run.key.clone_from(&key);
        match perform(run).await {
            // A request with this key, of another account perhaps, came in between.
            Err(error) if error.code == OperateErrorCode::Conflict => {
                self.existing(key.as_deref(), &input).await?.ok_or(error)
            }
            answer => answer,
        }
    }

    /// Returns the answer to a start whose key has a run with this input. `None`: the key has no
    /// run, or one that cannot be read.
    async fn existing(&self, key: Option<&str>, input: &Value) -> Result<Option<Done>, OperateError> {
        /// The input of a run, without its definition and its actor.
        #[derive(Deserialize)]
        struct Given {
            #[serde(default)]
            input: Value,
        }

        let Some(key) = key else { return Ok(None) };
        let found: Option<RunHandle<Value>> = self.client.find(flow, key).await?;
        let Some(run) = found else { return Ok(None) };
        let Ok(given) = serde_json::from_str::<Given>(&self.client.run(run.id()).await?.input) else { return Ok(None) };
        // Written and read as the other one was: a float that was written may read as another one.
        let input: Value = serde_json::from_str(&input.to_string()).unwrap_or_default();
        if given.input == input {
            return Ok(Some(Done::existed(run.id())));
        }
        let (workflow, key) = (FlowWorkflow::NAME.to_owned(), key.to_owned());
        Err(ClientError::KeyConflict { workflow, key, run_id: run.id() }.into())
    }
}

impl FlowStart {
    /// Checks the input against the schema of the flow.
    ///
    /// # Errors
    /// [`BadInput`](OperateErrorCode::BadInput) with all findings (F060).
    pub fn check_input(&self) -> Result<(), OperateError> {
        let findings = check_input(&self.definition, &self.input);
        if findings.is_empty() { Ok(()) } else { Err(unfit_input(&findings)) }
    }

    /// Checks the input and returns what starts the run, with the flow's timeout as its deadline,
    /// its name and version as tags, and the [`flow_key`] of `key`. The start declares the limits
    /// of the flow's steps that have no rule, unless a server performs it.
    ///
    /// # Errors
    /// [`BadInput`](OperateErrorCode::BadInput) if the input does not fit the schema of the flow.
    pub fn into_run(self, key: Option<&str>) -> Result<StartRun, OperateError> {
        self.check_input()?;
        let input = serde_json::to_string(&self).map_err(|error| {
            OperateError::new(OperateErrorCode::BadInput, format!("the flow is not JSON: {error}"), "check it")
        })?;
        let mut run = StartRun::new(FlowWorkflow::NAME, Payload::new(input)?);
        run.key = key.map(|key| flow_key(&self.name, key));
        run.deadline_ms = deadline_of(&self.definition).map(|deadline| {
            // A flow's timeout was read as whole milliseconds.
            u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX)
        });
        run.limits = limits_of(&self.definition);
        run.tags =
            tags_of(&self.name, &self.version).into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Ok(run)
    }
}
