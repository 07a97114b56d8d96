use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use workflow_sdk::{Client, LimitRule, Start};

use crate::graph::{Flow, LimitRule as FlowLimit, OnTimeout};
use crate::store::{FlowStore, FlowStoreError};
use crate::{FlowStart, flow};

/// The tag that holds the name of the flow that a run runs.
pub const FLOW_TAG: &str = "flow";
/// The tag that holds the version of the flow that a run runs. A run whose start brought its
/// definition has none.
pub const FLOW_VERSION_TAG: &str = "flow_version";

/// Starts flows by a [`Client`].
///
/// ```
/// use serde_json::json;
/// use workflow_flows::graph::Flow;
/// use workflow_flows::{FlowClient, FlowStore};
/// use workflow_sdk::Client;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let greet: Flow = serde_json::from_value(json!({
///     "language": 1, "name": "greet", "input": true, "timeout": 60_000, "on_timeout": "fail",
///     "body": { "do": [{ "id": "text", "kind": { "set": { "text": "{{input.name}}" } } }] },
/// }))?;
/// let client = Client::connect("sqlite::memory:").await?;
/// let flows = FlowStore::in_memory();
/// flows.deploy(&greet, "ann", None).await?;
///
/// let start = client.start_flow(&flows, "greet", json!({ "name": "Ada" })).await?;
/// let run = start.key("greet-ada").await?;
/// assert_eq!(run.run().await?.tags["flow"], "greet");
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait FlowClient {
    /// Starts the newest version of a flow, without an actor. Returns the builder of the start: set
    /// its options, then await it. [`FlowStore::find`] and [`start_definition`] do the same for
    /// another version and for an actor.
    ///
    /// [`start_definition`]: Self::start_definition
    ///
    /// # Errors
    /// A [`FlowStoreError`] if there is no such flow, or the store cannot be read.
    async fn start_flow(&self, flows: &FlowStore, name: &str, input: Value) -> Result<Start<Value>, FlowStoreError>;

    /// Starts a flow from its definition, which need not be deployed. Returns the builder of the
    /// start, with the flow's timeout as its deadline and its name as a tag.
    fn start_definition(&self, start: FlowStart) -> Start<Value>;

    /// Sets the limits of a flow's steps that neither a worker nor an operator has set.
    ///
    /// # Errors
    /// [`FlowStoreError::Client`] if the database cannot be reached, or a limit is out of range.
    async fn set_limits(&self, flow: &Flow) -> Result<(), FlowStoreError>;
}

#[async_trait]
impl FlowClient for Client {
    async fn start_flow(&self, flows: &FlowStore, name: &str, input: Value) -> Result<Start<Value>, FlowStoreError> {
        let found = flows.find(name, None).await?;
        let found = found.ok_or_else(|| FlowStoreError::Unknown { name: name.to_owned() })?;
        Ok(self.start_definition(found.into_start().input(input)))
    }

    fn start_definition(&self, start: FlowStart) -> Start<Value> {
        let deadline = deadline_of(&start.definition);
        let tags = tags_of(&start.name, &start.version);
        let started = tags.into_iter().fold(self.start(flow, start), |started, (name, value)| started.tag(name, value));
        match deadline {
            Some(deadline) => started.deadline(deadline),
            None => started,
        }
    }

    async fn set_limits(&self, flow: &Flow) -> Result<(), FlowStoreError> {
        for FlowLimit { name, max, .. } in flow.limits() {
            let limit = self.limit(name);
            if limit.record().await?.is_none_or(|record| record.rule().is_none()) {
                limit.set(LimitRule::none().concurrency(*max)).await?;
            }
        }
        Ok(())
    }
}

/// Returns the deadline of a run of this flow. A flow that is paused or canceled at its timeout has
/// none: the interpreter watches its time.
pub(crate) fn deadline_of(flow: &Flow) -> Option<Duration> {
    (flow.on_timeout == OnTimeout::Fail).then_some(flow.timeout)
}

/// Returns the tags of a run of a flow. The version is empty if the start brought its definition.
pub(crate) fn tags_of(name: &str, version: &str) -> Vec<(&'static str, String)> {
    let version = (!version.is_empty()).then(|| (FLOW_VERSION_TAG, version.to_owned()));
    std::iter::once((FLOW_TAG, name.to_owned())).chain(version).collect()
}
