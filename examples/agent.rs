//! An agent over MCP: it writes a flow with two faults, mends it by the answers of the server,
//! starts it, and gives the approval that the run waits for. A script stands for the model.
//!
//! `cargo run --example agent`

use rmcp::RoleClient;
use rmcp::model::CallToolRequestParams;
use rmcp::service::{RunningService, ServiceExt};
use serde::Deserialize;
use serde_json::{Value, json};
use workflow_flows::check::Fix;
use workflow_flows::{FlowRuntime, FlowStore, Flows, ToolCall, flow};
use workflow_http::{Access, Actor};
use workflow_mcp::Mcp;
use workflow_sdk::prelude::*;
use workflow_worker::Worker;

/// The first draft of the agent: `retires` and `totl` are not what it means.
const DRAFT: &str = r#"
flow: 1
name: refund
input:
  type: object
  required: [order, total]
  properties: { order: { type: string }, total: { type: number } }
do:
  - id: gate
    approval: { to: ops, title: "Refund {{input.totl}} for {{input.order}}?" }
  - id: pay
    tool: pay
    args: { order: "{{input.order}}", amount: "{{input.total}}" }
    retires: { attempts: 3 }
output: { receipt: "{{steps.pay.receipt}}", by: "{{steps.gate.by}}" }
"#;

type Failed = Box<dyn std::error::Error>;

/// The connection of the agent.
struct Agent(RunningService<RoleClient, ()>);

impl Agent {
    /// Calls a tool. An error is the text with which the server refuses the call.
    async fn call(&self, tool: &'static str, arguments: Value) -> Result<Value, Failed> {
        let arguments = arguments.as_object().cloned().unwrap_or_default();
        let result = self.0.peer().call_tool(CallToolRequestParams::new(tool).with_arguments(arguments)).await?;
        match result.structured_content {
            Some(answer) => Ok(answer),
            None => Err(serde_json::to_string(&result.content)?.into()),
        }
    }

    /// Checks a document, and applies the first fix until no fault is left.
    async fn mend(&self, mut document: String) -> Result<String, Failed> {
        loop {
            let checked = self.call("flow_check", json!({ "document": document })).await?;
            if checked["valid"] == json!(true) {
                return Ok(document);
            }
            let finding = &checked["findings"][0];
            println!("{}: {}", text(&finding["code"]), text(&finding["message"]));
            document = Fix::deserialize(&finding["fix"])?.apply(&document)?;
        }
    }

    /// Follows a run, and gives each approval that it waits for. Returns the output of the run.
    async fn follow(&self, run: &Value) -> Result<Value, Failed> {
        loop {
            let state = self.call("run_status", json!({ "run": run, "wait_seconds": 30 })).await?;
            if state["ended"] == json!(true) {
                return Ok(state["output"].clone());
            }
            for wait in state["waits"].as_array().into_iter().flatten() {
                println!("the run asks: {}", text(&wait["asks"]["title"]));
                self.call("step_ready", json!({ "run": run, "step": wait["step"], "note": "as agreed" })).await?;
            }
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let client = Client::connect("sqlite::memory:").await?;
    let runtime = FlowRuntime::builder()
        .tool("pay", |args: Value, _call: ToolCall| async move { Ok(json!({ "receipt": args["order"] })) })
        .build();
    let worker = Worker::new(client.clone(), runtime).register(flow);

    // In place of two processes: the agent would start `workflow mcp --to DATABASE`.
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let flows = Flows::new(client.clone(), FlowStore::in_memory());
    let mcp = Mcp::new(client).flows(flows);
    let (read, write) = tokio::io::split(theirs);
    let server = tokio::spawn(async move { mcp.serve(Actor::admin("agent"), &Access::local(), read, write).await });
    let agent = Agent(().serve(tokio::io::split(ours)).await?);

    let work = async {
        let document = agent.mend(DRAFT.to_owned()).await?;
        let deployed = agent.call("flow_deploy", json!({ "document": document })).await?;
        println!("deployed {} version {}", text(&deployed["name"]), text(&deployed["version"]));
        let input = json!({ "order": "o-1", "total": 12.5 });
        let start = json!({ "flow": "refund", "input": input, "key": "refund-o-1" });
        let run = agent.call("run_start", start).await?["run"].clone();
        agent.follow(&run).await
    };
    tokio::select! {
        ended = worker.run() => ended?,
        output = work => println!("output: {}", output?),
    }
    agent.0.cancel().await?;
    server.await??;
    Ok(())
}
