//! `workflow flow deploy`, `flow list`, `flow run` of a deployed flow, and checks that ask tools.

use comfy_table::Cell;
use workflow_flows::check::Checked;
use workflow_flows::graph::Flow;
use workflow_flows::{DeployedFlow, FlowSummary, Flows};
use workflow_sdk::Client;
use workflow_sdk::operate::{OperateError, OperateErrorCode};

use crate::arguments::{Author, CheckFlows, DeployFlows, FlowVerb, ListFlows, RunFlow};
use crate::clock::Clock;
use crate::flows::{
    Named, check_all, checked_documents, dry_run, read_documents, read_input, report, run_of, tell, tell_all,
};
use crate::kit::{MakeWorker, refused};
use crate::output::{Output, Rows};
use crate::target::Target;
use crate::verbs::{order, run_start};
use crate::{Exit, Failure};

/// Runs a verb that needs a database.
pub(crate) async fn run(
    target: Target,
    verb: FlowVerb,
    make: Option<MakeWorker>,
    output: &Output,
) -> Result<Exit, Failure> {
    match verb {
        FlowVerb::Check(arguments) => check_connected(target, arguments, make, output).await,
        FlowVerb::Deploy(arguments) => deploy(target, arguments, make, output).await,
        FlowVerb::List(arguments) => list(target, arguments, output).await,
        FlowVerb::Run(arguments) => start(target, *arguments, output).await,
        // The others have ended without a database.
        _ => Ok(Exit::Ok),
    }
}

async fn check_connected(
    target: Target,
    arguments: CheckFlows,
    make: Option<MakeWorker>,
    output: &Output,
) -> Result<Exit, Failure> {
    let documents = checked_documents(&arguments)?;
    let make = make.ok_or_else(no_tools)?;
    let client = target.connect().await?;
    let answers = ask_tools(make, client, documents, arguments.connection.actor.clone()).await?;
    tell_all(&arguments, &answers, output)
}

/// Checks each document with the tools of this program's worker.
async fn ask_tools(
    make: MakeWorker,
    client: Client,
    documents: Vec<Named>,
    actor: Option<String>,
) -> Result<Vec<(String, Checked)>, Failure> {
    let runtime = make(client).await.map_err(refused)?.flows.ok_or_else(no_tools)?;
    let actor = account(actor);
    let mut answers = Vec::new();
    for (file, document) in documents {
        answers.push((file, document.check_connected(&runtime, &actor).await?));
    }
    Ok(answers)
}

fn no_tools() -> Failure {
    Failure::usage(
        "this program has no tools of flows that could be asked",
        "use the program of your application, whose worker is made by Kit::worker_with_flows; or leave --connect out",
    )
}

/// Returns the account for which a flow is checked or deployed.
fn account(actor: Option<String>) -> String {
    order::actor(&Author { reason: None, actor }).unwrap_or_default()
}

async fn deploy(
    target: Target,
    mut arguments: DeployFlows,
    make: Option<MakeWorker>,
    output: &Output,
) -> Result<Exit, Failure> {
    let documents = read_documents(&arguments.files, arguments.name.as_deref())?;
    let actor = arguments.connection.actor.take();
    if !arguments.connection.connect {
        let Some(accepted) = accept(&arguments, check_all(documents), output)? else { return Ok(Exit::Error) };
        let (_client, flows) = target.flows().await?;
        return publish(&flows, &accepted, &arguments, actor, output).await;
    }
    let make = make.ok_or_else(no_tools)?;
    let (client, flows) = target.flows().await?;
    let answers = ask_tools(make, client, documents, actor.clone()).await?;
    let Some(accepted) = accept(&arguments, answers, output)? else { return Ok(Exit::Error) };
    publish(&flows, &accepted, &arguments, actor, output).await
}

/// Tells the findings. Returns the flows if all can be deployed.
fn accept(
    arguments: &DeployFlows,
    answers: Vec<(String, Checked)>,
    output: &Output,
) -> Result<Option<Vec<Flow>>, Failure> {
    let is_refused = answers.iter().any(|(_, checked)| checked.flow.is_none());
    if output.is_for_people() {
        answers.iter().filter(|(_, checked)| !checked.findings.is_empty()).try_for_each(|(f, c)| tell(f, c, output))?;
    } else if is_refused {
        report(&answers, output)?;
    }
    if is_refused {
        return Ok(None);
    }
    let flows: Vec<Flow> = answers.into_iter().filter_map(|(_, checked)| checked.flow).collect();
    refuse_other_names(arguments, &flows)?;
    Ok(Some(flows))
}

async fn publish(
    flows: &Flows,
    accepted: &[Flow],
    arguments: &DeployFlows,
    actor: Option<String>,
    output: &Output,
) -> Result<Exit, Failure> {
    let by = account(actor);
    let mut deployed = Vec::new();
    for flow in accepted {
        deployed.push(flows.deploy(flow, &by, arguments.version.as_deref()).await?);
    }
    output.list(&deployed, &deployed, |one| one.flow.name.clone(), |_| deployed_rows(&deployed))?;
    Ok(Exit::Ok)
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

/// Starts a run of a deployed flow, or shows what it would do.
async fn start(target: Target, arguments: RunFlow, output: &Output) -> Result<Exit, Failure> {
    let input = read_input(&arguments.options)?;
    let name = arguments.file.display().to_string();
    let (client, flows) = target.flows().await?;
    let found = flows.find(&name, arguments.version.as_deref()).await.map_err(|error| no_flow(&name, error))?;
    let start = found.into_start().input(input).actor(order::actor(&arguments.options.author).unwrap_or_default());
    start.check_input()?;
    if arguments.dry_run {
        return dry_run(start.definition, start.input, &arguments, output).await;
    }
    let options = arguments.options;
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
