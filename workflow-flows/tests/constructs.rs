//! Each construct of a flow, and its result.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Calls, InPlace, echo, env, env_with, finish, flow_with, run, runtime, step, steps, tool, with};
use serde_json::{Value, json};
use workflow_flows::graph::Flow;
use workflow_flows::{ErrorClass, FlowCode, FlowDocument, ToolCall, flow};
use workflow_sdk::testing::replay;

#[tokio::test]
async fn steps_run_in_order_and_see_the_results_before_them() {
    let flow = flow_with(
        json!({ "do": [
            step("pick", json!({ "set": { "n": "{{input.n + 1}}" } })),
            with(echo("call", json!({ "n": "{{vars.n}}", "text": "n is {{vars.n}}" })),
                json!({ "output": "{{result.text}}" })),
            step("none", json!("nothing")),
        ] }),
        json!({ "output": { "text": "{{steps.call}}", "n": "{{steps.pick.n}}", "last": "{{result}}" } }),
    );
    let env = env().await;
    let (result, run) = finish(&env, flow, json!({ "n": 1 })).await;
    assert_eq!(result.unwrap(), json!({ "text": "n is 2", "n": 2, "last": null }));
    run.assert_ran(["pick", "call", "output="]).await;
}

#[tokio::test]
async fn a_step_whose_condition_is_false_is_skipped() {
    let flow = steps(json!([
        with(echo("a", json!(1)), json!({ "when": "input > 5" })),
        with(echo("b", json!("{{steps.a}}")), json!({ "when": "input > 1" })),
    ]));
    let env = env().await;
    let (result, run) = finish(&env, flow, json!(3)).await;
    assert_eq!(result.unwrap(), Value::Null);
    run.assert_ran(["a?", "b?", "b"]).await;
}

#[tokio::test]
async fn a_condition_that_is_no_boolean_fails_with_f240() {
    let error = run(steps(json!([with(echo("a", json!(1)), json!({ "when": "input" }))])), json!(3)).await.unwrap_err();
    assert_eq!((error.code, error.step.as_str()), (FlowCode::Expression, "a"));
    assert_eq!(error.to_string(), "F240: step \"a\": when is a number; it must be true or false: compare it");
}

#[tokio::test]
async fn if_and_switch_take_one_block() {
    let choose = |default: Value| {
        steps(json!([
            step(
                "big",
                json!({ "if": {
                "condition": "input.n > 10",
                "then": { "do": [echo("yes", json!("big"))] }, "otherwise": { "do": [echo("no", json!("small"))] },
            } })
            ),
            step(
                "route",
                json!({ "switch": {
                "value": "{{input.n}}", "cases": { "5": { "do": [echo("five", json!("{{steps.big}}"))] } },
                    "default": default,
            } })
            ),
        ]))
    };
    assert_eq!(run(choose(Value::Null), json!({ "n": 5 })).await.unwrap(), json!("small"));
    let other = json!({ "do": [echo("other", json!("{{steps.big}} other"))] });
    assert_eq!(run(choose(other), json!({ "n": 11 })).await.unwrap(), json!("big other"));
    let error = run(choose(Value::Null), json!({ "n": 6 })).await.unwrap_err();
    assert_eq!((error.code, error.step.as_str()), (FlowCode::NoCase, "route"));
    assert!(error.message.contains("\"6\"") && error.message.contains("the cases are: 5"), "{error}");
}

#[tokio::test]
async fn a_condition_of_the_dag_engine_tells_the_branch_that_it_took() {
    let checked = |expression: &str, default: Value| {
        let update = |mode: &str| {
            json!([{ "id": mode, "action": "workflow.context", "params": { "action": "update",
                "workflow_id": "${{workflow.run_id}}", "data": { "mode": mode } } }])
        };
        let note = json!({ "id": "note", "action": "workflow.context", "params": { "action": "update",
            "workflow_id": "${{workflow.run_id}}", "data": { "mode": "fast" } } });
        let branches = json!({ "fast": update("slow"), "null": update("none") });
        let config = json!({ "expression": expression, "branches": branches, "default": default });
        let check = json!({ "id": "check", "type": "condition", "depends_on": ["note"], "config": config });
        let end = json!({ "id": "end", "action": "expr.eval", "depends_on": ["check"],
            "params": { "expression": "steps.check" } });
        let checked = FlowDocument::new(json!({ "steps": [note, check, end] }).to_string()).check();
        checked.flow.unwrap_or_else(|| panic!("{:?}", checked.findings))
    };
    let (env, _) = env_with(|calls| runtime(calls).evaluator(InPlace::default()).build()).await;
    let told = async |expression: &str, default: Value, input: Value| {
        let (result, run) = finish(&env, checked(expression, default), input).await;
        let mut told = result.unwrap()["end"]["result"].clone();
        told["output"].take();
        (told, run.ran().await.unwrap())
    };
    // The branch changes what the expression reads.
    let (fast, ran) = told("context.mode", Value::Null, Value::Null).await;
    assert_eq!(fast, json!({ "branch": "fast", "output": null, "skipped": false }));
    assert_eq!(ran, ["note", "note=", "check?", "slow", "slow=", "check=", "end="]);
    // The value has no text in the language of expressions, and takes a branch.
    let (null, _) = told("inputs.mode", json!([]), json!({ "mode": null })).await;
    assert_eq!(null, json!({ "branch": "null", "output": null, "skipped": false }));
    let (other, ran) = told("inputs.mode", json!([]), json!({ "mode": [1] })).await;
    assert_eq!(other, json!({ "branch": "[1]", "output": null, "skipped": true }));
    assert_eq!(ran, ["note", "note=", "check?", "check=", "end="]);
    let wait = json!([{ "id": "nap", "type": "wait", "config": { "duration": "1s" } }]);
    let (default, _) = told("inputs.mode", wait, json!({ "mode": "other" })).await;
    assert_eq!(default, json!({ "branch": "default", "output": null }));
}

