//! Steps that wait for people, times and events, and what runs and tools may see.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use common::{Calls, InPlace, begin, echo, env, env_with, finish, flow_with, runtime, step, steps, tool, with};
use serde_json::{Value, json};
use workflow_flows::graph::Recipe;
use workflow_flows::token::Tokens;
use workflow_flows::{
    Answer, ErrorClass, FixedSecrets, FlowCode, FlowStore, Flows, KbDocument, KbStore, KnowledgeBase, ModelAnswer,
    Policy, Report, ScriptedModel, ToolCall, ToolError,
};
use workflow_sdk::operate::{Action, OperateError, OperateErrorCode, Order};
use workflow_sdk::{RunStatus, SignalOutcome, Tx};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn an_approval_waits_for_a_person() {
    let gate = |further: Value| {
        let approval = json!({ "to": ["ops", "{{input.owner}}"], "title": "Ship {{input.id}}?",
            "show": { "id": "{{input.id}}" } });
        steps(json!([with(
            step("gate", json!({ "approval": with(approval, further) })),
            json!({ "timeout": 3_600_000 })
        )]))
    };
    let input = json!({ "owner": "bob", "id": 7 });
    let env = env().await;
    let run = begin(&env, gate(json!({})), input.clone()).await;
    assert_eq!(run.status().await.unwrap(), RunStatus::Parked);
    let client = env.client().await.unwrap();
    let pending = client.approvals_of(run.id()).await.unwrap().remove(0);
    assert_eq!((pending.key.as_str(), pending.to.as_deref()), ("gate", Some("ops, bob")));
    let shown = run.history().await.unwrap().into_iter().find(|row| row.step_key == "gate!").unwrap();
    assert_eq!(shown.output.as_deref(), Some(r#"{"show":{"id":7},"title":"Ship 7?","to":["ops","bob"]}"#));
    for number in 0..3 {
        let outcome = client.approve(run.id(), "gate", "bob").note("fine").await.unwrap();
        assert_eq!(matches!(outcome, SignalOutcome::Accepted), number == 0, "{outcome:?}");
    }
    let result = run.finish().await.unwrap();
    assert_eq!((&result["approved"], &result["by"], &result["note"]), (&json!(true), &json!("bob"), &json!("fine")));

    let refuse = async |further: Value| {
        let run = begin(&env, gate(further), input.clone()).await;
        env.client().await.unwrap().reject(run.id(), "gate", "ops").note("too dear").await.unwrap();
        run.finish().await
    };
    let failed = refuse(json!({})).await.unwrap_err().to_string();
    assert!(failed.contains("F231: step \"gate\": rejected by ops: too dear"), "{failed}");
    assert_eq!(refuse(json!({ "on_reject": "continue" })).await.unwrap()["approved"], json!(false));
    let block = json!({ "on_reject": { "do": { "do": [echo("no", json!("no: {{steps.gate.note}}"))] } } });
    assert_eq!(refuse(block).await.unwrap(), json!("no: too dear"));

    let (late, _) = finish(&env, gate(json!({})), input.clone()).await;
    assert_eq!(late.unwrap_err().code, FlowCode::Unanswered);
    let block = json!({ "on_timeout": { "do": [echo("late", json!("escalated"))] } });
    assert_eq!(finish(&env, gate(block), input).await.0.unwrap(), json!("escalated"));
}

#[tokio::test]
async fn a_decision_is_taken_once_among_its_options() {
    let triage = |further: Value| {
        let decision = json!({ "prompt": "Resolve {{input}}?", "options": { "resolve": "", "escalate": "" } });
        steps(json!([with(
            step("triage", json!({ "decision": with(decision, further) })),
            json!({ "timeout": 120_000 })
        )]))
    };
    let env = env().await;
    let run = begin(&env, triage(json!({})), json!(1)).await;
    env.signal(&run, "decision:triage", &json!({ "choice": "guess" })).await.unwrap();
    assert_eq!(run.status().await.unwrap(), RunStatus::Parked, "an answer that is no option is dropped");
    env.signal(&run, "decision:triage", &json!({ "choice": "escalate", "by": "ann" })).await.unwrap();
    assert_eq!(run.finish().await.unwrap(), json!({ "choice": "escalate", "by": "ann", "note": null }));
    let (late, _) = finish(&env, triage(json!({ "fallback": "resolve" })), json!(1)).await;
    assert_eq!(late.unwrap()["choice"], json!("resolve"));
    let (late, _) = finish(&env, triage(json!({})), json!(1)).await;
    assert_eq!(late.unwrap_err().code, FlowCode::Unanswered);
}

#[tokio::test]
async fn waits_end_at_their_time_or_event() {
    let env = env().await;
    let began = env.now();
    let naps = steps(json!([
        step("nap", json!({ "wait": { "for": 90_000 } })),
        step("morning", json!({ "wait": { "until": "next {{input}} UTC" } })),
    ]));
    let (result, run) = finish(&env, naps, json!("08:00")).await;
    assert_eq!(result.unwrap(), Value::Null);
    assert_eq!(env.now().as_micros() - began.as_micros(), 8 * 3_600_000_000);
    run.assert_ran(["nap/sleep", "morning?", "morning/sleep"]).await;
    for wait in [json!({ "for": 90_000 }), json!({ "until": "next {{input}} UTC" })] {
        let began = env.now();
        let limited = with(step("nap", json!({ "wait": wait })), json!({ "timeout": 60_000 }));
        let error = finish(&env, steps(json!([limited])), json!("08:00")).await.0.unwrap_err();
        assert_eq!((error.class, error.message.as_str()), (ErrorClass::Timeout, "it had not ended after 60s"));
        assert_eq!(env.now().since(began), 60 * SECOND);
    }

    let paid = with(
        step(
            "paid",
            json!({ "wait": { "event": { "name": "payment", "key": "{{input.order}}",
                "matches": "event.amount >= 5" } } }),
        ),
        json!({ "timeout": 60_000 }),
    );
    let run = begin(&env, steps(json!([paid.clone()])), json!({ "order": "o1" })).await;
    // Two of these cannot be compared, and the third is too small.
    for other in [json!({}), json!({ "amount": "5" }), json!({ "amount": 3 })] {
        assert_eq!(run.emit("payment", "o1", &other).await.unwrap(), 1);
        assert_eq!(run.status().await.unwrap(), RunStatus::Parked, "{other}");
    }
    let history = run.history().await.unwrap();
    let decided: Vec<&str> = history
        .iter()
        .filter(|row| row.step_key.starts_with("paid?"))
        .filter_map(|row| row.output.as_deref())
        .collect();
    assert_eq!((decided.len(), decided[2]), (3, "false"), "{decided:?}");
    assert!(decided[0].starts_with(r#"{"unfit":"event.amount does not exist"#), "{decided:?}");
    assert_eq!(run.emit("payment", "o2", &json!({ "amount": 9 })).await.unwrap(), 0);
    assert_eq!(run.emit("payment", "o1", &json!({ "amount": 5 })).await.unwrap(), 1);
    assert_eq!(run.finish().await.unwrap(), json!({ "amount": 5 }));
    let (late, _) = finish(&env, steps(json!([paid])), json!({ "order": "o3" })).await;
    assert_eq!(late.unwrap_err().code, FlowCode::Unanswered);
}

/// It would be missing for each event, so the wait would never end.
#[tokio::test]
async fn a_match_fails_if_the_flow_itself_lacks_its_value() {
    let (env, _) = env_with(|calls| runtime(calls).evaluator(InPlace::default()).build()).await;
    let wait = json!({ "name": "payment", "key": "o1", "matches": "event.amount >= input.least" });
    let run = begin(&env, steps(json!([step("paid", json!({ "wait": { "event": wait } }))])), json!({})).await;
    assert_eq!(run.emit("payment", "o1", &json!({ "amount": 5 })).await.unwrap(), 1);
    let error = run.finish().await.unwrap_err().to_string();
    assert!(error.contains("input.least does not exist"), "{error}");
}

#[tokio::test]
async fn flows_reach_each_other_by_events_and_signals() {
    let env = env().await;
    let wait = |matches: Value| {
        steps(json!([step(
            "w",
            json!({ "wait": { "event": { "name": "go", "key": "k{{input}}", "matches": matches } } })
        )]))
    };
    let waiting = begin(&env, wait(json!(null)), json!(1)).await;
    let asked =
        begin(&env, steps(json!([step("q", json!({ "decision": { "prompt": "?", "show": null } }))])), json!(null))
            .await;
    let tell = |signal: &str| {
        let all = json!({ "event": "go", "key": "k{{input.n}}", "data": { "from": "{{run.actor}}" } });
        let one = json!({ "event": signal, "to": "{{input.run}}", "data": { "choice": [1] } });
        steps(json!([step("all", json!({ "emit": all })), step("one", json!({ "emit": one }))]))
    };
    let to_asked = json!({ "n": 1, "run": asked.id().to_string() });
    let (result, _) = finish(&env, tell("note"), to_asked.clone()).await;
    assert_eq!(result.unwrap(), json!({ "reached": 1 }));
    assert_eq!(waiting.finish().await.unwrap(), json!({ "from": "ann" }));
    for signal in ["decision:q", "done:q"] {
        let error = finish(&env, tell(signal), to_asked.clone()).await.0.unwrap_err();
        assert!(error.message.contains("answers a step of another run"), "{error}");
        assert_eq!(asked.status().await.unwrap(), RunStatus::Parked, "{signal} decides nothing");
    }
    env.signal(&asked, "decision:q", &json!({ "choice": [1] })).await.unwrap();
    assert_eq!(asked.finish().await.unwrap()["choice"], json!([1]));
    let (result, _) = finish(&env, tell("note"), json!({ "n": 2, "run": "x" })).await;
    assert!(result.unwrap_err().message.contains("not the id of a run"));
}

#[tokio::test]
async fn a_flow_calls_the_newest_version_of_another_one_as_a_child() {
    let store = FlowStore::in_memory();
    let refund = |text: &str| {
        let mut flow = steps(json!([echo("back", json!(format!("{text} {{{{input.cents}}}} for {{{{run.actor}}}}")))]));
        flow.name = "refund".to_owned();
        flow
    };
    store.deploy(&refund("old"), "ann", None).await.unwrap();
    store.deploy(&refund("new"), "ann", None).await.unwrap();
    let flows = store.clone();
    let (env, _) = env_with(move |calls| runtime(calls).flows(flows.clone()).build()).await;
    let call = |call: Value| steps(json!([step("sub", json!({ "flow": call }))]));
    let (result, run) =
        finish(&env, call(json!({ "name": "refund", "args": { "cents": "{{input}}" } })), json!(5)).await;
    assert_eq!(result.unwrap(), json!("new 5 for ann"));
    run.assert_ran(["sub!", "sub/flow"]).await;
    let (result, _) =
        finish(&env, call(json!({ "name": "refund", "version": "1", "args": { "cents": 6 } })), json!(5)).await;
    assert_eq!(result.unwrap(), json!("old 6 for ann"));
    let (result, _) =
        finish(&env, call(json!({ "name": "refund", "detach": true, "args": { "cents": 6 } })), json!(5)).await;
    let id: workflow_sdk::RunId = result.unwrap().as_str().unwrap().parse().unwrap();
    assert_eq!(env.run::<Value>(id).finish().await.unwrap(), json!("new 6 for ann"));
    let (result, _) = finish(&env, call(json!({ "name": "refnd" })), json!(5)).await;
    assert!(result.unwrap_err().message.contains("there is no flow \"refnd\"; deploy it first"));
}

#[tokio::test]
async fn a_child_ends_at_the_timeout_of_its_step_before_another_attempt() {
    let log: Arc<Mutex<Vec<Value>>> = Arc::default();
    let store = FlowStore::in_memory();
    let mut slow = flow_with(
        json!({ "do": [tool("begin", "log", json!("begins")), step("nap", json!({ "wait": { "for": 60_000 } }))] }),
        json!({ "on_error": { "do": [tool("end", "log", json!("ends"))] } }),
    );
    slow.name = "slow".to_owned();
    store.deploy(&slow, "ann", None).await.unwrap();
    let (flows, kept) = (store.clone(), Arc::clone(&log));
    let (env, _) = env_with(move |calls| {
        let log = Arc::clone(&kept);
        let note = move |args: Value, _call: ToolCall| {
            log.lock().unwrap().push(args.clone());
            async move { Ok(args) }
        };
        runtime(calls).flows(flows.clone()).tool("log", note).build()
    })
    .await;
    let call = |further: Value| with(step("sub", json!({ "flow": { "name": "slow" } })), further);
    let retry = json!({ "attempts": 2, "backoff": { "constant": { "delay": 2_000 } }, "on": ["timeout"] });
    let began = env.now();
    let late = call(json!({ "timeout": 1_000, "retry": retry }));
    let (result, run) = finish(&env, steps(json!([late])), json!(null)).await;
    let error = result.unwrap_err();
    assert_eq!((error.step.as_str(), error.class), ("sub", ErrorClass::Timeout));
    assert_eq!(error.message, "it had not ended after 1s");
    assert_eq!(*log.lock().unwrap(), ["begins", "ends", "begins", "ends"], "one child after the other");
    assert_eq!(env.now().since(began).as_secs(), 4);
    run.assert_ran(["sub!", "sub/flow", "sub.again/sleep", "sub!:1", "sub:1/flow"]).await;
    let (result, _) = finish(&env, steps(json!([call(json!({ "timeout": 90_000 }))])), json!(null)).await;
    assert_eq!(result.unwrap(), Value::Null, "it ends in time");
}

struct Rules;

impl Policy for Rules {
    fn may(&self, actor: &str, tool: &str, args: &Value) -> bool {
        actor == "ann" && (tool != "note" || *args != json!("secret"))
    }
}

#[tokio::test]
async fn the_policy_is_asked_before_each_call() {
    let (env, calls) = env_with(|calls| runtime(calls).policy(Rules).build()).await;
    let note = |text: &str| steps(json!([tool("n", "note", json!(text))]));
    assert_eq!(finish(&env, note("open"), json!(null)).await.0.unwrap(), json!("open"));
    let error = finish(&env, note("secret"), json!(null)).await.0.unwrap_err();
    assert!(error.message.contains("\"ann\" may not call \"note\""), "{error}");
    assert_eq!((error.class, calls.of("secret")), (ErrorClass::Invalid, 0));
}

#[tokio::test]
async fn secrets_reach_tools_and_nothing_else() {
    let (env, _) = env_with(|calls| {
        let secrets = FixedSecrets::default().with("bank", "t0ken");
        let leaks = |args: Value, _call: ToolCall| async move {
            assert_eq!(args["auth"], "Bearer t0ken");
            match args["fail"].as_bool() {
                Some(true) => Err(ToolError::new(ErrorClass::Failed, "refused t0ken")),
                None => panic!("no answer to {}", args["auth"]),
                _ => Ok(json!({ "seen": args["auth"] })),
            }
        };
        runtime(calls).secrets(secrets).tool("bank", leaks).build()
    })
    .await;
    let call = |fail: Value| {
        let args = json!({ "auth": "Bearer {{secrets.bank}}", "fail": fail, "file": "secrets.txt" });
        steps(json!([tool("pay", "bank", args)]))
    };
    let (result, run) = finish(&env, call(json!(false)), json!(null)).await;
    assert_eq!(result.unwrap(), json!({ "seen": "Bearer [secret bank]" }));
    assert!(!run.export().await.unwrap().to_json().contains("t0ken"));
    for (fail, message) in
        [(json!(true), "refused [secret bank]"), (json!(null), "no answer to \"Bearer [secret bank]\"")]
    {
        let run = begin(&env, call(fail), json!(null)).await;
        let error = run.finish().await.unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
        assert!(!run.export().await.unwrap().to_json().contains("t0ken"));
    }
    let (result, _) = finish(&env, steps(json!([echo("e", json!("{{secrets.other}}"))])), json!(null)).await;
    assert!(result.unwrap_err().message.contains("no secret \"other\""));
}

#[tokio::test]
async fn a_secret_without_a_value_is_missing_in_an_expression_that_goes_on() {
    let (env, _) = env_with(|calls| {
        let secrets = FixedSecrets::default().with("bank", "t0ken");
        runtime(calls).evaluator(InPlace::default()).secrets(secrets).build()
    })
    .await;
    let args = json!({
        "a": "{{secrets.other ?? 'none'}}", "b": "{{has(secrets.third) ? secrets.third : 'none'}}",
        "c": "{{secrets.other ?? null}}", "d": "{{secrets.bank ?? 'none'}}",
    });
    let (result, _) = finish(&env, steps(json!([echo("e", args)])), json!(null)).await;
    assert_eq!(result.unwrap(), json!({ "a": "none", "b": "none", "c": null, "d": "[secret bank]" }));
    let args = json!({ "a": "{{secrets.other ?? 'none'}}", "b": "{{secrets.other}}" });
    let (result, _) = finish(&env, steps(json!([echo("e", args)])), json!(null)).await;
    assert!(result.unwrap_err().message.contains("no secret \"other\""), "one expression needs it");
}

#[tokio::test]
async fn a_recipe_asks_the_model_and_checks_its_answer() {
    let mut misfit = ModelAnswer::new(json!(1));
    misfit.problems.push("/: 1 is not an object".to_owned());
    let (env, _) = env_with(move |calls| {
        let answers = [Ok(ModelAnswer::new(json!({ "short": "ok" }))), Ok(misfit.clone())];
        let mut named: Recipe =
            serde_json::from_value(json!({ "prompt": "Sum up {{args.text}}", "output": {} })).unwrap();
        named.max_tokens = Some(5);
        runtime(calls).model(ScriptedModel::with_answers(answers)).recipe("sum", named).build()
    })
    .await;
    let ask =
        |name: &str| steps(json!([step("r", json!({ "recipe": { "name": name, "args": { "text": "{{input}}" } } }))]));
    assert_eq!(finish(&env, ask("sum"), json!("long")).await.0.unwrap(), json!({ "short": "ok" }));
    let error = finish(&env, ask("sum"), json!("long")).await.0.unwrap_err();
    assert_eq!((error.code, error.message.contains("/: 1 is not an object")), (FlowCode::Answer, true));
    assert!(finish(&env, ask("other"), json!(1)).await.0.unwrap_err().message.contains("no recipe \"other\""));
}

/// Refuses each document.
struct Full(common::Calls);

#[async_trait]
impl KnowledgeBase for Full {
    async fn write(&self, _tx: Tx, document: &KbDocument) -> Result<Value, ToolError> {
        self.0.count(&document.title);
        Err(ToolError::new(ErrorClass::Unavailable, "the base is full"))
    }
}

#[tokio::test]
async fn a_write_to_a_knowledge_base_has_the_attempts_of_its_step() {
    let (env, calls) = env_with(|calls| runtime(calls).knowledge_base(Full(calls.clone())).build()).await;
    let write = step("w", json!({ "kb": { "base": "notes", "title": "of {{input}}", "text": "" } }));
    let retry = json!({ "attempts": 3, "backoff": { "constant": { "delay": 60_000 } } });
    let (result, _) = finish(&env, steps(json!([with(write.clone(), json!({ "retry": retry }))])), json!("ann")).await;
    let error = result.unwrap_err();
    assert_eq!((error.step.as_str(), error.class, calls.of("of ann")), ("w", ErrorClass::Unavailable, 3));

    let (env, _) = env_with(|calls| runtime(calls).build()).await;
    let error = finish(&env, steps(json!([write])), json!("ann")).await.0.unwrap_err();
    assert!(error.message.contains("this worker has no knowledge base"), "{error}");
}

/// Lets "ann" write to the base "notes" alone.
struct OnlyNotes;

impl Policy for OnlyNotes {
    fn may(&self, actor: &str, tool: &str, args: &Value) -> bool {
        (actor, tool, &args["base"]) == ("ann", "kb.write", &json!("notes"))
    }
}

#[tokio::test]
async fn the_policy_is_asked_before_a_document_is_written() {
    let kb = KbStore::in_memory();
    let of_worker = kb.clone();
    let build = move |calls: &common::Calls| runtime(calls).policy(OnlyNotes).knowledge_base(of_worker.clone()).build();
    let (env, _) = env_with(build).await;
    let write = |base: &str| {
        steps(json!([step("w", json!({ "kb": { "base": base, "title": "t", "text": "of {{input}}", "key": "k" } }))]))
    };
    let (result, run) = finish(&env, write("notes"), json!("ann")).await;
    assert_eq!(result.unwrap(), json!({ "base": "notes", "key": "k", "revision": 1 }));
    let document = kb.find("notes", "k").await.unwrap().unwrap().document;
    assert_eq!((document.text.as_str(), document.run), ("of ann", Some(run.id())));
    let error = finish(&env, write("wages"), json!("ann")).await.0.unwrap_err();
    let message = "\"ann\" may not write to the base \"wages\"; ask for the permission of \"kb.write\"";
    assert_eq!((error.class, error.message.starts_with(message)), (ErrorClass::Invalid, true), "{error}");
    assert!(kb.find("wages", "k").await.unwrap().is_none());
}

#[tokio::test]
async fn a_handoff_tells_and_never_fails_the_run() {
    let (env, calls) = env_with(|calls| {
        let calls_of_mail = calls.clone();
        let mail = move |args: Value, _call: ToolCall| {
            calls_of_mail.count(&args["text"].to_string());
            async move { Ok(args) }
        };
        runtime(calls).tool("mail", mail).build()
    })
    .await;
    let tell = |via: Value| {
        steps(json!([step("tell", json!({ "handoff": { "to": "billing", "text": "see {{input}}", "via": via } }))]))
    };
    for via in [json!(["mail", "pigeon"]), json!([])] {
        let (result, run) = finish(&env, tell(via), json!("{{x}}")).await;
        assert_eq!(result.unwrap(), Value::Null);
        let row = run.history().await.unwrap().remove(0);
        assert!(row.output.unwrap().contains("not_told"), "the failure is recorded");
    }
    assert_eq!(calls.of("\"see {{x}}\""), 1, "no text of a message is a template");
}

#[tokio::test]
async fn a_handoff_gives_each_channel_its_time_once() {
    let (env, calls) = env_with(|calls| {
        let channel = |name: &'static str, takes: Duration| {
            let calls = calls.clone();
            move |args: Value, _call: ToolCall| {
                calls.count(name);
                async move {
                    tokio::time::sleep(takes).await;
                    Ok(args)
                }
            }
        };
        runtime(calls).tool("slow", channel("slow", 60 * SECOND)).tool("mail", channel("mail", SECOND / 2)).build()
    })
    .await;
    let tell = with(
        step("tell", json!({ "handoff": { "to": "ops", "text": "late", "via": ["slow", "mail"] } })),
        json!({ "timeout": 1_000 }),
    );
    let (result, run) = finish(&env, steps(json!([tell, echo("end", json!(1))])), json!(null)).await;
    assert_eq!(result.unwrap(), json!(1));
    assert_eq!((calls.of("slow"), calls.of("mail")), (1, 1));
    run.assert_ran(["tell", "end"]).await;
    let told = run.history().await.unwrap().remove(0).output.unwrap();
    assert_eq!(told, r#"{"not_told":["slow: the attempt had not ended after 1s"]}"#);
}

#[tokio::test]
async fn a_run_that_is_canceled_undoes_and_does_not_handle_the_cancel() {
    let (env, calls) = env_with(|calls| runtime(calls).build()).await;
    let flow = flow_with(
        json!({ "do": [
            with(echo("a", json!(1)), json!({ "undo": { "tool": "note", "args": "undone" } })),
            with(step("nap", json!({ "wait": { "for": 3_600_000 } })), json!({ "on_error": "ignore" })),
            echo("never", json!(1)),
        ] }),
        json!({ "on_error": { "do": [tool("tell", "note", json!("told"))] } }),
    );
    let run = begin(&env, flow, json!(null)).await;
    run.cancel().await.unwrap();
    env.settle().await.unwrap();
    assert_eq!(run.status().await.unwrap(), RunStatus::Canceled);
    assert_eq!((calls.of("undone"), calls.of("told")), (1, 0));
}

#[tokio::test]
async fn a_flow_whose_time_is_over_fails_and_handles_that() {
    let (env, calls) = env_with(|calls| runtime(calls).build()).await;
    let flow = flow_with(
        json!({ "do": [step("nap", json!({ "wait": { "for": 3_600_000 } }))] }),
        json!({ "timeout": 60_000, "on_error": { "do": [tool("tell", "note", json!("{{error.class}}"))] } }),
    );
    let start = workflow_flows::FlowStart::new(flow);
    let run = env.start(workflow_flows::flow, start).with(|start| start.deadline(60 * SECOND)).await.unwrap();
    env.advance(61 * SECOND).await.unwrap();
    assert_eq!((run.status().await.unwrap(), calls.of("timeout")), (RunStatus::Failed, 1));
}

#[tokio::test]
async fn the_tools_of_a_gate_get_its_token_and_nothing_records_it() {
    let tokens = Tokens::new(b"a secret of tokens, of 32 bytes at least").unwrap();
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let told = std::sync::Arc::clone(&seen);
    let issued = tokens.clone();
    let build = move |calls: &Calls| {
        let told = std::sync::Arc::clone(&told);
        let tell = move |args: Value, _call: ToolCall| {
            told.lock().unwrap().push(args["data"]["token"].as_str().unwrap().to_owned());
            // The failure is recorded, and repeats the arguments.
            async move { Err::<Value, _>(ToolError::new(ErrorClass::Failed, format!("cannot send {args}"))) }
        };
        runtime(calls).tokens(issued.clone()).tool("tell", tell).build()
    };
    let (env, _calls) = env_with(build).await;
    let approval = json!({ "to": ["ops"], "title": "?", "notify": ["tell"] });
    let cycle = json!({ "graph": { "start": "gate", "steps": [
        with(step("gate", json!({ "approval": approval })), json!({ "max_visits": 2, "next": { "branch": {
            "cases": [["result.note == null", "gate"]], "otherwise": "end" } } })),
        with(echo("end", json!(1)), json!({ "next": "done" })),
    ] } });
    let run = begin(&env, flow_with(cycle, json!({})), json!(null)).await;
    let client = env.client().await.unwrap();
    for visit in 0..2 {
        assert_eq!(run.status().await.unwrap(), RunStatus::Parked);
        let token = seen.lock().unwrap()[visit].clone();
        let gate = tokens.open(&token).unwrap();
        assert_eq!((gate.run, gate.key.as_str(), gate.visit), (run.id().to_string(), "gate", visit as u32));
        let key = client.approvals_of(run.id()).await.unwrap().remove(0).key;
        assert_eq!(key, if visit == 0 { "gate" } else { "gate:1" });
        let approve = client.approve(run.id(), &key, "bob");
        let approve = if visit == 0 { approve } else { approve.note("fine") };
        approve.await.unwrap();
        for row in run.history().await.unwrap() {
            assert!(!row.output.unwrap_or_default().contains("st_"), "{}", row.step_key);
        }
    }
    assert_eq!(run.finish().await.unwrap(), json!(1));
}

#[tokio::test]
async fn only_an_approval_without_receivers_tells_the_default_of_its_channel() {
    let build = |calls: &Calls| {
        let calls_of_tell = calls.clone();
        let tell = move |args: Value, _call: ToolCall| {
            calls_of_tell.count(&format!("to {}", args["to"]));
            async { Ok(()) }
        };
        runtime(calls).evaluator(InPlace::default()).tool("tell", tell).build()
    };
    let (env, calls) = env_with(build).await;
    for (to, told) in [(json!(["{{input.owners}}"]), 0), (json!([]), 1)] {
        let approval = json!({ "to": to, "title": "?", "notify": ["tell"] });
        let gate = steps(json!([step("gate", json!({ "approval": approval }))]));
        let run = begin(&env, gate, json!({ "owners": [] })).await;
        assert_eq!(run.status().await.unwrap(), RunStatus::Parked);
        assert_eq!(calls.of("to \"\""), told, "{to}");
    }
}

#[tokio::test]
async fn a_token_decides_nothing_once_its_run_continued_as_new() {
    let tokens = Tokens::new(b"a secret of tokens, of 32 bytes at least").unwrap();
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let (told, issued) = (std::sync::Arc::clone(&seen), tokens.clone());
    let build = move |calls: &Calls| {
        let told = std::sync::Arc::clone(&told);
        let tell = move |_args: Value, call: ToolCall| {
            told.lock().unwrap().push(call.token.unwrap());
            async { Ok(()) }
        };
        runtime(calls).tokens(issued.clone()).tool("tell", tell).build()
    };
    let (env, _calls) = env_with(build).await;
    let print = json!({ "tool": { "tool": "tell", "args": null, "external": true } });
    let many = json!({ "loop": {
        "until": { "until": "index == 1000" }, "max": 1001, "concurrency": 1, "body": { "do": [step("n", json!("nothing"))] },
    } });
    let cycle = json!({ "graph": { "start": "gate", "steps": [
        with(step("gate", json!({ "approval": { "to": ["ops"], "title": "?", "notify": ["tell"] } })),
            json!({ "max_visits": 2, "next": { "goto": "print" } })),
        with(step("print", print), json!({ "max_visits": 2, "next": { "branch": {
            "cases": [["result == 1", "end"]], "otherwise": "many" } } })),
        with(step("many", many), json!({ "max_visits": 2, "next": { "goto": "gate" } })),
        with(echo("end", json!("{{run.generation}}")), json!({ "next": "done" })),
    ] } });
    let run = begin(&env, flow_with(cycle, json!({})), json!(null)).await;
    let client = env.client().await.unwrap();
    let flows = Flows::new(client.clone(), FlowStore::in_memory()).tokens(tokens);
    let key_of = |number: usize| flows.open_token(&seen.lock().unwrap()[number]).unwrap().1;
    let ready = async |number| flows.ready_by_token(run.id(), &key_of(number), Answer::default(), "bob").await;
    let done = async |number, result: u32| {
        let mut report = Report::default();
        report.result = Some(json!(result));
        flows.done(run.id(), &key_of(number), report, "bob").await
    };
    let is_refused = |action: Result<Action, OperateError>| {
        assert_eq!(action.as_ref().unwrap_err().code, OperateErrorCode::Conflict, "{action:?}");
    };
    for generation in 0..2 {
        let (gate, print) = (2 * generation, 2 * generation + 1);
        assert_eq!(run.status().await.unwrap(), RunStatus::Parked);
        assert_eq!(run.run().await.unwrap().generation, generation as i64);
        if generation == 1 {
            assert_eq!(seen.lock().unwrap().len(), 3, "the gate of the second generation waits");
            is_refused(ready(0).await);
        }
        client.operate().perform(Order::new(ready(gate).await.unwrap()).actor("bob")).await.unwrap();
        assert_eq!(run.status().await.unwrap(), RunStatus::Parked);
        if generation == 1 {
            is_refused(done(1, 1).await);
        }
        let report = done(print, generation as u32).await.unwrap();
        client.operate().perform(Order::new(report).actor("bob")).await.unwrap();
    }
    assert_eq!(run.finish().await.unwrap(), json!(1));
}
