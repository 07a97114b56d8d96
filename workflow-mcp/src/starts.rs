//! `run_start`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use workflow_flows::check::check_input;
use workflow_flows::{FlowStart, is_flow};
use workflow_sdk::operate::{Action, Payload, Role, StartRun};

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
    let mut run = match (start.flow.take(), start.document.take(), start.workflow.take()) {
        (Some(name), None, None) if !of_document => {
            flow_run(deployed(&caller, &name, start.version.as_deref()).await?, &caller, &start)?
        }
        (None, Some(document), None) if start.version.is_none() => {
            let document = document_of(document, start.dialect, start.name.take());
            let (flow, _) = valid_flow(&caller, &document, false).await?;
            flow_run(FlowStart::new(flow), &caller, &start)?
        }
        (None, None, Some(workflow)) if !of_document => workflow_run(workflow, &start)?,
        _ => {
            let help = "give one of flow, document and workflow; version belongs to a flow or a workflow, dialect \
                        and name to a document";
            return Err(Failure::bad_input("it is not clear what to start", help));
        }
    };
    run.queue = start.queue;
    run.delay_ms = start.delay_ms;
    run.deadline_ms = start.deadline_ms.or(run.deadline_ms);
    // The name of a flow is not the caller's to choose.
    start.tags.append(&mut run.tags);
    run.tags = start.tags;
    caller.order(Action::StartRun(Box::new(run)), start.reason).await
}

async fn deployed(caller: &Caller, name: &str, version: Option<&str>) -> Result<FlowStart, Failure> {
    let found = caller.flows()?.find(name, version).await;
    Ok(found.map_err(Failure::of_flows)?.into_start())
}

/// Returns the start of a flow whose input fits its schema. The run acts for the caller's actor.
fn flow_run(flow: FlowStart, caller: &Caller, start: &Start) -> Result<StartRun, Failure> {
    let found = check_input(&flow.definition, &start.input);
    if !found.is_empty() {
        return Err(Failure::invalid_input(found));
    }
    let flow = flow.input(start.input.clone()).actor(caller.actor.name.clone());
    Ok(flow.into_run(start.key.as_deref())?)
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
