//! Deploys, lists and runs of deployed flows, and checks that ask tools: on a database, or by a
//! server.

use std::cell::RefCell;
use std::collections::BTreeSet;

use comfy_table::Cell;
use serde_json::Value;
use workflow_flows::check::{Checked, ToolCatalog};
use workflow_flows::{DeployedFlow, FlowSummary, is_flow};
use workflow_sdk::Client;
use workflow_sdk::operate::{OperateError, OperateErrorCode, WorkerView};

use crate::arguments::{Author, CheckFlows, DeployFlows, FlowVerb, ListFlows, RunFlow, StartOptions};
use crate::clock::Clock;
use crate::flow_target::{FlowDatabase, FlowTarget, NewFlowRun, check_by, open};
use crate::flows::{Named, check_all, checked_documents, dry_run, read_documents, read_input, report, tell, tell_all};
use crate::kit::{MakeWorker, refused};
use crate::output::{Output, Rows};
use crate::target::Target;
use crate::verbs::{order, run_start};
use crate::{Exit, Failure};

/// The checks of documents, with the names of their files.
type Answers = Vec<(String, Checked)>;

/// Runs a verb that needs a database or a server.
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
    let answers = match target.server()? {
        Some(remote) => check_by(&remote, &documents, true).await?,
        None => {
            let Some(make) = make else { return Err(no_worker(target, &documents).await) };
            let client = target.connect().await?;
            ask_tools(make, client, &documents, &account(arguments.connection.actor.clone())).await?
        }
    };
    tell_all(&arguments, &answers, output)
}

/// Checks each document with the tools of this program's worker.
async fn ask_tools(make: MakeWorker, client: Client, documents: &[Named], actor: &str) -> Result<Answers, Failure> {
    let runtime = make(client).await.map_err(refused)?.flows.ok_or_else(no_tools)?;
    let mut answers = Vec::new();
    for (file, document) in documents {
        answers.push((file.clone(), document.check_connected(&runtime, actor).await?));
    }
    Ok(answers)
}

fn no_tools() -> Failure {
    Failure::usage(
        "this program has no tools of flows that could be asked",
        "use the program of your application, whose worker is made by Kit::worker_with_flows; or name its server with \
         --to; or leave --connect out",
    )
}

/// Says that this program has no tools, and which tools of these documents no live worker has. The
/// database knows the workers that run flows; their own program alone knows their tools.
async fn no_worker(target: Target, documents: &[Named]) -> Failure {
    let failure = no_tools();
    let called = called_tools(documents);
    if called.is_empty() {
        return failure;
    }
    // Without a database, returns the reason that needs none.
    let Ok(client) = target.connect().await else { return failure };
    let Ok(workers) = client.operate().workers().await else { return failure };
    let is_serving = |worker: &&WorkerView| worker.live && worker.lanes.iter().any(|lane| is_flow(&lane.workflow));
    let serving: Vec<String> = workers.iter().filter(is_serving).map(|worker| worker.id.to_string()).collect();
    let (called, serving, message) = (called.join(", "), serving.join(", "), &failure.message);
    let message = if serving.is_empty() {
        format!("{message}; no live worker runs flows, so none has these tools: {called}")
    } else {
        format!(
            "{message}; only the programs of the live workers {serving} know whether they have these tools: {called}"
        )
    };
    Failure { message, ..failure }
}

/// Returns the names of the tools that these documents call.
fn called_tools(documents: &[Named]) -> Vec<String> {
    let called = CalledTools::default();
    for (_, document) in documents {
        drop(document.check_with(Some(&called)));
    }
    called.0.into_inner().into_iter().collect()
}

/// A catalog that has every tool, and notes those for which it is asked.
#[derive(Default)]
struct CalledTools(RefCell<BTreeSet<String>>);

impl ToolCatalog for CalledTools {
    fn tool(&self, name: &str) -> Option<Value> {
        self.0.borrow_mut().insert(name.to_owned());
        Some(Value::Bool(true))
    }