#[tokio::test]
async fn a_loop_runs_its_items_at_once_and_in_their_scopes() {
    let each = step(
        "each",
        json!({ "loop": {
        "until": { "for": "{{input}}" }, "max": 3, "concurrency": 2,
        "body": { "do": [echo("twice", json!("{{item + item}}")), echo("at", json!({ "i": "{{loops.each.index}}",
            "t": "{{steps.twice}}" }))] },
    } }),
    );
    let env = env().await;
    let (result, run) = finish(&env, steps(json!([each.clone()])), json!([1, 2, 3])).await;
    let result = result.unwrap();
    assert_eq!(result[2], json!({ "index": 2, "item": 3, "result": { "i": 2, "t": 6 } }));
    let mut ran = run.ran().await.unwrap();
    ran.sort_unstable();
    assert_eq!(ran, ["each", "each/0/at", "each/0/twice", "each/1/at", "each/1/twice", "each/2/at", "each/2/twice"]);
    let (result, _) = finish(&env, steps(json!([each.clone()])), json!([1, 2, 3, 4])).await;
    assert_eq!(result.unwrap_err().code, FlowCode::TooOften);
    let mut stops = each.clone();
    stops["kind"]["loop"]["at_max"] = json!("stop");
    let (result, _) = finish(&env, steps(json!([stops])), json!([1, 2, 3, 4])).await;
    assert_eq!(result.unwrap().as_array().unwrap().len(), 3);
    let (result, _) = finish(&env, steps(json!([each])), json!({ "a": 1 })).await;
    assert!(result.unwrap_err().message.contains("for is an object; it must be a list"));
}

#[tokio::test]
async fn further_names_with_the_index_are_seen_after_the_loop() {
    let inner = with(echo("x", json!("{{item}}")), json!({ "aliases": ["each.{index}.x"] }));
    let each = step(
        "each",
        json!({ "loop": {
        "until": { "for": "{{input}}" }, "max": 9, "concurrency": 2, "body": { "do": [inner] },
    } }),
    );
    let flow = steps(json!([with(each, json!({ "aliases": ["all"] })), echo("end", json!("{{steps['each.1.x']}}"))]));
    assert_eq!(run(flow, json!(["a", "b"])).await.unwrap(), json!("b"));
}

#[tokio::test]
async fn failed_items_end_the_loop_or_are_collected_or_ignored() {
    let each = |on: &str| {
        steps(json!([step(
            "each",
            json!({ "loop": {
            "until": { "jq": ".input[]" }, "max": 10, "concurrency": 1, "on_item_error": on,
            "body": { "do": [with(tool("no", "fail", json!({ "message": "no {{item}}" })),
                json!({ "when": "item == 2" }))] },
        } })
        )]))
    };
    let error = run(each("fail"), json!([1, 2, 3])).await.unwrap_err();
    assert_eq!((error.code, error.step.as_str(), error.message.as_str()), (FlowCode::Tool, "no", "no 2"));
    let collected = run(each("collect"), json!([1, 2, 3])).await.unwrap();
    assert_eq!(collected[1]["error"], json!({ "code": "F250", "class": "failed", "message": "no 2", "step": "no" }));
    assert_eq!(collected[2], json!({ "index": 2, "item": 3, "result": null }));
    assert_eq!(run(each("ignore"), json!([1, 2])).await.unwrap()[1], json!({ "index": 1, "item": 2, "result": null }));
}

