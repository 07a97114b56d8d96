//! `run_start`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use workflow_flows::check::check_input;
use workflow_flows::{FlowStart, is_flow};
use workflow_sdk::operate::{Action, OperateErrorCode, Payload, Role, StartRun};

use crate::answers::Outcome;
use crate::caller::Caller;
use crate::failure::Failure;
use crate::flows::{DialectName, document_of, valid_flow};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Start {
    /// The name of a deployed flow.
    flow: Option<String>,
    /// The version of the deployed flow, or of the workflow. Default: the newest of a flow, 1 of a
    /// workflow.
    version: Option<String>,
    /// A flow as YAML or JSON text, which need not be deployed.
    document: Option<String>,
    /// The format of `document`. Default: found out from it.
    dialect: Option<DialectName>,
    /// The name of a flow whose `document` has no place for one. Default: `flow`.
    name: Option<String>,
    /// The name of a workflow in Rust.
    workflow: Option<String>,
    /// The input.
    #[serde(default)]
    input: Value,
    /// Identifies a repetition. At most 255 bytes.
    key: Option<String>,
    /// The queue. Default: `default`.
    queue: Option<String>,
    /// In how many milliseconds the run begins. Default: now.
    delay_ms: Option<u64>,
    /// In how many milliseconds the run fails if it has not ended. Default: the flow's timeout.
    deadline_ms: Option<u64>,
    /// Labels, by which run_list finds the run: `tag.NAME:VALUE`.
    #[serde(default)]
    tags: BTreeMap<String, String>,
    /// Why; kept in the audit log.
    reason: Option<String>,
}

pub(crate) async fn start_run(caller: Caller, mut start: Start) -> Result<Outcome, Failure> {
    caller.needs(Role::Operator, "run_start")?;
    let of_document = start.dialect.is_some() || start.name.is_some();
    let flow = match (start.flow.take(), start.document.take(), start.workflow.take()) {
        (Some(name), None, None) if !of_document => deployed(&caller, &name, start.version.as_deref()).await?,
        (None, Some(document), None) if start.version.is_none() => {
            let document = document_of(document, start.dialect, start.name.take());
            let (flow, _) = valid_flow(&caller, &document, false).await?;
            FlowStart::new(flow)
        }
        (None, None, Some(workflow)) if !of_document => {
            let run = start.set_options(workflow_run(workflow, &start)?);
            return caller.order(run, start.reason).await;
        }
        _ => {
            let help = "give one of flow, document and workflow; version belongs to a flow or a workflow, dialect \
                        and name to a document";
            return Err(Failure::bad_input("it is not clear what to start", help));
        }
    };
    start_flow(&caller, flow, start).await
}

impl Start {
    /// Returns the action that starts this run with the options of the call.
    fn set_options(&self, mut run: StartRun) -> Action {
        run.queue.clone_from(&self.queue);
        run.delay_ms = self.delay_ms;
        run.deadline_ms = self.deadline_ms.or(run.deadline_ms);
        // The name of a flow is not the caller's to choose.
        let of_flow = std::mem::take(&mut run.tags);
        run.tags = self.tags.clone().into_iter().chain(of_flow).collect();
        Action::StartRun(Box::new(run))
    }
}

async fn deployed(caller: &Caller, name: &str, version: Option<&str>) -> Result<FlowStart, Failure> {
    let found = caller.flows()?.find(name, version).await;
    Ok(found.map_err(Failure::of_flows)?.into_start())
}

/// Starts a flow whose input fits its schema. The run acts for the caller's actor.
async fn start_flow(caller: &Caller, flow: FlowStart, start: Start) -> Result<Outcome, Failure> {
    let found = check_input(&flow.definition, &start.input);
    let flow = flow.input(start.input.clone()).actor(caller.actor.name.clone());
    let key = start.key.as_deref();
    let perform = |run: StartRun| caller.perform(start.set_options(run), start.reason.clone());
    let done = match &caller.flows {
        // A call that is repeated leads to its run, even if its input does not fit a later version.
        Some(flows) => flows.start(flow, key, perform).await,
        None => match flow.into_run(key) {
            Ok(run) => perform(run).await,
            Err(error) => Err(error),
        },
    };
    match done {
        Err(error) if error.code == OperateErrorCode::BadInput && !found.is_empty() => {
            Err(Failure::invalid_input(found))
        }
        done => Ok(Outcome::from(done?)),
    }
}

fn workflow_run(workflow: String, start: &Start) -> Result<StartRun, Failure> {
    // Its input names the account for which the run acts, so a caller must not write it.
    if is_flow(&workflow) {
        let help = "give the name of a deployed flow in `flow`, or a flow in `document`";
        return Err(Failure::bad_input("the workflow of flows is not started by its own name", help));
    }
    let mut run = StartRun::new(workflow, Payload::from(start.input.clone()));
    run.version.clone_from(&start.version);
    run.key.clone_from(&start.key);
    Ok(run)
}
