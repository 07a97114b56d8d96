//! The maps of the engine with two tables: an agent deploys them as they stand, starts them, and
//! gives the two answers of that engine, `step_ready` and `step_done`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use workflow_flows::{FlowRuntime, ToolCall, flow};
use workflow_tests::{Database, Live, LocalWorker};

use super::client::Agent;
use super::{ended, unique};

const RESEARCH: &str = include_str!("../../../../workflow-flows/tests/two_table/research.json");
const BRANCHING: &str = include_str!("../../../../workflow-flows/tests/two_table/branching.json");
const GATE: &str = include_str!("../../../../workflow-flows/tests/two_table/gate.json");

/// Tools that tell their arguments and their account. `is_admin` tells what the test says.
fn tools(is_admin: &Arc<AtomicBool>) -> FlowRuntime {
    let names = ["knowledge_add", "knowledge_search", "knowledge_get", "get_greeting", "pushover_send", "hand_over"];
    let says = |name: &'static str| {
        move |args: Value, call: ToolCall| async move { Ok(json!({ "tool": name, "args": args, "actor": call.actor })) }
    };
    let builder = names.iter().fold(FlowRuntime::builder(), |builder, name| builder.tool(*name, says(name)));
    let is_admin = Arc::clone(is_admin);
    let asked = move |_args: Value, _call: ToolCall| {
        let answer = is_admin.load(Ordering::SeqCst);
        async move { Ok(answer) }
    };
    builder.tool("is_admin", asked).build()
}

/// Deploys a document under a name that no other test has, and starts it.
async fn deploy_and_start(agent: &Agent, document: &str, name: &str, input: Value) -> String {
    let name = unique(name);
    let document = document.replace("NAME", &name);
    let checked = agent.call("flow_check", json!({ "document": document, "name": name })).await.unwrap();
    assert_eq!((&checked["name"], &checked["valid"]), (&json!(name), &json!(true)), "{checked}");
    let deployed = agent.call("flow_deploy", json!({ "document": document, "name": name })).await.unwrap();
    assert_eq!((&deployed["name"], &deployed["version"]), (&json!(name), &json!("1")), "{deployed}");
    assert_eq!((&deployed["findings"], &deployed["is_new"]), (&json!([]), &json!(true)), "{deployed}");
    let start = json!({ "flow": name, "input": input });
    agent.call("run_start", start).await.unwrap()["run"].as_str().unwrap().to_owned()
}

/// Returns the output of a run that succeeds.
async fn output(agent: &Agent, run: &str) -> Value {
    let state = ended(agent, run).await;
    assert_eq!(state["status"], "succeeded", "{state}");
    state["output"].clone()
}

/// Returns the one answer that the run waits for.
async fn awaited(agent: &Agent, run: &str) -> Value {
    let state = agent.call("run_status", json!({ "run": run, "wait_seconds": 60 })).await.unwrap();
    let waits = state["waits"].as_array().unwrap();
    assert_eq!(waits.len(), 1, "{state}");
    waits[0].clone()
}

async fn the_two_table_maps_run_over_mcp(database: Database) {
    let live = Live::new(database).await;
    let is_admin = Arc::new(AtomicBool::new(true));
    let worker = LocalWorker::start(live.worker(tools(&is_admin)).register(flow));
    let agent = Agent::over_stdio(&live, &[]).await;

    let run = deploy_and_start(&agent, RESEARCH, "research", json!({ "topic": "AI safety" })).await;
    let message = json!({ "tool": "pushover_send", "args": { "message": "Research complete" }, "actor": "agent" });
    assert_eq!(output(&agent, &run).await, message);

    for (admin, tool) in [(true, "knowledge_add"), (false, "get_greeting")] {
        is_admin.store(admin, Ordering::SeqCst);
        let run = deploy_and_start(&agent, BRANCHING, "branching", json!({})).await;
        assert_eq!(output(&agent, &run).await["tool"], tool);
    }

    let run = deploy_and_start(&agent, GATE, "gate", json!({ "title": "T", "body": "B" })).await;
    let wait = awaited(&agent, &run).await;
    assert_eq!((&wait["step"], &wait["kind"]), (&json!("start"), &json!("approval")), "{wait}");
    assert_eq!((&wait["tool"], &wait["to"]), (&json!("step_ready"), &json!("agent")), "{wait}");
    let refused = agent.call("step_done", json!({ "run": run, "step": "start", "result": true })).await.unwrap_err();
    assert_eq!(refused["code"], "conflict", "{refused}");
    assert!(refused["help"].as_str().unwrap().contains("start (approval, by step_ready)"), "{refused}");
    assert_eq!(awaited(&agent, &run).await, wait, "a refused answer changes nothing");
    let ready = json!({ "run": run, "step": wait["step"], "note": "fine" });
    assert_eq!(agent.call("step_ready", ready).await.unwrap()["outcome"], "decided");
    let added = json!({ "tool": "knowledge_add", "args": { "title": "T", "body": "B" }, "actor": "agent" });
    assert_eq!(output(&agent, &run).await, added);

    agent.leave().await;
    worker.stop().await;
    live.sweep().await;
}

#[tokio::test]
async fn the_two_table_maps_run_over_mcp_on_sqlite() {
    the_two_table_maps_run_over_mcp(Database::Sqlite).await;
}

#[tokio::test]
async fn the_two_table_maps_run_over_mcp_on_postgres() {
    the_two_table_maps_run_over_mcp(Database::Postgres).await;
}

/// A map has no step that is done elsewhere, so a flow of our own has one.
async fn step_done_ends_a_step_that_is_done_elsewhere(database: Database) {
    let live = Live::new(database).await;
    let worker = LocalWorker::start(live.worker(tools(&Arc::default())).register(flow));
    let agent = Agent::over_stdio(&live, &[]).await;
    let document = "flow: 1\nname: NAME\ndo:\n  - { id: print, tool: hand_over, external: true, args: { page: 1 } }\n";
    let run = deploy_and_start(&agent, document, "print", json!({})).await;
    let wait = awaited(&agent, &run).await;
    assert_eq!((&wait["step"], &wait["kind"]), (&json!("print:0"), &json!("report")), "{wait}");
    assert_eq!(wait["tool"], "step_done", "{wait}");
    agent.call("step_done", json!({ "run": run, "step": wait["step"], "result": { "pages": 1 } })).await.unwrap();
    assert_eq!(output(&agent, &run).await, json!({ "pages": 1 }));
    agent.leave().await;
    worker.stop().await;
    live.sweep().await;
}

#[tokio::test]
async fn step_done_ends_a_step_that_is_done_elsewhere_on_sqlite() {
    step_done_ends_a_step_that_is_done_elsewhere(Database::Sqlite).await;
}

#[tokio::test]
async fn step_done_ends_a_step_that_is_done_elsewhere_on_postgres() {
    step_done_ends_a_step_that_is_done_elsewhere(Database::Postgres).await;
}