#[tokio::test]
async fn loops_by_condition_take_turns_up_to_their_bound() {
    let poll = |until: Value, max: u32, at_max: &str| {
        steps(json!([
            step("zero", json!({ "set": { "n": 0 } })),
            step(
                "poll",
                json!({ "loop": {
                "until": until, "max": max, "every": 60_000, "concurrency": 1, "at_max": at_max,
                "body": { "do": [step("up", json!({ "set": { "n": "{{vars.n + 1}}" } }))] },
            } })
            ),
        ]))
    };
    let env = env().await;
    let began = env.now();
    let (result, run) = finish(&env, poll(json!({ "until": "result.n >= 3" }), 5, "fail"), json!(null)).await;
    assert_eq!(result.unwrap(), json!({ "n": 3 }));
    assert_eq!(env.now().as_micros() - began.as_micros(), 120_000_000, "two waits between three turns");
    run.assert_ran([
        "zero",
        "poll/0/up",
        "poll?",
        "poll/1/sleep",
        "poll/1/up",
        "poll?:1",
        "poll/2/sleep",
        "poll/2/up",
        "poll?:2",
    ])
    .await;
    let (result, _) = finish(&env, poll(json!({ "while": "vars.n < 2" }), 5, "fail"), json!(null)).await;
    assert_eq!(result.unwrap(), json!({ "n": 2 }));
    let (result, _) = finish(&env, poll(json!({ "while": "vars.n < 9" }), 5, "fail"), json!(null)).await;
    let error = result.unwrap_err();
    assert_eq!((error.code, error.message.contains("5 turns")), (FlowCode::TooOften, true));
    let (result, _) = finish(&env, poll(json!({ "until": "result.n == 9" }), 5, "stop"), json!(null)).await;
    assert_eq!(result.unwrap(), json!({ "n": 5 }));
}

#[tokio::test]
async fn a_condition_of_a_loop_reads_the_number_of_its_turn() {
    let turns = |condition: &str| {
        let source = format!(
            "flow: 1\nname: turns\ndo:\n  - id: each\n    loop: {{ {condition}, max: 9 }}\n    do: [ {{ id: note, set: {{ \
             n: \"{{{{index}}}}\" }} }} ]\n"
        );
        let checked = FlowDocument::new(source).check();
        checked.flow.unwrap_or_else(|| panic!("{:?}", checked.findings))
    };
    // A `while` sees the turn that would begin, an `until` the one that has ended.
    assert_eq!(run(turns("while: \"index < 3\""), json!(null)).await.unwrap(), json!({ "n": 2 }));
    assert_eq!(run(turns("until: \"index >= 3\""), json!(null)).await.unwrap(), json!({ "n": 3 }));
    let inner = step(
        "inner",
        json!({ "loop": {
        "until": { "while": "index < 2" }, "max": 9, "concurrency": 1,
        "body": { "do": [echo("in", json!("{{index}}"))] },
    } }),
    );
    let outer = step(
        "outer",
        json!({ "loop": { "until": { "for": "{{input}}" }, "max": 9, "concurrency": 1, "body": { "do": [inner] } } }),
    );
    let results = run(steps(json!([outer])), json!(["a", "b", "c", "d"])).await.unwrap();
    assert_eq!(results[3], json!({ "index": 3, "item": "d", "result": 1 }), "the index is that of the inner loop");
}

#[tokio::test]
async fn a_run_makes_as_many_decisions_as_its_worker_allows() {
    let (env, _) = env_with(|calls| runtime(calls).decision_limit(3).unwrap().build()).await;
    let decides = |id: &str| {
        let choice = json!({ "if": { "condition": "input > 0", "then": { "do": [] }, "otherwise": null } });
        with(step(id, choice), json!({ "on_error": "ignore" }))
    };
    let (result, _) = finish(&env, steps(json!([decides("a"), decides("b"), decides("c")])), json!(1)).await;
    assert_eq!(result.unwrap(), Value::Null);
    let four = steps(json!([decides("a"), decides("b"), decides("c"), decides("d"), echo("e", json!(1))]));
    let (result, run) = finish(&env, four, json!(1)).await;
    let error = result.unwrap_err();
    assert_eq!((error.code, error.step.as_str()), (FlowCode::Decisions, "d"), "no on_error handles it: {error}");
    assert!(error.to_string().starts_with("F223: step \"d\": the run has made 3 decisions"), "{error}");
    run.assert_ran(["a?", "b?", "c?", "d?"]).await;
    for decisions in [0, 1_000_001] {
        assert!(runtime(&Calls::default()).decision_limit(decisions).is_err(), "{decisions}");
    }
}

