//! Which requests over HTTP are let in.

use std::time::Instant;

use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use workflow_sdk::operate::{ListAudit, ListRuns};
use workflow_tests::{Database, Live};

use super::client::{Agent, Program};
use super::{PATIENCE, TOKEN, unique};

const DOCUMENT: &str = "flow: 1\nname: NAME\ndo: [ { id: a, set: { x: 1 } } ]\n";

/// The call of each tool, with arguments that it accepts.
fn calls(name: &str, run: &str) -> Vec<(&'static str, Value)> {
    let document = DOCUMENT.replace("NAME", name);
    vec![
        ("flow_check", json!({ "document": document })),
        ("flow_deploy", json!({ "document": document })),
        ("flow_list", json!({})),
        ("run_start", json!({ "document": document })),
        ("run_status", json!({ "run": run })),
        ("run_list", json!({})),
        ("run_signal", json!({ "run": run, "name": "go" })),
        ("step_ready", json!({ "run": run, "step": "gate" })),
        ("step_done", json!({ "run": run, "step": "gate", "result": 1 })),
        ("run_cancel", json!({ "run": run })),
        ("run_retry", json!({ "run": run })),
        ("event_emit", json!({ "name": "paid", "key": "1" })),
    ]
}

/// Calls a tool without a session, as the protocol allows. Returns the status and the answer.
async fn post(
    (client, address): (&reqwest::Client, &str),
    headers: &[(&str, &str)],
    tool: &str,
    arguments: &Value,
) -> (StatusCode, String) {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": tool, "arguments": arguments } });
    let mut request = client.post(format!("http://{address}/mcp")).body(body.to_string());
    request = request.header("content-type", "application/json");
    request = request.header("accept", "application/json, text/event-stream");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = request.send().await.unwrap();
    (response.status(), response.text().await.unwrap())
}

async fn no_call_succeeds_without_the_token(database: Database) {
    let client = super::client::http_client(HeaderMap::new());
    let live = Live::new(database).await;
    let program = Program::start(&live, Some(TOKEN), &[]).await;
    let name = unique("denied");
    let run = live.client.start_by_name("nothing", &Value::Null).await.unwrap().id().to_string();
    let wrong = format!("Bearer {TOKEN}x");
    let basic = format!("Basic {TOKEN}");
    let others: [&[(&str, &str)]; 5] = [
        &[],
        &[("authorization", &wrong)],
        &[("authorization", &basic)],
        &[("authorization", TOKEN)],
        &[("mcp-session-id", "1"), ("cookie", TOKEN), ("x-forwarded-for", "127.0.0.1")],
    ];
    let calls = calls(&name, &run);
    let mut refused = 0;
    for (tool, arguments) in calls.iter().cycle().take(40) {
        for headers in others {
            let (status, text) = post((&client, &program.address), headers, tool, arguments).await;
            assert_eq!(status, StatusCode::UNAUTHORIZED, "{tool}: {text}");
            assert!(text.contains("unauthorized") && !text.contains(&run) && !text.contains("result"), "{text}");
            refused += 1;
        }
    }
    assert_eq!(refused, 200);
    assert!(live.client.operate().audit(ListAudit::new()).await.unwrap().items.is_empty());
    assert_eq!(live.client.operate().runs(ListRuns::default()).await.unwrap().items.len(), 1);

    let token = format!("Bearer {TOKEN}");
    let (status, text) = post((&client, &program.address), &[("authorization", &token)], "run_list", &json!({})).await;
    assert!(status == StatusCode::OK && text.contains(&run), "{status}: {text}");
    let page = [("authorization", token.as_str()), ("origin", "https://evil.example")];
    let (status, text) = post((&client, &program.address), &page, "run_list", &json!({})).await;
    assert!(status == StatusCode::FORBIDDEN && !text.contains(&run), "{text}");
    program.stop().await;
    live.sweep().await;
}

#[tokio::test]
async fn no_call_succeeds_without_the_token_on_sqlite() {
    no_call_succeeds_without_the_token(Database::Sqlite).await;
}

#[tokio::test]
async fn no_call_succeeds_without_the_token_on_postgres() {
    no_call_succeeds_without_the_token(Database::Postgres).await;
}

/// A page of another site whose name leads to this machine is kept out.
#[tokio::test]
async fn without_a_token_this_machine_alone_is_let_in() {
    let client = super::client::http_client(HeaderMap::new());
    let live = Live::new(Database::Sqlite).await;
    let program = Program::start(&live, None, &[]).await;
    for headers in [
        &[("host", "evil.example")][..],
        &[("origin", "http://evil.example")],
        &[("origin", "null")],
        &[("sec-fetch-site", "cross-site")],
    ] {
        let (status, text) = post((&client, &program.address), headers, "run_list", &json!({})).await;
        assert!(status.is_client_error() && !text.contains("result"), "{headers:?}: {status} {text}");
    }
    let (status, text) = post((&client, &program.address), &[], "run_list", &json!({})).await;
    assert!(status == StatusCode::OK && text.contains("complete"), "{text}");
    let get = client.get(format!("http://{}/mcp", program.address));
    assert!(get.send().await.unwrap().status().is_client_error(), "no stream stays open");
    program.stop().await;
    live.sweep().await;
}

