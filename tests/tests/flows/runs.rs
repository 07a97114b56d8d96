//! Runs of flows on the databases.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use workflow_flows::expression::ExpressionLimits;
use workflow_flows::graph::Flow;
use workflow_flows::{
    Answer, FlowClient, FlowCode, FlowError, FlowStart, FlowStore, Flows, Report, ToolCall, answer_step, flow,
    read_question, read_visits, report_step,
};
use workflow_sdk::operate::{Action, OperateError, PayloadOf};
use workflow_sdk::{Client, ClientError, RunHandle, RunStatus, SignalOutcome};
use workflow_tests::{FaultyStore, Gauge, Live, LocalWorker, until};

use crate::common::{Calls, echo, flow_with, runtime, step, steps, tool, with};

async fn reaches(run: &RunHandle<Value>, status: RunStatus) {
    let what = format!("the run becomes {status}");
    until(&what, async || (run.status().await.unwrap() == status).then_some(())).await;
}

fn next(step: Value, next: Value) -> Value {
    with(step, json!({ "next": next }))
}

/// A flow in the form of the two-table engine, as its front-end lowers it.
fn two_table(steps: Value) -> Flow {
    flow_with(json!({ "graph": { "start": "start", "steps": steps } }), json!({ "missing_path": "empty" }))
}