    fn tools(&self) -> Vec<String> {
        Vec::new()
    }
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
    let by = account(arguments.connection.actor.take());
    let here = check_all(&documents);
    // Faults that show here need no database and no server.
    if !arguments.connection.connect && is_refused(&here) {
        tell_findings(&here, output)?;
        return Ok(Exit::Error);
    }
    refuse_other_names(&arguments, &here)?;
    let (flows, answers) = check_there(target, &documents, here, &by, &arguments, make).await?;
    tell_findings(&answers, output)?;
    if is_refused(&answers) {
        return Ok(Exit::Error);
    }
    let mut deployed = Vec::new();
    for ((_, document), (_, checked)) in documents.iter().zip(&answers) {
        if let Some(flow) = &checked.flow {
            deployed.push(flows.deploy(document, flow, &by, arguments.version.as_deref()).await?);
        }
    }
    output.list(&deployed, &deployed, |one| one.flow.name.clone(), |_| deployed_rows(&deployed))?;
    Ok(Exit::Ok)
}

/// Opens the place of a deploy, and checks the documents as it does: a server by itself, a database
/// with the tools of this program if they are to be asked.
async fn check_there(
    target: Target,
    documents: &[Named],
    here: Answers,
    by: &str,
    arguments: &DeployFlows,
    make: Option<MakeWorker>,
) -> Result<(Box<dyn FlowTarget>, Answers), Failure> {
    let connect = arguments.connection.connect;
    if let Some(remote) = target.server()? {
        let answers = check_by(&remote, documents, connect).await?;
        return Ok((Box::new(remote), answers));
    }
    if !connect {
        return Ok((open(target).await?, here));
    }
    let Some(make) = make else { return Err(no_worker(target, documents).await) };
    let (client, flows) = target.flows().await?;
    let answers = ask_tools(make, client.clone(), documents, by).await?;
    Ok((Box::new(FlowDatabase { client, flows }), answers))
}

/// Returns whether a flow has errors, so that nothing is deployed.
fn is_refused(answers: &[(String, Checked)]) -> bool {
    answers.iter().any(|(_, checked)| checked.flow.is_none())
}

/// Tells people all findings, and programs those of a refusal.
fn tell_findings(answers: &[(String, Checked)], output: &Output) -> Result<(), Failure> {
    if output.is_for_people() {
        let mut found = answers.iter().filter(|(_, checked)| !checked.findings.is_empty());
        found.try_for_each(|(file, checked)| tell(file, checked, output))
    } else if is_refused(answers) {
        report(answers, output)
    } else {
        Ok(())
    }
}

/// Refuses two flows of one name, and a name that the document does not have.
fn refuse_other_names(arguments: &DeployFlows, answers: &[(String, Checked)]) -> Result<(), Failure> {
    let mut names = BTreeSet::new();
    for flow in answers.iter().filter_map(|(_, checked)| checked.flow.as_ref()) {
        if !names.insert(flow.name.as_str()) {
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
    let found = open(target).await?.list(name.as_deref()).await?;
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
    let name = arguments.file.display().to_string();
    if arguments.dialect.is_some() {
        let message = format!("{name} is the name of a deployed flow, and --dialect is for documents");
        return Err(Failure::usage(message, "leave --dialect out, or give a document"));
    }
    let input = read_input(&arguments.options)?;
    let flows = open(target).await?;
    if arguments.dry_run {
        let found = flows.find(&name, arguments.version.as_deref()).await.map_err(|error| no_flow(&name, error))?;
        let start = found.into_start().input(input);
        start.check_input()?;
        return dry_run(start.definition, start.input, &arguments, output).await;
    }
    let RunFlow { version, options, .. } = arguments;
    let StartOptions { key, queue, delay, tags, wait, author, .. } = options;
    let (tags, delay_ms) = (run_start::read_tags(&tags)?, delay.map(run_start::millis));
    let new = NewFlowRun { flow: name.clone(), version, input, key, queue, delay_ms, tags, author };
    let exit = match flows.start(new).await {
        Ok(done) => run_start::tell(flows.operate(), output, &done, wait).await,
        Err(error) => Err(no_flow(&name, error)),
    };
    if let Some(client) = flows.client() {
        // This process ends before it would write what it has counted.
        client.executor().write_statistics().await;
    }
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
