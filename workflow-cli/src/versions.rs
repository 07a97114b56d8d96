//! `workflow flow deploy`, `flow list`, and `flow run` of a deployed flow.

use comfy_table::Cell;
use workflow_flows::check::{Checked, Severity, check};
use workflow_flows::graph::Flow;
use workflow_flows::{DeployedFlow, FlowSummary};
use workflow_sdk::operate::{OperateError, OperateErrorCode};

use crate::arguments::{Author, DeployFlows, FlowVerb, ListFlows, RunFlow};
use crate::clock::Clock;
use crate::flows::{name_of, options, read, read_input, report, run_of, tell};
use crate::output::{Output, Rows};
use crate::target::Target;
use crate::verbs::{order, run_start};
use crate::{Exit, Failure};

/// Runs a verb about deployed flows.
pub(crate) async fn run(target: Target, verb: FlowVerb, output: &Output) -> Result<Exit, Failure> {
    match verb {
        FlowVerb::Deploy(arguments) => deploy(target, arguments, output).await,
        FlowVerb::List(arguments) => list(target, arguments, output).await,
        FlowVerb::Run(arguments) => start(target, *arguments, output).await,
        // The others have ended without a database.
        _ => Ok(Exit::Ok),
    }
}

async fn deploy(target: Target, arguments: DeployFlows, output: &Output) -> Result<Exit, Failure> {
    let answers = check_all(&arguments)?;
    let is_refused = |(_, checked): &(String, Checked)| checked.flow.is_none();
    if output.is_for_people() {
        answers.iter().filter(|(_, checked)| !checked.findings.is_empty()).try_for_each(|(f, c)| tell(f, c, output))?;
    } else if answers.iter().any(is_refused) {
        report(&answers, output)?;
    }
    if answers.iter().any(is_refused) {
        return Ok(Exit::Error);
    }
    let flows: Vec<Flow> = answers.into_iter().filter_map(|(_, checked)| checked.flow).collect();
    refuse_other_names(&arguments, &flows)?;
    let author = Author { reason: None, actor: arguments.actor };
    let by = order::actor(&author).unwrap_or_default();
    let (_client, store) = target.flows().await?;
    let mut deployed = Vec::new();
    for flow in &flows {
        deployed.push(store.deploy(flow, &by, arguments.version.as_deref()).await?);
    }
    output.list(&deployed, &deployed, |one| one.flow.name.clone(), |_| deployed_rows(&deployed))?;
    Ok(Exit::Ok)
}

/// Checks every document before the first one is deployed.
fn check_all(arguments: &DeployFlows) -> Result<Vec<(String, Checked)>, Failure> {
    let mut answers = Vec::new();
    for file in &arguments.files.files {
        let name = arguments.name.clone().unwrap_or_else(|| name_of(file));
        let mut checked = check(&read(file)?, &options(arguments.files.dialect, &name));
        checked.flow = checked.flow.filter(|_| checked.findings.iter().all(|it| it.severity != Severity::Error));
        answers.push((file.display().to_string(), checked));
    }
    Ok(answers)
}

/// Refuses two flows of one name, and a name that the document does not have.
fn refuse_other_names(arguments: &DeployFlows, flows: &[Flow]) -> Result<(), Failure> {
    for (index, flow) in flows.iter().enumerate() {
        if flows.iter().take(index).any(|other| other.name == flow.name) {
            let message = format!("two documents have the flow {:?}", flow.name);
            return Err(Failure::usage(message, "deploy one of them, or give each its own name"));
        }
        if let Some(name) = arguments.name.as_ref().filter(|name| **name != flow.name) {
            let message = format!("the document has the flow {:?}, not {name:?}", flow.name);
            return Err(Failure::usage(message, "change the name in the document, or leave --name out"));
        }
    }
    Ok(())
}

fn deployed_rows(deployed: &[DeployedFlow]) -> Rows {
    let mut rows = Rows::new(&["FLOW", "VERSION", "DIGEST", "STATE"]);
    for DeployedFlow { flow, is_new, .. } in deployed {
        let state = if *is_new { "deployed" } else { "was deployed before; nothing was added" };
        let digest = flow.digest.get(..12).unwrap_or(&flow.digest);
        rows.push(vec![Cell::new(&flow.name), Cell::new(&flow.version), Cell::new(digest), Cell::new(state)]);
    }
    rows
}

async fn list(target: Target, ListFlows { name }: ListFlows, output: &Output) -> Result<Exit, Failure> {
    let (_client, flows) = target.flows().await?;
    let found = match &name {
        Some(name) => flows.versions(name).await?,
        None => flows.list().await?,
    };
    let id = |flow: &FlowSummary| if name.is_some() { flow.version.clone() } else { flow.name.clone() };
    output.list(&found, &found, id, |clock| rows(clock, &found))?;
    if output.is_for_people() && found.is_empty() {
        output.note("no flow is deployed: workflow flow deploy FILE");
    }
    Ok(Exit::Ok)
}

fn rows(clock: &Clock, flows: &[FlowSummary]) -> Rows {
    let mut rows = Rows::new(&["FLOW", "VERSION", "DEPLOYED", "BY", "TRIGGERS", "DESCRIPTION"]);
    for flow in flows {
        rows.push(vec![
            Cell::new(&flow.name),
            Cell::new(&flow.version),
            Cell::new(clock.relative(flow.created_at)),
            Cell::new(&flow.created_by),
            Cell::new(flow.triggers.join(", ")),
            Cell::new(&flow.description),
        ]);
    }
    rows
}

/// Starts a run of a deployed flow.
async fn start(target: Target, arguments: RunFlow, output: &Output) -> Result<Exit, Failure> {
    let RunFlow { file, version, options, .. } = arguments;
    let input = read_input(&options)?;
    let name = file.display().to_string();
    let (client, flows) = target.flows().await?;
    let found = flows.find(&name, version.as_deref()).await.map_err(|error| no_flow(&name, error))?;
    let start = found.into_start().input(input).actor(order::actor(&options.author).unwrap_or_default());
    start.check_input()?;
    let exit = run_start::start(client.operate(), output, run_of(start, options)?).await;
    // This process ends before it would write what it has counted.
    client.executor().write_statistics().await;
    exit
}

/// Says that a name is neither a document nor a flow.
fn no_flow(name: &str, error: OperateError) -> Failure {
    let is_missing = error.code == OperateErrorCode::NotFound;
    let failure = Failure::from(error);
    if !is_missing {
        return failure;
    }
    let message = format!("{}, and no file {name:?}", failure.message);
    Failure { message, ..failure }
}