pub async fn the_two_table_flows_run(db: Live) {
    let calls = Calls::default();
    let seen = calls.clone();
    let note = move |args: Value, _call: ToolCall| {
        seen.count(&args.to_string());
        async move { Ok(args) }
    };
    let is_admin = |_args: Value, call: ToolCall| async move { Ok(call.actor == "root") };
    let tools = runtime(&calls).tool("record", note).tool("is_admin", is_admin).build();
    let worker = LocalWorker::start(db.worker(tools).register(flow));

    let research = two_table(json!([
        next(tool("start", "record", json!({ "query": "{{input.topic}}" })), json!({ "goto": "summarize" })),
        next(tool("summarize", "record", json!({ "id": "{{input.doc_id}}" })), json!({ "goto": "notify" })),
        next(tool("notify", "record", json!({ "message": "Research complete" })), json!("done")),
    ]));
    let start = FlowStart::new(research).input(json!({ "topic": "AI safety" })).actor("james");
    let run = db.client.start_definition(start).await.unwrap();
    assert_eq!(run.result().await.unwrap(), json!({ "message": "Research complete" }));
    assert_eq!((calls.of(r#"{"query":"AI safety"}"#), calls.of(r#"{"id":""}"#)), (1, 1), "a missing key is empty");

    let check = two_table(json!([
        next(
            tool("start", "is_admin", json!({})),
            json!({ "branch": {
            "cases": [["result == true", "admin_action"], ["result == false", "user_action"]], "otherwise": null,
        } })
        ),
        next(tool("admin_action", "record", json!("admin")), json!("done")),
        next(tool("user_action", "record", json!("user")), json!("done")),
    ]));
    for (actor, action) in [("root", "admin"), ("james", "user")] {
        let run = db.client.start_definition(FlowStart::new(check.clone()).actor(actor)).await.unwrap();
        assert_eq!(run.result().await.unwrap(), json!(action));
    }

    let gate = two_table(json!([
        next(
            step("start", json!({ "approval": { "to": ["{{run.actor}}"], "title": "start" } })),
            json!({ "goto": "write" })
        ),
        next(tool("write", "record", json!({ "title": "{{input.title}}" })), json!("done")),
    ]));
    let start = FlowStart::new(gate).input(json!({ "title": "T" })).actor("james");
    let run = db.client.start_definition(start).await.unwrap();
    reaches(&run, RunStatus::Parked).await;
    assert_eq!(db.client.approvals_of(run.id()).await.unwrap()[0].to.as_deref(), Some("james"));
    db.client.approve(run.id(), "start", "james").await.unwrap();
    assert_eq!(run.result().await.unwrap(), json!({ "title": "T" }));
    worker.stop().await;
    // The calls stand in the interpreter, so their lines would tell nothing about the flow.
    let rows = db.client.operate().timeline(run.id()).await.unwrap().rows;
    assert!(!rows.is_empty() && rows.iter().all(|row| row.source_line.is_none()), "{rows:?}");
}

pub async fn a_gate_is_decided_once_under_double_clicks(db: Live) {
    let worker = LocalWorker::start(db.worker(runtime(&Calls::default()).build()).register(flow));
    let approval = json!({ "to": ["ops", "{{input}}"], "title": "?" });
    let gate = steps(json!([step("gate", json!({ "approval": approval })), echo("end", json!(1))]));
    let run = db.client.start_definition(FlowStart::new(gate).input(json!(["ann", "bob"]))).await.unwrap();
    reaches(&run, RunStatus::Parked).await;
    let to = db.client.approvals_of(run.id()).await.unwrap().remove(0).to;
    assert_eq!(to.as_deref(), Some("ops, ann, bob"), "a list gives its items");
    let clicks = (0..10).map(|number| {
        let client = db.client.clone();
        let id = run.id();
        async move { client.approve(id, "gate", format!("person {number}")).await.unwrap() }
    });
    let outcomes = join_all(clicks).await;
    let accepted = outcomes.iter().filter(|outcome| matches!(outcome, SignalOutcome::Accepted)).count();
    let repeated = outcomes.iter().filter(|outcome| matches!(outcome, SignalOutcome::Repeated(_))).count();
    assert_eq!((accepted, repeated), (1, 9), "{outcomes:?}");
    assert_eq!(run.result().await.unwrap(), json!(1));
    worker.stop().await;
}

pub async fn a_visit_that_waits_is_read_without_the_rest_of_its_run(db: Live) {
    /// More rows than four pages of a history have.
    const OTHERS: usize = 4_500;
    let worker = LocalWorker::start(db.worker(runtime(&Calls::default()).build()).register(flow));
    let ask = json!({ "prompt": "Which?", "options": { "one": "", "two": "" } });
    let definition = steps(json!([step("ask", json!({ "decision": ask }))]));
    let run = db.client.start_definition(FlowStart::new(definition)).await.unwrap();
    reaches(&run, RunStatus::Parked).await;
    worker.stop().await;
    let id = run.id();
    let others: Vec<String> = (0..OTHERS)
        .map(|number| format!("('{id}', 'other {number}', 1, 'step', 'succeeded', {}, 1, 1, 2, '0')", number + 100))
        .collect();
    let columns = "run_id, step_key, attempt, kind, status, position, epoch, started_at, completed_at, output";
    let mut raw = db.raw().await;
    raw.execute(format!("INSERT INTO step_attempts ({columns}) VALUES {}", others.join(", "))).await;

    let store = Arc::new(FaultyStore::new(Arc::clone(db.client.store())));
    let client = Client::over(store.clone(), 1024 * 1024);
    let visits = read_visits(client.operate(), id, &["ask", "other"]).await.unwrap();
    let [Some(visit), None] = &visits[..] else { panic!("{visits:?}") };
    let prepared = PayloadOf::Step { step: "ask!".into(), attempt: 1 };
    assert_eq!((visit.step.as_str(), &visit.prepared), ("ask:0", &prepared));
    let question = read_question(client.operate(), id, "ask").await.unwrap().unwrap();
    assert_eq!((question.step.as_str(), question.prompt.as_str()), ("ask:0", "Which?"));
    assert_eq!(store.reads("history_page"), 3, "one page for each step that is asked for");

    // No answer reads the other rows, and so does no question behind a token.
    let pages_of = |before: usize| store.reads("history_page") - before;
    let decides = |action: Result<Action, OperateError>, choice: &str| {
        let Action::SignalRun { name, payload, .. } = action.unwrap() else { panic!("a decision is a signal") };
        assert_eq!(name, "decision:ask");
        assert!(payload.as_str().contains(choice), "{}", payload.as_str());
    };
    let mut answer = Answer::default();
    answer.choice = Some(json!("one"));
    let before = store.reads("history_page");
    decides(answer_step(client.operate(), id, "ask", answer.clone(), "ann").await, "one");
    assert_eq!(pages_of(before), 1, "the rendered values");
    let mut report = Report::default();
    report.result = Some(json!("two"));
    let before = store.reads("history_page");
    decides(report_step(client.operate(), id, "ask", report, "ann").await, "two");
    assert!(pages_of(before) <= 4, "{} pages", pages_of(before));
    let flows = Flows::new(client.clone(), FlowStore::in_memory());
    for of_token in ["ask:0@0", "ask:0"] {
        let before = store.reads("history_page");
        assert_eq!(flows.question_by_token(id, of_token).await.unwrap().prompt, "Which?");
        decides(flows.ready_by_token(id, of_token, answer.clone(), "ann").await, "one");
        assert!(pages_of(before) <= 4, "{} pages", pages_of(before));
    }
}

pub async fn a_limit_holds_over_flows_and_workers(db: Live) {
    let gauge = Arc::new(Gauge::default());
    let worker = async || {
        let gauge = Arc::clone(&gauge);
        let busy = move |args: Value, _call: ToolCall| {
            let gauge = Arc::clone(&gauge);
            async move {
                let _inside = gauge.enter();
                tokio::task::yield_now().await;
                Ok(args)
            }
        };
        let tools = runtime(&Calls::default()).tool("busy", busy).build();
        LocalWorker::start(workflow_worker::Worker::new(db.second_client().await, tools).register(flow))
    };
    let limit = json!({ "name": "busy", "key": "{{input}}", "max": 2 });
    let limited = steps(json!([with(tool("ask", "busy", json!(1)), json!({ "limit": limit }))]));
    let workers = [worker().await, worker().await];
    let mut runs = Vec::new();
    for _ in 0..30 {
        let start = FlowStart::new(limited.clone()).input(json!("account"));
        runs.push(db.client.start_definition(start).await.unwrap());
    }
    for run in &runs {
        assert_eq!(run.result().await.unwrap(), json!(1));
    }
    assert!((1..=2).contains(&gauge.most()), "{} at once", gauge.most());
    for worker in workers {
        worker.stop().await;
    }
}

pub async fn a_flow_pauses_or_cancels_its_run_at_its_timeout(db: Live) {
    let tools = runtime(&Calls::default()).client(db.client.clone()).build();
    let worker = LocalWorker::start(db.worker(tools).register(flow));
    // More turns than a generation has.
    let turns = json!({ "until": { "until": "index == 1000" }, "max": 2_000, "concurrency": 1, "body": { "do": [] } });
    let late = |on_timeout: &str| {
        let gate = step("gate", json!({ "approval": { "to": [], "title": "?" } }));
        flow_with(
            json!({ "do": [gate, step("long", json!({ "loop": turns })), echo("end", json!(7))] }),
            json!({ "timeout": 20, "on_timeout": on_timeout }),
        )
    };
    let run = db.client.start_definition(FlowStart::new(late("cancel"))).await.unwrap();
    assert!(matches!(run.result().await, Err(ClientError::RunCanceled { .. })));
    let run = db.client.start_definition(FlowStart::new(late("pause"))).await.unwrap();
    until("the run is paused", async || run.run().await.unwrap().paused_at).await;
    db.client.approve(run.id(), "gate", "ops").await.unwrap();
    db.client.resume(run.id()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), json!(7), "the next generation is not paused again");
    assert_eq!(run.run().await.unwrap().generation, 1);
    worker.stop().await;
}

pub async fn a_worker_with_lower_limits_keeps_what_was_recorded(db: Live) {
    let begin = |limits: ExpressionLimits| {
        let tools = runtime(&Calls::default()).expression_limits(limits).unwrap().build();
        LocalWorker::start(db.worker(tools).register(flow).linger(Duration::ZERO))
    };
    let definition = steps(json!([
        step("sum", json!({ "set": { "all": "{{input.list.all(n, n > 0)}}" } })),
        step("gate", json!({ "approval": { "to": ["ops"], "title": "?" } })),
        echo("end", json!("{{vars.all}}")),
    ]));
    let list: Vec<u32> = (1..=100).collect();
    let start = FlowStart::new(definition).input(json!({ "list": list }));

    let first = begin(ExpressionLimits::new());
    let run = db.client.start_definition(start.clone()).await.unwrap();
    reaches(&run, RunStatus::Parked).await;
    first.stop().await;
    let second = begin(ExpressionLimits::new().cel_fuel(20));
    db.client.approve(run.id(), "gate", "ops").await.unwrap();
    assert_eq!(run.result().await.unwrap(), json!(true), "the record holds");

    let refused = db.client.start_definition(start).await.unwrap().result().await;
    let Err(ClientError::RunFailed { error, .. }) = &refused else { panic!("{refused:?}") };
    let error = error.downcast::<FlowError>().unwrap();
    assert_eq!(error.code, FlowCode::ExpressionBudget, "{error}");
    assert!(error.message.contains("takes more than 20 steps"), "{error}");
    second.stop().await;
}

pub async fn a_worker_that_stops_gives_its_flows_to_another_one(db: Live) {
    let calls = Calls::default();
    let begin = || db.worker(runtime(&calls).build()).register(flow).linger(Duration::ZERO);
    let first = LocalWorker::start(begin());
    let each = json!({ "loop": {
        "until": { "for": "{{input}}" }, "max": 20, "concurrency": 5,
        "body": { "do": [echo("call", json!("{{item}}")), step("nap", json!({ "wait": { "for": 5 } }))] },
    } });
    let body = steps(json!([step("each", each), echo("end", json!("{{steps.each}}"))]));
    let items: Vec<u32> = (0..20).collect();
    let run = db.client.start_definition(FlowStart::new(body).input(json!(items))).await.unwrap();
    until("some items ran", async || (calls.of("echo") >= 5).then_some(())).await;
    first.abort().await;
    let second = LocalWorker::start(begin());
    let result = run.result().await.unwrap();
    assert_eq!(result.as_array().map(Vec::len), Some(20));
    assert!(calls.of("echo") <= 21 + 5, "at most those under way ran again: {}", calls.of("echo"));
    second.stop().await;
}
