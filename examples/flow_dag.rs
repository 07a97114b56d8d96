//! Prices orders by a flow whose steps form a DAG: `examples/data/flow_dag.yaml`. It shows that
//!
//! * two tools that need nothing run at once, and each other step begins when the steps that it
//!   `needs` have ended;
//! * CEL gives values and conditions, and jq transforms lists;
//! * a program whose flows have jq begins its `main` with `jq_helper`, because jq runs in helper
//!   processes of the program itself.
//!
//! Without an argument the database is a SQLite file in a temporary directory.
//!
//! `cargo run --example flow_dag [-- DATABASE]`

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};
use workflow_flows::expression::jq_helper;
use workflow_flows::graph::Flow;
use workflow_flows::{ErrorClass, FlowClient, FlowRuntime, FlowStart, ToolCall, ToolError, check, flow, levels};
use workflow_sdk::prelude::*;
use workflow_worker::Worker;

const PRICING: &str = include_str!("data/flow_dag.yaml");

/// The error of `main`.
type Failed = Box<dyn std::error::Error>;

#[derive(Deserialize)]
struct Wanted {
    skus: Vec<String>,
}

#[derive(Deserialize)]
struct Mail {
    to: String,
    text: String,
}

/// Returns the price of each article in cents. An unknown article is never tried again.
async fn prices(wanted: Wanted, _call: ToolCall) -> Result<BTreeMap<String, u64>, ToolError> {
    let mut found = BTreeMap::new();
    for sku in wanted.skus {
        let cents = match sku.as_str() {
            "pen" => 300,
            "desk" => 25_000,
            _ => return Err(ToolError::new(ErrorClass::Invalid, format!("there is no article {sku:?}"))),
        };
        found.insert(sku, cents);
    }
    Ok(found)
}

async fn send(mail: Mail, _call: ToolCall) -> Result<Value, ToolError> {
    println!("mail to {}: {}", mail.to, mail.text);
    Ok(json!({ "sent": true }))
}

/// The tools of the worker. They stand for a price list, a list of customers and a mail server.
fn runtime() -> FlowRuntime {
    let find = |args: Value, _call: ToolCall| async move {
        let tier = if args["customer"] == "acme" { "gold" } else { "plain" };
        Ok(json!({ "tier": tier }))
    };
    FlowRuntime::builder().tool("catalog.prices", prices).tool("crm.find", find).tool("mail.send", send).build()
}

/// Checks the document. Prints each finding with its place.
fn pricing_flow() -> Result<Flow, String> {
    let checked = check::check(PRICING, &check::Options::default());
    for finding in &checked.findings {
        eprintln!("{}:{}: {} {}", finding.line, finding.column, finding.code, finding.message);
    }
    checked.flow.ok_or_else(|| "the flow has faults".to_owned())
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    // In a helper process this call does not return.
    jq_helper();
    let directory = tempfile::tempdir()?;
    let in_directory = || format!("sqlite://{}", directory.path().join("orders.db").display());
    let url = std::env::args().nth(1).unwrap_or_else(in_directory);
    let client = Client::connect(url.as_str()).await?;

    let pricing = pricing_flow()?;
    for level in levels(&pricing.body) {
        println!("level: {}", level.join(", "));
    }
    let worker = Worker::new(client.clone(), runtime()).register(flow);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let worker = tokio::spawn(worker.run_until(async { drop(stopped.await) }));

    let large = [json!({ "sku": "desk", "count": 1 }), json!({ "sku": "pen", "count": 10 })];
    let small = [json!({ "sku": "pen", "count": 2 })];
    for order in [
        json!({ "id": "o-1", "customer": "acme", "lines": large }),
        json!({ "id": "o-2", "customer": "beta", "lines": small }),
    ] {
        let run = client.start_definition(FlowStart::new(pricing.clone()).input(order)).await?;
        let priced = run.result().await?;
        println!("{} costs {} cents: {}", priced["id"], priced["cents"], priced["lines"]);
    }

    drop(stop);
    worker.await??;
    Ok(())
}
