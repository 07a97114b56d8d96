//! Answers tickets by a flow: a model proposes an answer, a person approves it, and later tickets
//! find it in the knowledge base. The model is scripted, so the example needs no account.
//!
//! `cargo run --example support_triage [-- DATABASE]`

use serde_json::{Value, json};
use workflow_flows::graph::Flow;
use workflow_flows::{FlowClient, FlowRuntime, FlowStart, InboxStore, KbStore, ScriptedModel, ToolCall, check, flow};
use workflow_sdk::prelude::*;
use workflow_tools::notify::InApp;
use workflow_worker::Worker;

const TRIAGE: &str = include_str!("data/support_triage.yaml");

/// The error of `main`.
type Failed = Box<dyn std::error::Error>;

/// Checks the document. Prints each finding with its place.
fn triage_flow() -> Result<Flow, String> {
    let checked = check::check(TRIAGE, &check::Options::default());
    for finding in &checked.findings {
        eprintln!("{}:{}: {} {}", finding.line, finding.column, finding.code, finding.message);
    }
    checked.flow.ok_or_else(|| "the flow has faults".to_owned())
}

/// The answers that a model would give, in the order of the tickets.
fn model() -> ScriptedModel {
    ScriptedModel::new([
        json!({ "severity": "high", "answer": "Open the tray and remove the torn sheet." }),
        json!({ "severity": "low", "answer": "The tray again: see the answer to t-1." }),
    ])
}

/// The tools of the worker. The closures stand for HTTP, mail and a browser behind MCP.
fn runtime(kb: KbStore, inbox: InboxStore) -> FlowRuntime {
    FlowRuntime::builder()
        .model(model())
        .tools(workflow_tools::knowledge::tools(&kb))
        .knowledge_base(kb)
        .custom_tool(InApp::new(inbox))
        .tool("crm.find", |args: Value, _call: ToolCall| async move { Ok(json!({ "name": args["customer"] })) })
        .tool("printer.status", |_args: Value, _call: ToolCall| async move { Ok(json!({ "tray": "open" })) })
        .tool("mail.send", |args: Value, call: ToolCall| async move {
            println!("mail to {}: {} (key {})", args["to"], args["text"], call.idempotency_key);
            Ok(json!({ "sent": true }))
        })
        .tool("browser/click", |args: Value, _call: ToolCall| async move { Ok(json!({ "clicked": args["element"] })) })
        .build()
}

/// Starts the triage of a ticket, approves the answer that it proposes, and returns the result.
async fn answer(client: &Client, triage: &Flow, ticket: Value) -> Result<Value, Failed> {
    let run = client.start_definition(FlowStart::new(triage.clone()).input(ticket).actor("ann")).await?;
    let gate = loop {
        match client.approvals_of(run.id()).await?.pop() {
            Some(gate) => break gate,
            None => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    };
    println!("{} waits for {}", gate.key, gate.to.unwrap_or_default());
    client.approve(run.id(), &gate.key, "bob").note("send it").await?;
    Ok(run.result().await?)
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let directory = tempfile::tempdir()?;
    let in_directory = || format!("sqlite://{}", directory.path().join("triage.db").display());
    let url = std::env::args().nth(1).unwrap_or_else(in_directory);
    let client = Client::connect(url.as_str()).await?;
    let (kb, inbox) = (KbStore::connect(&url).await?, InboxStore::connect(&url).await?);

    let triage = triage_flow()?;
    client.set_limits(&triage).await?;
    let worker = Worker::new(client.clone(), runtime(kb.clone(), inbox.clone())).register(flow);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let worker = tokio::spawn(worker.run_until(async { drop(stopped.await) }));

    let ticket = |id: &str, subject: &str| {
        json!({
            "id": id, "subject": subject, "text": "Nothing comes out.", "customer": "acme", "receivers": ["a@acme.test"],
        })
    };
    let first = answer(&client, &triage, ticket("t-1", "Printer jam")).await?;
    println!("first: severity {}, {} earlier answers", first["severity"], count(&first));
    let second = answer(&client, &triage, ticket("t-2", "Jam in the printer")).await?;
    println!("second: severity {}, found {}", second["severity"], second["known"][0]["key"]);

    for entry in inbox.list(None, true, None, 10).await?.into_iter().rev() {
        println!("message to {}: {}", entry.message.to, entry.message.text);
    }
    drop(stop);
    worker.await??;
    Ok(())
}

fn count(result: &Value) -> usize {
    result["known"].as_array().map_or(0, Vec::len)
}
