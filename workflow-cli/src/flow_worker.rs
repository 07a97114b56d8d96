//! The worker of a program without code of its own: it runs flows with the tools of this project.

use workflow_flows::{FlowRuntime, FlowStore, InboxStore, KbStore, flow};
use workflow_sdk::{BoxError, Client};
use workflow_tools::actions::Actions;
use workflow_tools::http::Http;
use workflow_tools::notify::InApp;
use workflow_tools::{knowledge, log};
use workflow_worker::Worker;

use crate::arguments::FlowTools;
use crate::environment::{Environment, tokens};
use crate::kit::{Made, MakeWorker};

/// The largest file that a flow reads or writes, in bytes.
#[cfg(target_os = "linux")]
const LARGEST_FILE: u64 = 10 * 1024 * 1024;

/// Returns the function that makes a worker for the flows of this database.
pub(crate) fn flow_worker(url: String, tools: FlowTools) -> MakeWorker {
    Box::new(move |client| {
        Box::pin(async move {
            let runtime = runtime(&url, &client, &tools).await?;
            let worker = Box::new(Worker::new(client, runtime.clone()).register(flow));
            Ok(Made { worker, flows: Some(runtime) })
        })
    })
}

async fn runtime(url: &str, client: &Client, tools: &FlowTools) -> Result<FlowRuntime, BoxError> {
    let networks = tools.network.iter().cloned();
    let http = networks.fold(Http::builder(), |http, network| http.allow_network(network)).build()?;
    let (store, inbox) = (FlowStore::connect(url).await?, InboxStore::connect(url).await?);
    let kb = KbStore::connect(url).await?;
    let in_app = InApp::new(inbox);
    let builder = FlowRuntime::builder()
        .tools(knowledge::tools(&kb))
        .knowledge_base(kb)
        .tools([log::tool()])
        .custom_tool(in_app.clone())
        .channel("in-app")
        .client(client.clone())
        .flows(store)
        .secrets(Environment::of_steps());
    let builder = match tokens()? {
        Some(tokens) => builder.tokens(tokens),
        None => builder,
    };
    let actions = Actions::new(&http).channel(in_app);
    let builder = builder.custom_tool(http);
    let (actions, builder) = with_files(actions, builder, tools)?;
    Ok(builder.tools(actions.tools()).build())
}

/// Adds the tools for files and programs, where the command line opens them.
#[cfg(target_os = "linux")]
fn with_files(
    actions: Actions,
    builder: workflow_flows::FlowRuntimeBuilder,
    tools: &FlowTools,
) -> Result<(Actions, workflow_flows::FlowRuntimeBuilder), BoxError> {
    use workflow_tools::shell::{Shell, ShellError};

    let Some(directory) = &tools.files else { return Ok((actions, builder)) };
    let actions =
        actions.files(directory, LARGEST_FILE).map_err(|error| format!("--files {}: {error}", directory.display()))?;
    if tools.program.is_empty() {
        return Ok((actions, builder));
    }
    let mut shell = Shell::builder(directory).variable("PATH", "/usr/local/bin:/usr/bin:/bin");
    for program in &tools.program {
        let Some((name, path)) = program.split_once('=') else {
            return Err(format!("--program {program}: write NAME=PATH, as python3=/usr/bin/python3").into());
        };
        shell = shell.program(name, path);
    }
    if let Some((user, group)) = tools.program_user {
        shell = shell.user(user, group);
    }
    let shell = shell.build().map_err(|error| match error {
        ShellError::RunsAsRoot => BoxError::from(
            "--program: this worker is root, and programs of flows do not run as root: add --program-user UID:GID, as \
             2001:2001, the numbers of an account that may write to the directory of --files; or start the worker as \
             another account",
        ),
        other => other.into(),
    })?;
    Ok((actions.shell(&shell), builder.custom_tool(shell)))
}

#[cfg(not(target_os = "linux"))]
fn with_files(
    actions: Actions,
    builder: workflow_flows::FlowRuntimeBuilder,
    tools: &FlowTools,
) -> Result<(Actions, workflow_flows::FlowRuntimeBuilder), BoxError> {
    if tools.files.is_some() {
        return Err("--files needs Linux".into());
    }
    Ok((actions, builder))
}
