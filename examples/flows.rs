//! Runs an order as a flow: tools are closures, and a person approves orders of more than 100.
//!
//! `cargo run --example flows`

use serde::{Deserialize, Serialize};
use serde_json::json;
use workflow_flows::graph::Flow;
use workflow_flows::{ErrorClass, FlowClient, FlowRuntime, FlowStore, ToolCall, ToolError, flow};
use workflow_sdk::prelude::*;
use workflow_worker::Worker;

#[derive(Deserialize, Serialize)]
struct Order {
    id: String,
    cents: u64,
}

async fn check(order: Order, _call: ToolCall) -> Result<bool, ToolError> {
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

/// The lowered form of a document: a graph whose step `check` decides where it goes.
fn order_flow() -> Result<Flow, serde_json::Error> {
    let call = |tool: &str| json!({ "tool": { "tool": tool, "args": "{{input}}" } });
    serde_json::from_value(json!({
        "language": 1, "name": "order", "input": true, "timeout": 86_400_000, "on_timeout": "fail",
        "body": { "graph": { "start": "check", "steps": [
            { "id": "check", "kind": call("check"),
              "next": { "branch": { "cases": [["result", "gate"]], "otherwise": "charge" } } },
            { "id": "gate", "kind": { "approval": {
                "to": ["ops"], "title": "Charge {{input.id}}?", "show": { "cents": "{{input.cents}}" },
            } }, "next": { "goto": "charge" } },
            { "id": "charge", "kind": call("charge"), "next": "done" },
        ] } },
        "output": { "order": "{{input.id}}", "receipt": "{{steps.charge.receipt}}" },
    }))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::connect("sqlite::memory:").await?;
    let flows = FlowStore::in_memory();
    let deployed = flows.deploy(&order_flow()?, "ann", None).await?;
    println!("deployed {} version {}", deployed.version.name, deployed.version.version);

    let runtime = FlowRuntime::builder().tool("check", check).tool("charge", charge).build();
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
