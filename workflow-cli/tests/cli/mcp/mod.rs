//! `workflow mcp`: an agent over a real process, which knows nothing but the answers of its tools.

mod access;
mod client;
mod mending;
mod refusals;
mod two_table;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use client::{Agent, Program};
use serde_json::{Value, json};
use workflow_flows::{FlowRuntime, ToolCall, flow};
use workflow_sdk::prelude::*;
use workflow_tests::{Database, Live, LocalWorker};
use workflow_worker::Worker;

const TOKEN: &str = "a-token-of-the-tests";

/// How long a run may take to be in the state that a test waits for. It is long enough for a busy
/// machine, and for a call that itself waits half a minute in vain.
const PATIENCE: Duration = Duration::from_secs(60);

/// A flow that waits for an approval.
const GATE: &str = "flow: 1\nname: gates\ndo:\n  - { id: gate, approval: { to: ops, title: Go? } }\n";

/// A flow whose approval and decision each fail at their first visit, before they wait.
const FAILS_FIRST: &str = "flow: 1\nname: again\ngraph:\n  \
     start: { set: { n: 0 }, next: sign }\n  \
     sign: { approval: { to: ops, title: \"Sign {{10 / vars.n}}?\" }, \
     max_visits: 5, on_error: { goto: one }, next: zero }\n  \
     one: { set: { n: 1 }, max_visits: 5, next: sign }\n  \
     zero: { set: { n: 0 }, next: ask }\n  \
     ask: { decision: { prompt: \"Now {{10 / vars.n}}?\", options: { again: once more, stop: enough } }, \
     max_visits: 5, on_error: { goto: mend }, \
     branch: [ { if: result.choice == \"again\", then: ask } ], else: end }\n  \
     mend: { set: { n: 1 }, max_visits: 5, next: ask }\n  \
     end: { set: { fine: true }, done: true }\n";

/// A worker with the tool that the documents of these tests call.
pub(crate) fn worker(live: &Live) -> Worker<FlowRuntime> {
    let charge = |args: Value, _call: ToolCall| async move {
        Ok(json!({ "receipt": format!("r-{}", args["order"].as_str().unwrap_or_default()), "card": args["card"] }))
    };
    live.worker(FlowRuntime::builder().tool("charge", charge).build()).register(flow)
}

/// A name that no other test has, because all tests on PostgreSQL share the table of flows.
pub(crate) fn unique(name: &str) -> String {
    format!("{name}-{}", workflow_sdk::RunId::generate())
}

/// Starts a deployed flow, answers what it asks, and returns its output.
async fn run_to_end(agent: &Agent, name: &str) -> Value {
    let input = json!({ "order": "o-1", "total": 5 });
    let started = agent.call("run_start", json!({ "flow": name, "input": input, "key": name })).await.unwrap();
    let again = agent.call("run_start", json!({ "flow": name, "input": input, "key": name })).await.unwrap();
    assert_eq!((&again["outcome"], &again["run"]), (&json!("existed"), &started["run"]));
    let run = started["run"].as_str().unwrap();
    for _ in 0..50 {
        let state = agent.call("run_status", json!({ "run": run, "wait_seconds": 30 })).await.unwrap();
        if state["ended"] == json!(true) {
            assert_eq!(state["status"], "succeeded", "{state}");
            return state["output"].clone();
        }
        for wait in state["waits"].as_array().unwrap() {
            let mut answer = json!({ "run": run, "step": wait["step"] });
            match wait["kind"].as_str().unwrap() {
                "approval" => {
                    assert_eq!((&wait["to"], &wait["asks"]["title"]), (&json!("ops"), &json!("Ship o-1?")));
                    answer["note"] = json!("fine");
                }
                "decision" => {
                    let options = wait["asks"]["options"].as_object().unwrap();
                    answer["result"] = json!(options.keys().next_back().unwrap());
                }
                kind => panic!("{kind}"),
            }
            agent.call(wait["tool"].as_str().unwrap(), answer).await.unwrap();
        }
    }
    panic!("run {run} did not end");
}

async fn mends_and_runs(agent: &Agent, prefix: &str) {
    let mut unmended = Vec::new();
    let mut mended = Vec::new();
    for (name, document) in mending::broken_documents(prefix) {
        let refused = agent.call("flow_deploy", json!({ "document": document })).await.unwrap_err();
        assert!(refused["code"] == "invalid_flow" && !refused["findings"].as_array().unwrap().is_empty(), "{refused}");
        match mending::mend(agent, &document).await {
            Ok(document) => mended.push((name, document)),
            Err(why) => unmended.push(format!("{name}: {why}")),
        }
    }
    assert!(unmended.is_empty(), "{} of 30:\n{}", unmended.len(), unmended.join("\n"));
    for (name, document) in &mended {
        let deployed = agent.call("flow_deploy", json!({ "document": document })).await.unwrap();
        assert!(deployed["is_new"] == json!(true) && deployed["name"] == json!(name), "{deployed}");
        let again = agent.call("flow_deploy", json!({ "document": document })).await.unwrap();
        assert_eq!((&again["is_new"], &again["version"]), (&json!(false), &json!("1")));
    }
    for (name, _) in &mended {
        let output = run_to_end(agent, name).await;
        assert_eq!(output, json!({ "receipt": "r-o-1", "by": "van", "approved": true }), "{name}");
    }
}