#[tokio::test]
async fn a_long_loop_continues_as_new_with_its_state() {
    let flow = steps(json!([
        step("zero", json!({ "set": { "n": 0 } })),
        with(
            step(
                "long",
                json!({ "loop": {
                "until": { "until": "result.n == 1500" }, "max": 2000, "concurrency": 1,
                "body": { "do": [step("up", json!({ "set": { "n": "{{vars.n + 1}}" } }))] },
            } })
            ),
            json!({ "when": "vars.n == 0" }),
        ),
        echo("end", json!({ "n": "{{steps.long.n}}", "zero": "{{steps.zero.n}}" })),
    ]));
    // The `when` and a thousand turns: the next generation counts its decisions anew.
    let (env, _) = env_with(|calls| runtime(calls).decision_limit(1_001).unwrap().build()).await;
    let (result, run) = finish(&env, flow, json!(null)).await;
    assert_eq!(result.unwrap(), json!({ "n": 1500, "zero": 0 }));
    assert_eq!(run.run().await.unwrap().generation, 1);
    assert!(run.history().await.unwrap().len() < 1100, "the first thousand turns are gone");
}

#[tokio::test]
async fn the_timeout_of_a_loop_goes_on_in_the_next_generation() {
    let nap = |id: &str| json!({ "do": [step(id, json!({ "wait": { "for": 600_000 } }))] });
    let naps = json!({ "500": nap("first"), "1005": nap("second") });
    let naps = step("naps", json!({ "switch": { "value": "{{index}}", "cases": naps, "default": { "do": [] } } }));
    let turns =
        json!({ "until": { "until": "index == 1010" }, "max": 2_000, "concurrency": 1, "body": { "do": [naps] } });
    let flow = steps(json!([with(step("long", json!({ "loop": turns })), json!({ "timeout": 1_000_000 }))]));
    let env = env().await;
    let began = env.now();
    let (result, run) = finish(&env, flow, json!(null)).await;
    let error = result.unwrap_err();
    assert_eq!((error.class, error.message.as_str()), (ErrorClass::Timeout, "it had not ended after 1000s"));
    assert_eq!(env.now().since(began).as_secs(), 1_000);
    assert_eq!(run.run().await.unwrap().generation, 1);
}

#[tokio::test]
async fn a_long_loop_leaves_results_behind_or_goes_on_if_they_are_too_large() {
    let tools = |calls: &Calls| {
        // Three of them are more than a payload.
        let big = |_args: Value, _call: ToolCall| async { Ok(json!("x".repeat(900_000))) };
        runtime(calls).tool("big", big).build()
    };
    let (env, _) = env_with(tools).await;
    let turns = json!({ "until": { "until": "index == 1001" }, "max": 2_000, "concurrency": 1,
        "body": { "do": [step("in", json!("nothing"))] } });
    let long = |end: Value| {
        let [a, b, c] = ["a", "b", "c"].map(|id| tool(id, "big", json!(null)));
        steps(json!([a, b, c, step("long", json!({ "loop": turns })), end]))
    };
    let (result, run) = finish(&env, long(echo("end", json!({ "c": "{{steps.c}}" }))), json!(null)).await;
    assert_eq!(result.unwrap()["c"].as_str().map(str::len), Some(900_000));
    assert_eq!(run.run().await.unwrap().generation, 1, "the results that nothing reads are left behind");

    let reads_all = with(echo("end", json!("{{steps.c}}")), json!({ "when": "steps.a == steps.b" }));
    let (result, run) = finish(&env, long(reads_all), json!(null)).await;
    assert_eq!(result.unwrap().as_str().map(str::len), Some(900_000));
    assert_eq!(run.run().await.unwrap().generation, 0);
    let history = run.history().await.unwrap();
    let choices: Vec<_> = history.iter().filter(|row| row.step_key.contains(".next")).collect();
    assert_eq!((choices.len(), choices[0].output.as_deref()), (1, Some("false")));
    let history = run.export().await.unwrap().to_json();
    replay(flow, tools(&Calls::default()), &history).unwrap();
}

#[tokio::test]
async fn the_attempts_of_a_loop_go_on_in_the_next_generation() {
    let no = |id: &str| json!({ "do": [tool(id, "fail", json!({}))] });
    let cases = json!({ "1000 in 1": no("first"), "1000 in 2": no("second") });
    let value = "{{index}} in {{run.generation}}";
    let no = step("no", json!({ "switch": { "value": value, "cases": cases, "default": { "do": [] } } }));
    let turns =
        json!({ "until": { "until": "index == 1001" }, "max": 2_000, "concurrency": 1, "body": { "do": [no] } });
    let twice = json!({ "retry": { "attempts": 2, "backoff": "none" } });
    let (result, run) =
        finish(&env().await, steps(json!([with(step("long", json!({ "loop": turns })), twice)])), json!(null)).await;
    assert_eq!(result.unwrap_err().step, "second");
    assert_eq!(run.run().await.unwrap().generation, 2);
}

