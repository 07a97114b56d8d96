//! Runs a map of the engine with two tables as it stands: `examples/data/flow_two_table.json`. It
//! shows that
//!
//! * the map needs no change: its dialect is found out, and each of its steps is one of the flow;
//! * a step whose tool is null is a gate, which asks the account that started the run;
//! * the run takes no worker while it waits at its gate, until the client approves it.
//!
//! Without an argument the database is a SQLite file in a temporary directory.
//!
//! `cargo run --example flow_two_table [-- DATABASE]`

use serde::Deserialize;
use serde_json::{Value, json};
use workflow_flows::graph::Flow;
use workflow_flows::{FlowClient, FlowDocument, FlowRuntime, FlowStart, ToolCall, ToolError, flow};
use workflow_sdk::prelude::*;
use workflow_worker::Worker;

const MAP: &str = include_str!("data/flow_two_table.json");

/// The error of `main`.
type Failed = Box<dyn std::error::Error>;

#[derive(Deserialize)]
struct Entry {
    title: String,
    body: String,
}

/// The tool that the map calls behind its gate.
async fn add(entry: Entry, call: ToolCall) -> Result<Value, ToolError> {
    println!("{} adds {}: {}", call.actor, entry.title, entry.body);
    Ok(json!({ "added": entry.title }))
}

/// Checks the map. Prints each finding with its place. A map has no name of its own.
fn publishing_flow() -> Result<Flow, String> {
    let checked = FlowDocument::new(MAP).name("publish").check();
    for finding in &checked.findings {
        eprintln!("{}:{}: {} {}", finding.line, finding.column, finding.code, finding.message);
    }
    println!("dialect: {}", checked.dialect);
    checked.flow.ok_or_else(|| "the map has faults".to_owned())
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let directory = tempfile::tempdir()?;
    let in_directory = || format!("sqlite://{}", directory.path().join("entries.db").display());
    let url = std::env::args().nth(1).unwrap_or_else(in_directory);
    let client = Client::connect(url.as_str()).await?;

    let publishing = publishing_flow()?;
    let runtime = FlowRuntime::builder().tool("knowledge_add", add).build();
    let worker = Worker::new(client.clone(), runtime).register(flow);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let worker = tokio::spawn(worker.run_until(async { drop(stopped.await) }));

    let input = json!({ "title": "Durable runs", "body": "They go on." });
    let run = client.start_definition(FlowStart::new(publishing).input(input).actor("ann")).await?;
    let gate = loop {
        match client.approvals_of(run.id()).await?.pop() {
            Some(gate) => break gate,
            None => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    };
    println!("{} asks {}", gate.key, gate.to.unwrap_or_default());
    client.approve(run.id(), &gate.key, "james").await?;
    println!("result: {}", run.result().await?);

    drop(stop);
    worker.await??;
    Ok(())
}
