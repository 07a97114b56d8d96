//! Twenty flows, each killed before and after each of its commits: the output is equal each time,
//! and no tool is called for a step whose outcome was recorded.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Calls, echo, flow_with, runtime, step, steps, tool, with};
use serde_json::{Value, json};
use workflow_flows::graph::Flow;
use workflow_flows::{FlowStart, KbStore, flow};
use workflow_testing::TestEnv;

async fn survives(definition: Flow, signals: &[(&str, Value)]) {
    let env = TestEnv::with_state(|| runtime(&Calls::default()).build()).register(flow).await.unwrap();
    let start = FlowStart::new(definition).input(json!({ "n": 3, "list": [1, 2, 3], "person": "ann" })).actor("ann");
    let mut everywhere = env.crash_everywhere(flow, start);
    for (name, payload) in signals {
        everywhere = everywhere.signal(*name, payload);
    }
    let survived = everywhere.await.unwrap();
    assert!(survived.crashes >= 6 && survived.effects > 0, "{survived}");
}

/// Each worker that dies leaves the knowledge base behind, as a database would stay.
#[tokio::test]
async fn a_document_is_written_once() {
    let kb = KbStore::in_memory();
    let of_workers = kb.clone();
    let build = move || runtime(&Calls::default()).knowledge_base(of_workers.clone()).build();
    let env = TestEnv::with_state(build).register(flow).await.unwrap();
    let definition = steps(json!([
        step("w", json!({ "kb": { "base": "notes", "title": "n is {{input.n}}", "text": "" } })),
        echo("a", json!("{{steps.w.revision}}")),
    ]));
    let start = FlowStart::new(definition).input(json!({ "n": 3 })).actor("ann");
    let survived = env.crash_everywhere(flow, start).await.unwrap();
    assert!(survived.crashes >= 8, "{survived}");
    let written = kb.list(None, None, KbStore::MAX_LIMIT).await.unwrap();
    assert!(!written.is_empty() && written.iter().all(|document| document.revision == 1), "{written:?}");
}

macro_rules! flows {
    ($($name:ident: $flow:expr, $signals:expr;)+) => {
        $(#[tokio::test]
        async fn $name() {
            survives($flow, &$signals).await;
        })+
    };
}

fn twice() -> Value {
    json!({ "do": [echo("x", json!("{{input.n + 1}}")), echo("y", json!("{{steps.x}}"))] })
}

fn next(step: Value, next: Value) -> Value {
    with(step, json!({ "next": next }))
}

fn graph(steps: Value) -> Flow {
    flow_with(json!({ "graph": { "start": steps[0]["id"], "steps": steps } }), json!({}))
}

fn each(concurrency: u32, further: Value) -> Value {
    let body = json!({ "do": [echo("x", json!("{{item + index}}"))] });
    let kind = json!({ "until": { "for": "{{input.list}}" }, "max": 9, "concurrency": concurrency, "body": body });
    step("each", json!({ "loop": with(kind, further) }))
}

fn fan(further: Value) -> Value {
    let branches = json!([["a", twice()], ["b", { "do": [echo("z", json!(1))] }]]);
    step("fan", json!({ "parallel": with(json!({ "branches": branches }), further) }))
}

flows! {
    steps_in_order: steps(json!([echo("a", json!(1)), echo("b", json!("{{steps.a}}")), echo("c", json!(2))])), [];
    variables: steps(json!([step("s", json!({ "set": { "n": "{{input.n + 1}}" } })), echo("a",
        json!("{{vars.n}}"))])), [];
    a_condition: steps(json!([with(echo("a", json!(1)), json!({ "when": "input.n == 3" }))])), [];
    a_block_taken: steps(json!([step("i", json!({ "if": { "condition": "input.n > 1", "then": twice() } }))])), [];
    a_case: steps(json!([step("w", json!({ "switch": { "value": "{{input.n}}", "cases": { "3": twice() } } }))])), [];
    items_in_turn: steps(json!([each(1, json!({}))])), [];
    items_at_once: steps(json!([each(3, json!({})), echo("end", json!("{{steps.each}}"))])), [];
    items_collected: steps(json!([each(2, json!({ "on_item_error": "collect", "body": { "do": [
        with(tool("no", "fail", json!({})), json!({ "when": "item == 2" })), echo("x", json!("{{item}}"))
    ] } }))])), [];
    turns: steps(json!([step("t", json!({ "loop": {
        "until": { "until": "index == 2" }, "max": 3, "every": 1_000, "concurrency": 1, "at_max": "stop",
            "body": twice(),
    } }))])), [];
    all_branches: steps(json!([fan(json!({}))])), [];
    branches_that_settle: steps(json!([fan(json!({ "mode": "settle", "concurrency": 1 }))])), [];
    a_dag: flow_with(json!({ "dag": { "steps": [
        echo("a", json!(1)), echo("b", json!(2)), with(echo("c", json!("{{steps.a + steps.b}}")),
            json!({ "needs": ["a", "b"] })),
    ] } }), json!({})), [];
    a_cycle: graph(json!([
        next(step("zero", json!({ "set": { "n": 0 } })), json!({ "goto": "up" })),
        next(step("up", json!({ "set": { "n": "{{vars.n + 1}}" } })), json!({ "goto": "call" })),
        next(echo("call", json!("{{vars.n}}")), json!({ "branch": { "cases": [["result < 3", "up"]],
            "otherwise": "end" } })),
        next(echo("end", json!("{{steps.call}}")), json!("done")),
    ])), [];
    a_join: graph(json!([
        next(step("fan", json!("nothing")), json!({ "parallel": { "branches": ["a", "b"], "join": "end" } })),
        next(echo("a", json!("a")), json!({ "goto": "a2" })),
        next(echo("a2", json!("{{steps.a}}2")), json!("join")),
        next(echo("b", json!("b")), json!("join")),
        next(echo("end", json!("{{steps.a2}} {{steps.b}}")), json!("done")),
    ])), [];
    retries: steps(json!([
        echo("a", json!(1)),
        with(tool("f", "flaky", json!({ "times": 1 })), json!({
            "retry": { "attempts": 9, "backoff": { "constant": { "delay": 1_000 } } }, "output": "done",
        })),
    ])), [];
    a_replacement: steps(json!([with(tool("no", "fail", json!({})), json!({
        "on_error": { "do": { "do": [echo("b", json!("{{error.message}}"))] } },
    }))])), [];
    a_decision: steps(json!([
        step("q", json!({ "decision": { "prompt": "?" } })), echo("a", json!("{{steps.q.choice}}")),
    ])), [("decision:q", json!({ "choice": "yes" }))];
    waits: steps(json!([
        step("nap", json!({ "wait": { "for": 60_000 } })), step("at", json!({ "wait": { "until": "next 08:00" } })),
        echo("a", json!(1)),
    ])), [];
    an_output: flow_with(json!({ "do": [echo("a", json!(1))] }), json!({
        "output": { "a": "{{steps.a}}" }, "on_complete": { "do": [echo("b", json!("{{steps.a}}"))] },
    })), [];
    an_undo: steps(json!([
        with(echo("a", json!(1)), json!({ "undo": { "tool": "echo", "args": "{{steps.a}}" } })),
        tool("b", "fail", json!({ "message": "{{input.n}}" })),
    ])), [];
}