#[tokio::test]
async fn parallel_blocks_end_by_their_mode() {
    let fan = |mode: &str, second: Value| {
        steps(json!([step(
            "fan",
            json!({ "parallel": {
            "branches": [["slow", { "do": [tool("wait", "sleep", json!({ "ms": 50 }))] }], ["quick",
                { "do": [second] }]],
            "mode": mode,
        } })
        )]))
    };
    let env = env().await;
    let (result, run) = finish(&env, fan("all", echo("now", json!(1))), json!(null)).await;
    assert_eq!(result.unwrap(), json!({ "slow": { "ms": 50 }, "quick": 1 }));
    run.assert_ran(["fan/quick/now", "fan/slow/wait"]).await;
    let no = tool("now", "fail", json!({ "class": "unavailable" }));
    let (result, _) = finish(&env, fan("all", no.clone()), json!(null)).await;
    assert_eq!(result.unwrap_err().class, ErrorClass::Unavailable);
    let (result, _) = finish(&env, fan("settle", no.clone()), json!(null)).await;
    let settled = result.unwrap();
    assert_eq!(
        (&settled["slow"]["ok"]["ms"], &settled["quick"]["error"]["class"]),
        (&json!(50), &json!("unavailable"))
    );
    let (result, _) = finish(&env, fan("race", echo("now", json!(1))), json!(null)).await;
    assert_eq!(result.unwrap(), json!({ "winner": "quick", "result": 1 }));
}

#[tokio::test]
async fn the_first_success_wins_where_failures_wait_for_others() {
    let first = |quick: Value, slow: Value| {
        let branches = json!([["quick", { "do": [quick] }], ["slow", { "do": [step("nap", json!({ "wait": { "for": 50 } })), slow] }]]);
        steps(json!([step("fan", json!({ "parallel": { "branches": branches, "mode": "first" } }))]))
    };
    let no = |id: &str| tool(id, "fail", json!({ "message": format!("no {id}") }));
    let env = env().await;
    let (result, _) = finish(&env, first(no("a"), echo("b", json!(2))), json!(null)).await;
    assert_eq!(result.unwrap(), json!({ "winner": "slow", "result": 2 }));
    let (result, _) = finish(&env, first(echo("a", json!(1)), no("b")), json!(null)).await;
    assert_eq!(result.unwrap(), json!({ "winner": "quick", "result": 1 }));
    let (result, _) = finish(&env, first(no("a"), no("b")), json!(null)).await;
    assert_eq!(result.unwrap_err().message, "no a", "the first failure, once all have failed");
}

#[tokio::test]
async fn a_loop_may_collect_the_results_of_its_turns() {
    let turns = |until: Value| {
        steps(json!([step(
            "poll",
            json!({ "loop": {
            "until": until, "max": 3, "concurrency": 1, "at_max": "stop", "collects": true,
            "body": { "do": [echo("at", json!("{{index + 1}}"))] },
        } })
        )]))
    };
    assert_eq!(run(turns(json!({ "until": "steps.at == 2" })), json!(null)).await.unwrap(), json!([1, 2]));
    assert_eq!(run(turns(json!({ "while": "input" })), json!(true)).await.unwrap(), json!([1, 2, 3]));
    assert_eq!(run(turns(json!({ "while": "input" })), json!(false)).await.unwrap(), json!([]));
}

#[tokio::test]
async fn a_dag_begins_a_step_when_its_needs_have_ended() {
    let need = |mut step: Value, needs: Value| {
        step["needs"] = needs;
        step
    };
    let body = |concurrency: Value| {
        json!({ "dag": { "concurrency": concurrency, "steps": [
            need(echo("sum", json!("{{steps.a + steps.b}}")), json!(["a", "b"])),
            echo("a", json!(1)),
            with(tool("wait", "sleep", json!({ "ms": 20 })), json!({})),
            need(echo("b", json!(2)), json!(["wait"])),
            need(with(echo("skip", json!(9)), json!({ "when": "input == 1" })), json!(["a"])),
        ] } })
    };
    let env = env().await;
    for concurrency in [json!(null), json!(1)] {
        let (result, run) = finish(&env, flow_with(body(concurrency), json!({})), json!(null)).await;
        assert_eq!(result.unwrap(), json!({ "sum": 3, "skip": null }));
        let ran = run.ran().await.unwrap();
        let at = |key: &str| ran.iter().position(|ran| ran == key).unwrap();
        assert!(at("wait") < at("b") && at("b") < at("sum") && at("a") < at("sum"), "{ran:?}");
    }
}

