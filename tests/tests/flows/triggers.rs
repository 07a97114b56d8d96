//! Triggers of deployed flows: the clock and events.

use serde_json::{Value, json};
use workflow_flows::check::{Options, check};
use workflow_flows::expression::Evaluator;
use workflow_flows::graph::Flow;
use workflow_flows::{FlowClient, FlowStart, Flows, Triggered, flow};
use workflow_sdk::RunFilter;
use workflow_tests::{Live, LocalWorker, until};

use crate::common::{Calls, echo, flow_with, runtime, step};
use crate::versions::store;

/// Returns a flow that says a text, with these triggers.
fn triggered(name: &str, text: &str, triggers: Value) -> Flow {
    let body = json!({ "do": [echo("say", json!({ "text": text, "of": "{{input.id}}" }))] });
    let mut flow = flow_with(body, json!({ "triggers": triggers }));
    flow.name = name.to_owned();
    flow
}

async fn runs_of(db: &Live, name: &str) -> usize {
    db.client.list(&RunFilter::new().tag("flow", name)).await.unwrap().len()
}

pub async fn a_trigger_of_the_clock_is_a_schedule(db: Live) {
    let flows = Flows::new(db.client.clone(), store(&db).await);
    let worker = LocalWorker::start(db.worker(runtime(&Calls::default()).build()).register(flow));
    let cron = |cron: &str, id: u32| json!({ "cron": { "cron": cron, "zone": "Europe/Oslo", "input": { "id": id } } });
    let first = triggered("daily", "one", json!([cron("0 8 * * *", 1), cron("0 9 * * *", 2)]));
    flows.deploy(&first, "ann", None).await.unwrap();
    let names = async || {
        let all = db.client.schedules().await.unwrap();
        all.into_iter().map(|schedule| (schedule.name.clone(), schedule)).collect::<std::collections::BTreeMap<_, _>>()
    };
    let before = names().await;
    assert_eq!(before.keys().collect::<Vec<_>>(), ["flow:daily:0", "flow:daily:1"]);
    let timing = &before["flow:daily:0"].declaration().timing;
    assert_eq!((timing.cron[0].as_str(), timing.zone.as_str()), ("0 8 * * *", "Europe/Oslo"));

    // A deploy of an equal body leaves the schedules alone.
    db.client.schedule("flow:daily:0").pause("a test").await.unwrap();
    assert!(!flows.deploy(&first, "bob", None).await.unwrap().is_new);
    assert!(names().await["flow:daily:0"].state.paused.is_some(), "it is paused as it was");
    db.client.schedule("flow:daily:0").resume().await.unwrap();

    let run = db.client.schedule("flow:daily:1").trigger().await.unwrap();
    assert_eq!(run.result().await.unwrap(), json!({ "text": "one", "of": 2 }));
    let tags = run.run().await.unwrap().tags;
    assert_eq!((tags["flow"].as_str(), tags["flow_version"].as_str()), ("daily", "1"));
    let input: Value = serde_json::from_str(&run.run().await.unwrap().input).unwrap();
    assert_eq!((&input["actor"], &input["version"]), (&json!("ann"), &json!("1")));

    let second = triggered("daily", "two", json!([cron("0 8 * * *", 3)]));
    flows.deploy(&second, "bob", None).await.unwrap();
    assert_eq!(names().await.keys().collect::<Vec<_>>(), ["flow:daily:0"], "the other trigger is gone");
    let run = db.client.schedule("flow:daily:0").trigger().await.unwrap();
    assert_eq!(run.result().await.unwrap(), json!({ "text": "two", "of": 3 }));
    flows.deploy(&triggered("daily", "three", json!([])), "bob", None).await.unwrap();
    assert!(names().await.is_empty());
    worker.stop().await;
}