async fn answers_of(agent: &Agent, name: &str, run: &str) -> Vec<(&'static str, Result<Value, Value>)> {
    let mut answers = Vec::new();
    for (tool, arguments) in calls(name, run) {
        answers.push((tool, agent.call(tool, arguments).await));
    }
    answers
}

/// A role may call what its tools need, and each tool says whether it only reads.
#[tokio::test]
async fn each_role_may_call_its_tools_alone() {
    let live = Live::new(Database::Sqlite).await;
    for (role, most) in [("viewer", 0), ("operator", 1), ("admin", 2)] {
        let agent = Agent::over_stdio(&live, &["--role", role]).await;
        let name = unique(role);
        let run = live.client.start_by_name("nothing", &Value::Null).await.unwrap().id().to_string();
        for (tool, answer) in answers_of(&agent, &name, &run).await {
            let is_forbidden = answer.is_err_and(|error| error["code"] == "forbidden");
            let hints = agent.tools()[tool].annotations.clone().unwrap();
            let needs = if hints.read_only_hint == Some(true) { 0 } else { 1 + i32::from(tool == "flow_deploy") };
            assert_eq!(is_forbidden, needs > most, "{role} calls {tool}");
        }
        agent.leave().await;
    }
    live.sweep().await;
}

const WAY: &str = "flow: 1\nname: way\n\
                   do: [ { id: way, decision: { prompt: Which?, options: { post: p, van: v } } } ]\n\
                   output: { choice: \"{{steps.way.choice}}\", by: \"{{steps.way.by}}\" }\n";

/// No signal lets an agent decide in the name of a person.
#[tokio::test]
async fn an_agent_decides_in_its_own_name() {
    let live = Live::new(Database::Sqlite).await;
    let worker = workflow_tests::LocalWorker::start(super::worker(&live));
    let agent = Agent::over_stdio(&live, &["--role", "operator"]).await;
    let started = agent.call("run_start", json!({ "document": WAY })).await.unwrap();
    let run = started["run"].as_str().unwrap();
    super::waits_for(&agent, run, "way:0").await;
    let signal = |payload: Value| json!({ "run": run, "name": "decision:way", "payload": payload });
    let refused = agent.call("run_signal", signal(json!(["van", "root"]))).await.unwrap_err();
    assert_eq!(refused["code"], "bad_input", "{refused}");
    agent.call("run_signal", signal(json!({ "choice": "van", "by": "root" }))).await.unwrap();
    assert_eq!(super::ended(&agent, run).await["output"], json!({ "choice": "van", "by": "agent" }));
    agent.leave().await;
    worker.stop().await;
    live.sweep().await;
}

/// Fields with the names of secrets are left out of every answer, and so are values if the actor
/// must not see them.
#[tokio::test]
async fn a_secret_stands_in_no_answer() {
    const MARK: &str = "marked-secret-4711";
    let live = Live::new(Database::Sqlite).await;
    let worker = workflow_tests::LocalWorker::start(super::worker(&live));
    let document = r#"{ "flow": 1, "name": "marked", "do": [
        { "id": "charge", "tool": "charge", "args": { "order": "o-1", "card": "{{input.card}}" } },
        { "id": "gate", "approval": { "to": "ops", "title": "Ship?", "show": { "token": "{{input.card}}" } } },
        { "id": "ask", "decision": { "prompt": "How?", "show": { "password": "{{input.card}}" } } } ],
        "output": { "secret": "{{input.card}}" } }"#;
    for arguments in [&[][..], &["--without-payloads"]] {
        let agent = Agent::over_stdio(&live, arguments).await;
        let start = json!({ "document": document, "input": { "card": MARK, "order": "o-1" } });
        let run = agent.call("run_start", start).await.unwrap()["run"].as_str().unwrap().to_owned();
        let limit = Instant::now() + PATIENCE;
        loop {
            let read = json!({ "run": run, "wait_seconds": 30, "steps": 100 });
            let state = agent.call("run_status", read).await.unwrap();
            agent.read(&format!("run://{run}")).await.unwrap();
            if state["ended"] == json!(true) {
                break;
            }
            assert!(Instant::now() < limit, "run {run} has not ended within {PATIENCE:?}: {state}");
            let wait = &state["waits"][0];
            let done = json!({ "run": run, "step": wait["step"], "result": "x" });
            let ready = json!({ "run": run, "step": wait["step"] });
            let answer = if wait["tool"] == "step_done" { done } else { ready };
            agent.call(wait["tool"].as_str().unwrap(), answer).await.unwrap();
        }
        for (tool, answer) in answers_of(&agent, "marked-again", &run).await {
            drop((tool, answer));
        }
        let heard = agent.heard();
        assert!(heard.contains(&run) && !heard.contains(MARK), "{heard}");
        assert_eq!(heard.contains("[redacted]"), arguments.is_empty());
        assert_eq!(heard.contains("o-1"), arguments.is_empty(), "values are hidden from this actor");
        agent.leave().await;
    }
    worker.stop().await;
    live.sweep().await;
}