#[tokio::test]
async fn a_graph_goes_by_its_arrows_with_cycles_branches_and_joins() {
    let next = |step: Value, next: Value| with(step, json!({ "next": next }));
    let graph = flow_with(
        json!({ "graph": { "start": "zero", "steps": [
            next(step("zero", json!({ "set": { "n": 0 } })), json!({ "goto": "up" })),
            next(step("up", json!({ "set": { "n": "{{vars.n + 1}}" } })),
                json!({ "branch": { "cases": [["result.n < 3", "up"], ["result.n == 3", "fan"]],
                    "otherwise": null } })),
            next(echo("fan", json!(0)), json!({ "parallel": { "branches": ["a", "b"], "join": "merge" } })),
            next(echo("a", json!("a")), json!({ "goto": "a2" })),
            next(echo("a2", json!("{{steps.a}}2")), json!("join")),
            next(echo("b", json!("b")), json!("join")),
            next(step("merge", json!("nothing")), json!({ "goto": "end" })),
            next(echo("end", json!("{{steps.a2}} {{steps.b}} {{steps.up.n}}")), json!("done")),
        ] } }),
        json!({}),
    );
    let env = env().await;
    let (result, run) = finish(&env, graph, json!(null)).await;
    assert_eq!(result.unwrap(), json!("a2 b 3"));
    let ran = run.ran().await.unwrap();
    for key in ["up", "up:1", "up:2", "up?", "up?:2", "a2", "end"] {
        assert!(ran.iter().any(|ran| ran == key), "{key} in {ran:?}");
    }
    let decision = run.history().await.unwrap().into_iter().find(|row| row.step_key == "up?:2").unwrap();
    assert_eq!(decision.output.as_deref(), Some(r#"{"because":"result.n == 3","then":"fan"}"#));
}

#[tokio::test]
async fn a_graph_fails_without_a_branch_and_after_too_many_visits() {
    let graph = |case: &str, max: Value| {
        flow_with(
            json!({ "graph": { "start": "a", "steps": [with(
                echo("a", json!(1)),
                json!({ "next": { "branch": { "cases": [[case, "a"]], "otherwise": null } }, "max_visits": max }),
            )] } }),
            json!({}),
        )
    };
    let error = run(graph("result == 2", json!(null)), json!(null)).await.unwrap_err();
    assert_eq!((error.code, error.step.as_str()), (FlowCode::NoBranch, "a"));
    let error = run(graph("result == 1", json!(4)), json!(null)).await.unwrap_err();
    assert_eq!((error.code, error.message.contains("4 times")), (FlowCode::TooOften, true));
}

#[tokio::test]
async fn retries_follow_the_class_and_the_delays() {
    let rule = |attempts: u32, on: Value| {
        json!({ "retry": { "attempts": attempts, "backoff": { "delays": [30_000,
        120_000] }, "on": on } })
    };
    let env = env().await;
    let began = env.now();
    let flaky = with(tool("f", "flaky", json!({ "times": 2 })), rule(3, json!([])));
    let (result, _) = finish(&env, steps(json!([flaky])), json!(null)).await;
    assert_eq!(result.unwrap(), json!({ "count": 3 }));
    assert_eq!(env.now().as_micros() - began.as_micros(), 150_000_000);
    // Each of these ends at its first attempt.
    for (step, class) in [
        (with(tool("f", "flaky", json!({ "times": 2 })), rule(3, json!(["timeout"]))), ErrorClass::Unavailable),
        (with(tool("f", "fail", json!({ "class": "invalid" })), rule(3, json!([]))), ErrorClass::Invalid),
        (tool("f", "flaky", json!({ "times": 1 })), ErrorClass::Unavailable),
        (tool("f", "missing", json!({})), ErrorClass::Unavailable),
    ] {
        let (result, run) = finish(&env, steps(json!([step])), json!(null)).await;
        assert_eq!(result.unwrap_err().class, class);
        assert_eq!(run.history().await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn a_breaker_counts_the_failures_of_steps_without_a_retry() {
    let bank = json!({ "name": "bank", "failures": 2, "within": 60_000, "open_for": 30_000 });
    let guarded = |step: Value| with(step, json!({ "breaker": bank, "on_error": "ignore" }));
    let env = env().await;
    // A request that is bad says nothing about the service.
    let outside = json!({ "tool": { "tool": "fail", "args": { "class": "unavailable" }, "external": true } });
    let fails = |class: &str| tool("no", "fail", json!({ "class": class }));
    for (fails, most, least) in
        [(fails("invalid"), 0, 0), (fails("unavailable"), 45, 30), (step("no", outside), 45, 30)]
    {
        let no = |id: &str| guarded(with(fails.clone(), json!({ "id": id })));
        let began = env.now();
        let (result, run) =
            finish(&env, steps(json!([no("a"), no("b"), guarded(echo("c", json!(1)))])), json!(null)).await;
        assert_eq!((result.unwrap(), run.history().await.unwrap().len()), (json!(1), 3));
        let waited = env.now().since(began).as_secs();
        assert!((least..=most).contains(&waited), "{fails}: {waited} s");
    }
}

#[tokio::test]
async fn an_attempt_is_limited_by_the_timeout() {
    let late = with(
        tool("late", "sleep", json!({ "ms": 5_000 })),
        json!({ "timeout": 1_000, "retry": { "attempts": 2, "backoff": "none" } }),
    );
    let env = env().await;
    let began = env.now();
    let (result, run) = finish(&env, steps(json!([late])), json!(null)).await;
    let error = result.unwrap_err();
    assert_eq!((error.class, error.message.contains("1s")), (ErrorClass::Timeout, true), "{error}");
    assert_eq!(env.now().as_micros() - began.as_micros(), 2_000_000);
    assert_eq!(run.history().await.unwrap().len(), 2);
}

#[tokio::test]
async fn blocks_are_retried_and_limited_as_steps_are() {
    let inner = |ms: u64| {
        json!({ "if": { "condition": "true", "then": { "do": [tool("in", "sleep",
        json!({ "ms": ms }))] } } })
    };
    let rule = json!({ "timeout": 1_000, "retry": { "attempts": 2, "backoff": { "constant": { "delay": 7_000 } } } });
    let env = env().await;
    let began = env.now();
    let (result, _) = finish(&env, steps(json!([with(step("late", inner(5_000)), rule)])), json!(null)).await;
    assert_eq!((result.clone().unwrap_err().step.as_str(), result.unwrap_err().class), ("late", ErrorClass::Timeout));
    assert_eq!(env.now().as_micros() - began.as_micros(), 9_000_000);
}

#[tokio::test]
async fn a_failure_is_ignored_or_replaced_or_leads_elsewhere() {
    let no = |on: Value| with(tool("no", "fail", json!({ "message": "gone" })), json!({ "on_error": on }));
    assert_eq!(run(steps(json!([no(json!("ignore"))])), json!(null)).await.unwrap(), Value::Null);
    let instead = json!({ "do": { "do": [echo("instead", json!("{{error.message}} at {{error.step}}"))] } });
    let flow = steps(json!([no(instead), echo("end", json!("{{steps.no}}!"))]));
    assert_eq!(run(flow, json!(null)).await.unwrap(), json!("gone at no!"));
    let graph = flow_with(
        json!({ "graph": { "start": "no", "steps": [
            with(no(json!({ "goto": "other" })), json!({ "next": "done" })),
            with(echo("other", json!("{{error.code}} {{error.message}}")), json!({ "next": "done" })),
        ] } }),
        json!({}),
    );
    assert_eq!(run(graph, json!(null)).await.unwrap(), json!("F250 gone"));
}

#[tokio::test]
async fn undo_runs_in_reverse_when_the_flow_fails() {
    let made = |id: &str| {
        let undo = json!({ "tool": "note", "args": format!("undo {{{{result.m}}}} = {{{{steps.{id}.m}}}}") });
        let further = json!({ "output": { "m": "{{result.n}}" }, "undo": undo });
        with(echo(id, json!({ "n": format!("{{{{input}}}} {id}") })), further)
    };
    let (env, calls) = env_with(|calls| runtime(calls).build()).await;
    let fail = step("stop", json!({ "fail": { "class": "invalid", "message": "no {{input}}" } }));
    let (result, run) = finish(&env, steps(json!([made("a"), made("b"), fail])), json!("x")).await;
    let error = result.unwrap_err();
    assert_eq!((error.code, error.to_string().as_str()), (FlowCode::Wanted, "F251: step \"stop\": no x"));
    run.assert_ran(["a", "b", "stop", "b~", "a~"]).await;
    let undone = ["undo x a = x a", "undo x b = x b"].map(|undone| calls.of(undone));
    assert_eq!(undone, [1, 1], "an undo sees what the output gave");
    let (result, run) = finish(&env, steps(json!([made("a")])), json!("y")).await;
    assert_eq!((result.unwrap(), calls.of("undo y a = y a")), (json!({ "m": "y a" }), 0));
    run.assert_ran(["a"]).await;
}

/// Returns flows of each construct that runs branches at once. Each branch has two steps.
fn at_once(branches: &[[Value; 2]]) -> Vec<(&'static str, Flow)> {
    let fan = |id: &str, branches: &[[Value; 2]]| {
        let named = |(number, branch): (usize, &[Value; 2])| json!([number.to_string(), { "do": branch }]);
        let branches: Vec<Value> = branches.iter().enumerate().map(named).collect();
        step(id, json!({ "parallel": { "branches": branches } }))
    };
    let nested = [[fan("inner", &branches[1..]), step("none", json!("nothing"))], branches[0].clone()];
    let then = |[first, second]: &[Value; 2]| [first.clone(), with(second.clone(), json!({ "needs": [first["id"]] }))];
    let cases: Vec<(String, Value)> =
        branches.iter().enumerate().map(|(number, branch)| (number.to_string(), json!({ "do": branch }))).collect();
    let cases: Value = cases.into_iter().collect();
    let item = step("item", json!({ "switch": { "value": "{{item}}", "cases": cases, "default": null } }));
    let each = json!({ "until": { "for": "{{input}}" }, "max": 9, "concurrency": 9, "body": { "do": [item] } });
    let firsts: Vec<&Value> = branches.iter().map(|[first, _]| &first["id"]).collect();
    let to_fan = json!({ "next": { "parallel": { "branches": firsts, "join": null } } });
    let mut graph = vec![with(step("start", json!("nothing")), to_fan)];
    for [first, second] in branches {
        graph.push(with(first.clone(), json!({ "next": { "goto": second["id"] } })));
        graph.push(with(second.clone(), json!({ "next": "join" })));
    }
    vec![
        ("parallel", steps(json!([fan("fan", branches)]))),
        ("nested", steps(json!([fan("outer", &nested)]))),
        ("loop", steps(json!([step("each", json!({ "loop": each }))]))),
        (
            "dag",
            flow_with(json!({ "dag": { "steps": branches.iter().flat_map(then).collect::<Vec<_>>() } }), json!({})),
        ),
        ("graph", flow_with(json!({ "graph": { "start": "start", "steps": graph } }), json!({}))),
    ]
}

#[tokio::test]
async fn a_tool_with_an_undo_ends_beside_a_failure_and_is_undone() {
    let (env, calls) = env_with(|calls| runtime(calls).build()).await;
    let sleep = |id: &str, ms: u64| tool(id, "sleep", json!({ "ms": ms }));
    let branches = [
        [sleep("first", 10), tool("no", "fail", json!({ "message": "first" }))],
        [
            with(sleep("made", 30), json!({ "undo": { "tool": "note", "args": "undo {{result.ms}}" } })),
            tool("more", "note", json!("more")),
        ],
        [step("nap", json!({ "wait": { "for": 3_600_000 } })), tool("woken", "note", json!("woken"))],
        [sleep("slow", 20), tool("told", "note", json!("told"))],
        [sleep("late", 25), tool("worse", "fail", json!({ "message": "second" }))],
    ];
    for (number, (name, definition)) in (1..).zip(at_once(&branches)) {
        let began = env.now();
        let (result, run) = finish(&env, definition, json!([0, 1, 2, 3, 4])).await;
        assert_eq!(result.unwrap_err().message, "first", "{name}");
        assert_eq!(calls.of("undo 30"), number, "{name}");
        assert_eq!(["more", "woken", "told"].map(|text| calls.of(text)), [0, 0, 0], "{name}: something new began");
        assert!(env.now().since(began).as_secs() < 1, "{name}: the wait was dropped");
        let history = run.export().await.unwrap().to_json();
        if let Err(misfit) = replay(flow, runtime(&Calls::default()).build(), &history) {
            panic!("{name}: {misfit}");
        }
    }
}

#[tokio::test]
async fn blocks_after_the_end_do_not_change_it() {
    let ends = |body: Value| {
        flow_with(
            json!({ "do": body }),
            json!({
                "on_error": { "do": [tool("tell", "note", json!("{{error.message}}")), tool("worse", "fail",
                    json!({}))] },
                "on_complete": { "do": [tool("done", "note", json!("done")), tool("bad", "fail", json!({}))] },
            }),
        )
    };
    let (env, calls) = env_with(|calls| runtime(calls).build()).await;
    let (result, _) = finish(&env, ends(json!([tool("no", "fail", json!({ "message": "first" }))])), json!(null)).await;
    assert_eq!((result.unwrap_err().message.as_str(), calls.of("first"), calls.of("done")), ("first", 1, 0));
    let (result, run) = finish(&env, ends(json!([echo("ok", json!(7))])), json!(null)).await;
    assert_eq!((result.unwrap(), calls.of("done")), (json!(7), 1));
    run.assert_ran(["ok", "done", "bad", "on_complete!"]).await;
}
