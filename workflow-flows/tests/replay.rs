//! A replay of a flow evaluates nothing: each construct runs once, and its stored history replays
//! with an evaluator that panics. The histories stand in files, so a later release replays them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::path::PathBuf;

use common::{Calls, Panics, begin, echo, flow_with, runtime, step, steps, tool, with};
use serde_json::{Value, json};
use workflow_flows::graph::Flow;
use workflow_flows::{FlowRuntime, FlowStore, KbStore, ScriptedModel, flow};
use workflow_sdk::prelude::*;
use workflow_sdk::testing::replay;
use workflow_testing::TestEnv;

/// A workflow that a flow calls by its name.
#[workflow]
async fn double(ctx: &Ctx<FlowRuntime>, n: u64) -> Result<u64> {
    ctx.step("double", async || ok(n * 2)).await
}

/// Returns an env whose worker has what each construct needs.
async fn env_of_all() -> TestEnv<FlowRuntime> {
    let (flows, kb) = (FlowStore::in_memory(), KbStore::in_memory());
    let mut child = steps(json!([echo("in", json!("{{input}}"))]));
    child.name = "child".to_owned();
    flows.deploy(&child, "ann", None).await.unwrap();
    let build = move || {
        let model = ScriptedModel::new([json!({ "short": "ok" })]);
        runtime(&Calls::default()).flows(flows.clone()).knowledge_base(kb.clone()).model(model).build()
    };
    TestEnv::with_state(build).register(flow).register(double).await.unwrap()
}

/// Each construct with its name. Those that wait for something get it from [`history`].
fn constructs() -> Vec<(&'static str, Flow)> {
    let one = |kind: Value| steps(json!([step("s", kind)]));
    let block = json!({ "do": [echo("in", json!("{{input.n}}"))] });
    let next = |step: Value, next: Value| with(step, json!({ "next": next }));
    vec![
        ("tool", steps(json!([with(echo("s", json!("{{input.n}}")), json!({ "output": { "n": "{{result}}" } }))]))),
        ("when", steps(json!([with(echo("s", json!(1)), json!({ "when": "input.n > 9" }))]))),
        ("if", one(json!({ "if": { "condition": "input.n == 5", "then": block, "otherwise": null } }))),
        ("switch", one(json!({ "switch": { "value": "{{input.n}}", "cases": { "5": block }, "default": null } }))),
        (
            "telling_switch",
            steps(json!([with(
                step("s", json!({ "switch": { "value": "{{input.n}}", "cases": {}, "default": null, "tells": true } })),
                json!({ "output": "{{result}}" }),
            )])),
        ),
        (
            "for",
            one(json!({ "loop": {
            "until": { "for": "{{input.list}}" }, "max": 9, "concurrency": 2,
            "body": { "do": [echo("in", json!("{{item + index}}"))] },
        } })),
        ),
        (
            "jq_loop",
            one(json!({ "loop": { "until": { "jq": ".input.list[]" }, "max": 9, "concurrency": 1, "body": block } })),
        ),
        (
            "while",
            steps(json!([
                step("zero", json!({ "set": { "n": 0 } })),
                step(
                    "s",
                    json!({ "loop": {
                "until": { "while": "vars.n < 2" }, "max": 9, "every": 1_000, "concurrency": 1,
                "body": { "do": [step("up", json!({ "set": { "n": "{{vars.n + 1}}" } }))] },
            } })
                ),
            ])),
        ),
        (
            "until",
            one(json!({ "loop": {
            "until": { "until": "result == 5" }, "max": 9, "concurrency": 1, "body": block,
        } })),
        ),
        (
            "parallel",
            one(json!({ "parallel": { "branches": [["a", block], ["b", { "do": [echo("c", json!(1))] }]] } })),
        ),
        (
            "race",
            one(json!({ "parallel": {
            "branches": [["a", { "do": [tool("w", "sleep", json!({ "ms": 9 }))] }], ["b", block]], "mode": "race",
        } })),
        ),
        (
            "dag",
            flow_with(
                json!({ "dag": { "steps": [
            echo("a", json!(1)), with(echo("b", json!("{{steps.a}}")), json!({ "needs": ["a"] })),
        ] } }),
                json!({}),
            ),
        ),
        (
            "graph",
            flow_with(
                json!({ "graph": { "start": "a", "steps": [
            next(echo("a", json!(1)), json!({ "branch": { "cases": [["result == 1", "fan"]], "otherwise": null } })),
            next(step("fan", json!("nothing")), json!({ "parallel": { "branches": ["b", "c"], "join": "d" } })),
            next(echo("b", json!("{{steps.a}}")), json!("join")),
            next(echo("c", json!(2)), json!("join")),
            next(echo("d", json!("{{steps.c}}")), json!("done")),
        ] } }),
                json!({}),
            ),
        ),
        ("approval", one(json!({ "approval": { "to": ["{{input.person}}"], "title": "n is {{input.n}}" } }))),
        ("decision", one(json!({ "decision": { "prompt": "n is {{input.n}}" } }))),
        ("nap", one(json!({ "wait": { "for": 1_000 } }))),
        ("until_time", one(json!({ "wait": { "until": "next {{input.at}}" } }))),
        (
            "event",
            one(json!({ "wait": { "event": { "name": "e", "key": "{{input.person}}", "matches": "event == 5" } } })),
        ),
        ("emit", one(json!({ "emit": { "event": "e", "key": "{{input.person}}", "data": "{{input.n}}" } }))),
        ("set", one(json!({ "set": { "x": "{{input.n + 1}}" } }))),
        ("jq", one(json!({ "jq": ".input.n" }))),
        ("fail", one(json!({ "fail": { "class": "failed", "message": "n is {{input.n}}" } }))),
        (
            "handoff",
            one(json!({ "handoff": { "to": "{{input.person}}", "text": "n is {{input.n}}", "via": ["echo"] } })),
        ),
        (
            "undo",
            steps(json!([
                with(echo("a", json!(1)), json!({ "undo": { "tool": "echo", "args": "{{steps.a}}" } })),
                tool("b", "fail", json!({ "message": "{{input.n}}" })),
            ])),
        ),
        (
            "on_error",
            flow_with(
                json!({ "do": [with(tool("a", "fail", json!({})), json!({ "on_error": { "do": { "do": [echo("b",
                    json!("{{error.message}}"))] } } }))] }),
                json!({ "on_complete": { "do": [echo("c", json!("{{steps.a}}"))] }, "output": "{{result}}" }),
            ),
        ),
        (
            "settle",
            one(json!({ "parallel": {
            "branches": [["a", block], ["b", { "do": [tool("no", "fail", json!({}))] }]], "mode": "settle",
        } })),
        ),
        (
            "dag_output",
            flow_with(
                json!({ "dag": { "steps": [with(echo("a", json!("{{input.n}}")), json!({
            "output": { "a": "{{result + 1}}" },
        }))] } }),
                json!({ "output": "{{steps.a.a}}" }),
            ),
        ),
        (
            "retried_block",
            steps(json!([with(
                step("s", json!({ "if": { "condition": "true", "then": { "do": [tool("no", "fail", json!({}))] } } })),
                json!({ "retry": { "attempts": 2, "backoff": { "constant": { "delay": 60_000 } } }, "on_error": "ignore" }),
            )])),
        ),
        (
            "late_block",
            steps(json!([with(
                step(
                    "s",
                    json!({ "if": { "condition": "true", "then": { "do": [step("nap",
                    json!({ "wait": { "for": 60_000 } }))] } } })
                ),
                json!({ "timeout": 1_000, "on_error": "ignore" }),
            )])),
        ),
        (
            "recipe",
            one(json!({ "recipe": { "prompt": "Sum up {{args.n}}", "output": {}, "args": { "n": "{{input.n}}" } } })),
        ),
        (
            "kb",
            one(
                json!({ "kb": { "base": "notes", "title": "n is {{input.n}}", "text": "{{input.person}}", "key": "k" } }),
            ),
        ),
        ("sub_flow", one(json!({ "flow": { "name": "child", "args": "{{input.n}}" } }))),
        ("detached_flow", one(json!({ "flow": { "name": "child", "args": "{{input.n}}", "detach": true } }))),
        ("workflow", one(json!({ "flow": { "name": "double", "is_workflow": true, "args": "{{input.n}}" } }))),
        ("external", one(json!({ "tool": { "tool": "echo", "args": "{{input.n}}", "external": true } }))),
        (
            // The stored history is that of the second generation.
            "continued",
            steps(json!([
                echo("a", json!("{{input.n}}")),
                step(
                    "s",
                    json!({ "loop": {
                "until": { "while": "index < 1002" }, "max": 2_000, "concurrency": 1,
                "body": { "do": [step("in", json!("nothing"))] },
            } })
                ),
                echo("b", json!("{{steps.a}}")),
            ])),
        ),
    ]
}

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/histories").join(format!("{name}.json"))
}