async fn an_agent_mends_deploys_and_runs_flows(database: Database) {
    let live = Live::new(database).await;
    let worker = LocalWorker::start(worker(&live));
    let agent = Agent::over_stdio(&live, &[]).await;
    assert!(agent.instructions().contains("flow_check"));
    let prefix = unique("mended");
    mends_and_runs(&agent, &prefix).await;

    let versions = agent.call("flow_list", json!({ "name": format!("{prefix}-7") })).await.unwrap();
    assert_eq!(versions["items"][0]["input"]["required"], json!(["order"]));
    assert_eq!(versions["items"][0]["deployed_by"], "agent");
    let mut listed = BTreeSet::new();
    let mut page = json!({ "limit": 7 });
    loop {
        let found = agent.call("flow_list", page.clone()).await.unwrap();
        let names = found["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap().to_owned());
        listed.extend(names.filter(|name| name.starts_with(&prefix)));
        let Some(next) = found.get("next") else { break };
        page["after"] = next.clone();
    }
    assert_eq!(listed.len(), 30);
    agent.leave().await;
    worker.stop().await;
    live.sweep().await;
}

#[tokio::test]
async fn an_agent_mends_deploys_and_runs_flows_on_sqlite() {
    an_agent_mends_deploys_and_runs_flows(Database::Sqlite).await;
}

#[tokio::test]
async fn an_agent_mends_deploys_and_runs_flows_on_postgres() {
    an_agent_mends_deploys_and_runs_flows(Database::Postgres).await;
}

#[tokio::test]
async fn an_agent_works_over_http_as_over_stdio() {
    let live = Live::new(Database::Sqlite).await;
    let worker = LocalWorker::start(worker(&live));
    let program = Program::start(&live, Some(TOKEN), &[]).await;
    let agent = Agent::over_http(&program, Some(TOKEN)).await;
    assert!(agent.instructions().contains("flow_check"));
    let (name, document) = mending::broken_documents(&unique("http")).remove(0);
    let document = mending::mend(&agent, &document).await.unwrap();
    agent.call("flow_deploy", json!({ "document": document })).await.unwrap();
    assert_eq!(run_to_end(&agent, &name).await["receipt"], "r-o-1");

    let list = agent.call("run_list", json!({ "query": format!("tag.flow:{name}") })).await.unwrap();
    let run = list["items"][0]["run"].as_str().unwrap().to_owned();
    assert_eq!((&list["items"][0]["flow"], &list["complete"]), (&json!(name), &json!(true)));
    let read: Value = serde_json::from_str(&agent.read(&format!("run://{run}")).await.unwrap()).unwrap();
    assert_eq!(read["input"], json!({ "order": "o-1", "total": 5 }));
    let steps = agent.call("run_status", json!({ "run": run, "steps": 3 })).await.unwrap();
    let next = steps["next_steps"].as_str().unwrap();
    let more = agent.call("run_status", json!({ "run": run, "steps": 100, "after": next })).await.unwrap();
    assert_ne!(steps["steps"][0], more["steps"][0]);

    let schema: Value = serde_json::from_str(&agent.read("flow://schema").await.unwrap()).unwrap();
    assert_eq!(schema["title"], "flow: 1");
    assert!(agent.read("flow://format").await.unwrap().contains("flow: 1"));
    assert_eq!(agent.read("flow://tools").await.unwrap(), r#"{"tools":null}"#);
    agent.leave().await;
    program.stop().await;
    worker.stop().await;
    live.sweep().await;
}

#[tokio::test]
async fn a_rejection_outlives_a_retry_and_a_fork_asks_again() {
    let live = Live::new(Database::Sqlite).await;
    let worker = LocalWorker::start(worker(&live));
    let agent = Agent::over_stdio(&live, &["--role", "operator"]).await;
    let started = agent.call("run_start", json!({ "document": GATE, "tags": { "flow": "other" } })).await.unwrap();
    let run = started["run"].as_str().unwrap();
    let asked = agent.call("run_status", json!({ "run": run, "wait_seconds": 30 })).await.unwrap();
    assert_eq!(asked["flow"], "gates", "the tag is the server's");
    let reject = json!({ "run": run, "step": "gate", "approved": false, "note": "too dear" });
    assert_eq!(agent.call("step_ready", reject.clone()).await.unwrap()["outcome"], "decided");
    let failed = ended(&agent, run).await;
    let twice = agent.call("step_ready", reject).await;
    assert!(twice.is_err() || twice.unwrap()["outcome"] == "already_decided");
    assert_eq!(failed["status"], "failed");
    assert!(failed["error"]["message"].as_str().unwrap().contains("too dear"), "{failed}");

    assert_eq!(agent.call("run_retry", json!({ "run": run })).await.unwrap()["outcome"], "retried");
    let again = ended(&agent, run).await;
    assert_eq!((&again["status"], &again["error"]), (&failed["status"], &failed["error"]), "the answer stands");
    let fork = live.client.fork(run.parse().unwrap()).from("gate").await.unwrap().id().to_string();
    let asked = agent.call("run_status", json!({ "run": fork, "wait_seconds": 30 })).await.unwrap();
    assert_eq!(asked["waits"][0]["step"], "gate", "{asked}");
    let canceled = agent.call("run_cancel", json!({ "run": fork, "reason": "enough" })).await.unwrap();
    assert!(canceled["outcome"].as_str().unwrap().contains("cancel"), "{canceled}");
    agent.leave().await;
    worker.stop().await;
    live.sweep().await;
}

/// Reads the status of a run until `look` finds in it what is waited for, and returns that.
///
/// # Panics
/// Panics with `what` and the last status after [`PATIENCE`].
async fn status_until<T>(agent: &Agent, run: &str, what: &str, look: impl Fn(&Value) -> Option<T>) -> T {
    let limit = Instant::now() + PATIENCE;
    loop {
        let status = agent.call("run_status", json!({ "run": run, "wait_seconds": 30 })).await.unwrap();
        if let Some(found) = look(&status) {
            return found;
        }
        assert!(Instant::now() < limit, "waited {PATIENCE:?} in vain until run {run} {what}: {status}");
    }
}

/// Waits until a run waits for an answer to this step alone, and returns the entry of `waits`.
async fn waits_for(agent: &Agent, run: &str, step: &str) -> Value {
    status_until(agent, run, &format!("waits for {step} alone"), |status| {
        assert_eq!(status["ended"], json!(false), "{status}");
        match status["waits"].as_array().unwrap().as_slice() {
            [wait] if wait["step"] == json!(step) => Some(wait.clone()),
            _ => None,
        }
    })
    .await
}

async fn an_answer_reaches_its_visit_alone(database: Database) {
    let live = Live::new(database).await;
    let worker = LocalWorker::start(worker(&live));
    let agent = Agent::over_stdio(&live, &[]).await;
    let started = agent.call("run_start", json!({ "document": FAILS_FIRST })).await.unwrap();
    let run = started["run"].as_str().unwrap();
    // The visit that failed has no wait, so the wait of the second visit is the first one.
    let sign = waits_for(&agent, run, "sign").await;
    assert_eq!(sign["asks"]["title"], "Sign 10?", "{sign}");
    // A token of the approval names its visit.
    agent.call("step_ready", json!({ "run": run, "step": "sign:1" })).await.unwrap();

    let ask = waits_for(&agent, run, "ask:1").await;
    assert_eq!((&ask["kind"], &ask["asks"]["prompt"]), (&json!("decision"), &json!("Now 10?")), "{ask}");
    let again = json!({ "run": run, "step": "ask:1", "result": "again" });
    agent.call("step_done", again.clone()).await.unwrap();
    let ask = waits_for(&agent, run, "ask:2").await;
    assert_eq!(ask["asks"]["prompt"], "Now 10?", "{ask}");
    let late = agent.call("step_done", again).await.unwrap_err();
    assert_eq!(late["code"], "conflict", "{late}");
    assert!(late["help"].as_str().unwrap().contains("ask:2 (decision, by step_done)"), "{late}");
    assert_eq!(waits_for(&agent, run, "ask:2").await, ask, "a late answer changes nothing");
    agent.call("step_ready", json!({ "run": run, "step": "ask:2", "choice": "stop" })).await.unwrap();
    assert_eq!(ended(&agent, run).await["status"], "succeeded");
    agent.leave().await;
    worker.stop().await;
    live.sweep().await;
}

#[tokio::test]
async fn an_answer_reaches_its_visit_alone_on_sqlite() {
    an_answer_reaches_its_visit_alone(Database::Sqlite).await;
}

#[tokio::test]
async fn an_answer_reaches_its_visit_alone_on_postgres() {
    an_answer_reaches_its_visit_alone(Database::Postgres).await;
}

#[workflow]
async fn greets(ctx: &Ctx) -> Result<Vec<String>> {
    let eu = ctx.scope("eu").signal::<String>("greeting").await?;
    let at = ctx.signal::<String>("at:7").await?;
    let again = ctx.signal::<String>("at:7").await?;
    Ok([eu, at, again].into_iter().flatten().collect())
}

/// The key of a wait has scopes before the name of its signal, and a number behind it.
#[tokio::test]
async fn a_value_reaches_the_wait_of_a_workflow_in_rust() {
    let live = Live::new(Database::Sqlite).await;
    let worker = LocalWorker::start(live.worker(()).register(greets));
    let agent = Agent::over_stdio(&live, &["--role", "operator"]).await;
    let started = agent.call("run_start", json!({ "workflow": "greets" })).await.unwrap();
    let run = started["run"].as_str().unwrap();
    let done = |step: &str| json!({ "run": run, "step": step, "result": step });
    for step in ["eu/greeting", "at:7"] {
        let wait = waits_for(&agent, run, step).await;
        assert_eq!((&wait["kind"], &wait["tool"]), (&json!("signal"), &json!("step_done")), "{wait}");
        agent.call("step_done", done(step)).await.unwrap();
    }
    // An older release has recorded the wait without the name.
    let last = "at:7:1";
    waits_for(&agent, run, last).await;
    let row = format!("run_id = '{run}' AND step_key = '{last}'");
    live.raw().await.execute(format!("UPDATE step_attempts SET output = '{{}}' WHERE {row}")).await;
    assert_eq!(waits_for(&agent, run, last).await["tool"], "run_signal");
    let refused = agent.call("step_done", done(last)).await.unwrap_err();
    assert!(refused["help"].as_str().unwrap().contains("run_signal"), "{refused}");
    agent.call("run_signal", json!({ "run": run, "name": "at:7", "payload": last })).await.unwrap();
    assert_eq!(ended(&agent, run).await["output"], json!(["eu/greeting", "at:7", "at:7:1"]));
    agent.leave().await;
    worker.stop().await;
    live.sweep().await;
}

/// A start that is repeated after a deploy leads to its run.
#[tokio::test]
async fn a_key_has_one_run_over_all_versions() {
    let live = Live::new(Database::Sqlite).await;
    let agent = Agent::over_stdio(&live, &[]).await;
    let name = unique("keyed");
    let document = GATE.replace("name: gates", &format!("name: {name}\ninput: {{ type: object }}"));
    agent.call("flow_deploy", json!({ "document": document })).await.unwrap();
    let start = |input: Value| json!({ "flow": name, "input": input, "key": "k" });
    let first = agent.call("run_start", start(json!({ "order": 1 }))).await.unwrap();
    let later = document.replace("type: object", "type: object, required: [kg]");
    assert_eq!(agent.call("flow_deploy", json!({ "document": later })).await.unwrap()["version"], "2");
    let again = agent.call("run_start", start(json!({ "order": 1 }))).await.unwrap();
    assert_eq!((&again["outcome"], &again["run"]), (&json!("existed"), &first["run"]));
    let other = agent.call("run_start", start(json!({ "kg": 1 }))).await.unwrap_err();
    assert_eq!(other["code"], "conflict", "{other}");
    let unfit = json!({ "flow": name, "input": { "order": 1 }, "key": "l" });
    let unfit = agent.call("run_start", unfit).await.unwrap_err();
    assert_eq!(
        (&unfit["code"], unfit["findings"].as_array().map(Vec::len)),
        (&json!("invalid_input"), Some(1)),
        "{unfit}"
    );
    agent.leave().await;
    live.sweep().await;
}

/// Waits until a run has ended, and returns its status. A call that waits answers at once as long
/// as the run has not noticed a decision.
pub(crate) async fn ended(agent: &Agent, run: &str) -> Value {
    status_until(agent, run, "has ended", |status| (status["ended"] == json!(true)).then(|| status.clone())).await
}

#[tokio::test]
async fn an_event_counts_its_runs_and_a_large_input_is_left_out() {
    let live = Live::new(Database::Sqlite).await;
    let agent = Agent::over_stdio(&live, &["--role", "operator"]).await;
    let emitted = agent.call("event_emit", json!({ "name": "paid", "key": "o-1", "payload": 1 })).await.unwrap();
    assert_eq!((&emitted["outcome"], &emitted["runs"]), (&json!("emitted"), &json!(0)));
    let large = json!({ "document": GATE, "input": "x".repeat(40_000) });
    let large = agent.call("run_start", large).await.unwrap();
    let shown = agent.call("run_status", json!({ "run": large["run"] })).await.unwrap();
    assert_eq!((&shown["input"], &shown["left_out"]["input"]), (&json!(null), &json!(40_002)), "{shown}");
    agent.leave().await;
    live.sweep().await;
}