pub async fn an_event_of_a_flow_starts_another_once(db: Live) {
    let store = store(&db).await;
    let flows = Flows::new(db.client.clone(), store.clone());
    let event =
        |name: &str, key: Value| json!([{ "event": { "name": name, "matches": "event.total > 0", "key": key } }]);
    flows.deploy(&triggered("billed", "bill", event("ordered", json!(null))), "ann", None).await.unwrap();
    flows.deploy(&triggered("keyed", "key", event("ordered", json!("{{event.id}}"))), "ann", None).await.unwrap();
    flows.deploy(&triggered("other", "no", event("paid", json!(null))), "ann", None).await.unwrap();
    let tools = runtime(&Calls::default()).flows(store).client(db.client.clone()).build();
    let worker = LocalWorker::start(db.worker(tools).register(flow));

    let emit = |id: u32, total: u32| {
        step("tell", json!({ "emit": { "event": "ordered", "key": "k", "data": { "id": id, "total": total } } }))
    };
    let mut order = flow_with(json!({ "do": [emit(1, 5)] }), json!({}));
    order.name = "order".to_owned();
    flows.deploy(&order, "bob", None).await.unwrap();
    for _ in 0..2 {
        let start = flows.find("order", None).await.unwrap().into_start().actor("bob");
        let run = db.client.start_definition(start).await.unwrap();
        assert_eq!(run.result().await.unwrap(), json!({ "reached": 0 }));
    }
    assert_eq!((runs_of(&db, "billed").await, runs_of(&db, "keyed").await, runs_of(&db, "other").await), (2, 1, 0));
    let none = flow_with(json!({ "do": [emit(2, 0)] }), json!({}));
    let run = db.client.start_definition(FlowStart::new(none)).await.unwrap();
    run.result().await.unwrap();
    assert_eq!((runs_of(&db, "billed").await, runs_of(&db, "keyed").await), (2, 1), "the condition does not hold");

    // The body of the step may run again: what it started then has the key.
    let found = flows.started_by("ordered", &json!({ "id": 1, "total": 5 }), Some("again")).await.unwrap();
    assert_eq!(found.len(), 2);
    let existed = |run: &Triggered| matches!(run, Triggered::Existed(_));
    assert_eq!(found.iter().filter(|run| existed(run)).count(), 1, "of the trigger with a key: {found:?}");
    until("all have ended", async || {
        let all = db.client.list(&RunFilter::default()).await.unwrap();
        all.iter().all(|run| run.status.is_terminal()).then_some(())
    })
    .await;
    worker.stop().await;
}

/// Three CloudEvents of one task, whose ids are those of the language.
const LOOP: &str = "document: { dsl: '1.0.3', namespace: n, name: orders, version: '1.0.0' }
do:
  - each:
      for: { each: n, in: '[1, 2, 3]' }
      do: [ { tell: { emit: { event: { with: { source: shop, type: ordered } } } } } ]
";

pub async fn each_event_of_a_loop_starts_a_run(db: Live) {
    let store = store(&db).await;
    let flows = Flows::new(db.client.clone(), store.clone());
    let trigger = json!([{ "event": { "name": "ordered", "matches": null, "key": "{{event.id}}" } }]);
    flows.deploy(&triggered("keyed", "key", trigger), "ann", None).await.unwrap();
    let evaluator = Evaluator::builder().helper(env!("CARGO_BIN_EXE_flow_worker")).build();
    let tools = runtime(&Calls::default()).evaluator(evaluator).flows(store).client(db.client.clone()).build();
    let worker = LocalWorker::start(db.worker(tools).register(flow));
    let orders = check(LOOP, &Options::default()).flow.unwrap();
    let run = db.client.start_definition(FlowStart::new(orders)).await.unwrap();
    run.result().await.unwrap();
    assert_eq!(runs_of(&db, "keyed").await, 3);
    until("all have ended", async || {
        let all = db.client.list(&RunFilter::default()).await.unwrap();
        all.iter().all(|run| run.status.is_terminal()).then_some(())
    })
    .await;
    worker.stop().await;
}