/// Runs a construct to its end and returns its history.
async fn history(name: &str, definition: Flow) -> String {
    let env = env_of_all().await;
    let run = begin(&env, definition, json!({ "n": 5, "person": "ann", "at": "08:00", "list": [1, 2] })).await;
    match name {
        "approval" => {
            env.client().await.unwrap().approve(run.id(), "s", "ann").await.unwrap();
        }
        "decision" => {
            env.signal(&run, "decision:s", &json!({ "choice": 7 })).await.unwrap();
        }
        "external" => {
            env.signal(&run, "done:s", &json!({ "result": 7 })).await.unwrap();
        }
        "event" => {
            for event in [4, 5] {
                assert_eq!(run.emit("e", "ann", &json!(event)).await.unwrap(), 1);
            }
        }
        _ => {}
    }
    let ended = run.finish().await;
    assert_eq!(ended.is_err(), ["fail", "undo"].contains(&name), "{name}: {ended:?}");
    assert_eq!(run.run().await.unwrap().generation > 0, name == "continued", "{name}");
    run.export().await.unwrap().to_json()
}

#[tokio::test]
async fn a_history_of_each_construct_replays_without_an_evaluation() {
    for (name, definition) in constructs() {
        let fresh = history(name, definition).await;
        // A recorded decision counts for no limit of the worker that replays it.
        let panics = || runtime(&Calls::default()).evaluator(Panics).decision_limit(1).unwrap().build();
        if let Err(misfit) = replay(flow, panics(), &fresh) {
            panic!("{name}: {misfit}");
        }
        // To write the files of a new construct: WORKFLOW_REWRITE=1.
        if std::env::var_os("WORKFLOW_REWRITE").is_some() && !file(name).exists() {
            std::fs::write(file(name), format!("{fresh}\n")).unwrap();
        }
        let stored = std::fs::read_to_string(file(name)).expect("each construct has a stored history");
        if let Err(misfit) = replay(flow, panics(), &stored) {
            panic!("{name}, as it was stored: {misfit}");
        }
    }
}
