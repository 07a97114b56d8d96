//! Runs an order as a flow: tools are closures, and a person approves orders of more than 100.
//!
//! `cargo run --example flows`

use serde::{Deserialize, Serialize};
use serde_json::json;
use workflow_flows::graph::Flow;
use workflow_flows::{ErrorClass, FlowClient, FlowRuntime, FlowStore, ToolCall, ToolError, check, flow};
use workflow_sdk::prelude::*;
use workflow_worker::Worker;

#[derive(Deserialize, Serialize)]
struct Order {
    id: String,
    cents: u64,
}

async fn check_order(order: Order, _call: ToolCall) -> Result<bool, ToolError> {
    match order.cents {
        0 => Err(ToolError::new(ErrorClass::Invalid, format!("order {} costs nothing", order.id))),
        cents => Ok(cents > 10_000),
    }
}

async fn charge(order: Order, call: ToolCall) -> Result<serde_json::Value, ToolError> {
    // The key is equal in each attempt, so the bank takes the money once.
    println!("charge {} for {}, key {}", order.cents, order.id, call.idempotency_key);
    Ok(json!({ "receipt": format!("r-{}", order.id) }))
}

/// The flow: a graph whose step `check` decides where it goes.
const ORDER: &str = r#"
flow: 1
name: order
graph:
  start: { tool: check, args: "{{input}}", branch: [ { if: result == true, then: gate } ], else: charge }
  gate:
    approval: { to: [ops], title: "Charge {{input.id}}?", show: { cents: "{{input.cents}}" } }
    next: charge
  charge: { tool: charge, args: "{{input}}", done: true }
output: { order: "{{input.id}}", receipt: "{{steps.charge.receipt}}" }
"#;

/// Checks the document. Prints each finding with its place.
fn order_flow() -> Result<Flow, String> {
    let checked = check::check(ORDER, &check::Options::default());
    for finding in &checked.findings {
        eprintln!("{}:{}: {} {}", finding.line, finding.column, finding.code, finding.message);
    }
    checked.flow.ok_or_else(|| "the flow has faults".to_owned())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::connect("sqlite::memory:").await?;
    let flows = FlowStore::in_memory();
    let deployed = flows.deploy(&order_flow()?, "ann", None).await?;
    println!("deployed {} version {}", deployed.version.name, deployed.version.version);

    let runtime = FlowRuntime::builder().tool("check", check_order).tool("charge", charge).build();
    let worker = Worker::new(client.clone(), runtime).register(flow);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let worker = tokio::spawn(worker.run_until(async { drop(stopped.await) }));

    let small = client.start_flow(&flows, "order", json!({ "id": "o-1", "cents": 500 })).await?.await?;
    println!("small: {}", small.result().await?);

    let large = client.start_flow(&flows, "order", json!({ "id": "o-2", "cents": 20_000 })).await?.await?;
    let gate = loop {
        match client.approvals_of(large.id()).await?.pop() {
            Some(gate) => break gate,
            None => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    };
    println!("waits for {}", gate.to.unwrap_or_default());
    client.approve(large.id(), &gate.key, "bob").await?;
    println!("large: {}", large.result().await?);

    drop(stop);
    worker.await??;
    Ok(())
}
