//! Deployed versions, and runs that keep theirs.

use futures::future::join_all;
use serde_json::{Value, json};
use workflow_flows::graph::Flow;
use workflow_flows::{ErrorClass, FlowClient, FlowCode, FlowError, FlowStart, FlowStore, FlowStoreError, Flows, flow};
use workflow_sdk::operate::{Action, OperateErrorCode, Order};
use workflow_sdk::sqlx::{Connection, PgConnection, SqliteConnection};
use workflow_sdk::{ClientError, LimitRule, Rate, RunStatus};
use workflow_tests::{Database, Live, LocalWorker, until};

use crate::common::{Calls, echo, flow_with, runtime, step, steps, with};

/// Opens a store in the database of the case.
pub(crate) async fn store(db: &Live) -> FlowStore {
    FlowStore::connect(&db.url_of_tables()).await.unwrap()
}

fn says(text: &str) -> Flow {
    steps(json!([step("gate", json!({ "approval": { "to": ["ops"], "title": text } })), echo("say", json!(text))]))
}

pub async fn a_deploy_adds_a_version_for_each_new_body(db: Live) {
    let flows = store(&db).await;
    assert!(flows.find("test", None).await.unwrap().is_none());
    for (text, version, is_new) in [("a", "1", true), ("a", "1", false), ("b", "2", true), ("a", "3", true)] {
        let deployed = flows.deploy(&says(text), "ann", None).await.unwrap();
        assert_eq!((deployed.version.version.as_str(), deployed.is_new), (version, is_new), "{text}");
    }
    let named = flows.deploy(&says("c"), "bob", Some("1.4.0")).await.unwrap();
    assert_eq!((named.version.number, named.is_new), (4, true));
    assert!(!flows.deploy(&says("c"), "bob", Some("1.4.0")).await.unwrap().is_new);
    let taken = flows.deploy(&says("d"), "bob", Some("1.4.0")).await.unwrap_err();
    assert!(matches!(taken, FlowStoreError::VersionTaken { .. }) && taken.to_string().starts_with("F310"), "{taken}");

    let named = flows.deploy(&says("e"), "bob", Some("7")).await.unwrap();
    assert_eq!(named.version.number, 5);
    for (text, version) in [("f", "6"), ("g", "8")] {
        let deployed = flows.deploy(&says(text), "ann", None).await.unwrap();
        assert_eq!(deployed.version.version, version, "7 is the name of another version");
    }

    let again = store(&db).await;
    let versions: Vec<String> = again.versions("test").await.unwrap().into_iter().map(|found| found.version).collect();
    assert_eq!(versions, ["8", "6", "7", "1.4.0", "3", "2", "1"]);
    let found = again.find("test", Some("2")).await.unwrap().unwrap();
    assert_eq!((found.definition, found.created_by.as_str()), (says("b"), "ann"));
    assert_eq!(again.list().await.unwrap().len(), 1);
    assert_eq!(again.list().await.unwrap()[0].version, "8");
}

pub async fn deploys_at_once_give_each_body_a_version(db: Live) {
    let flows = [store(&db).await, store(&db).await];
    let deploys = (0..20).map(|number| {
        let flows = &flows[number % 2];
        async move { flows.deploy(&says(&format!("body {}", number / 2)), "ann", None).await.unwrap() }
    });
    join_all(deploys).await;
    let versions = flows[0].versions("test").await.unwrap();
    let numbers: Vec<i64> = versions.iter().map(|found| found.number).collect();
    let expected: Vec<i64> = (1..=i64::try_from(numbers.len()).unwrap()).rev().collect();
    assert_eq!(numbers, expected, "no number is missing or doubled");
    assert!(numbers.len() >= 10, "each body has a version");
}

/// The number of parked runs in CI. `WORKFLOW_CASES=1000` parks more.
fn parked_runs() -> usize {
    std::env::var("WORKFLOW_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(100)
}

pub async fn runs_keep_the_version_with_which_they_started(db: Live) {
    const VERSIONS: usize = 10;
    let flows = store(&db).await;
    let worker = LocalWorker::start(db.worker(runtime(&Calls::default()).build()).register(flow));
    let (client, deployed) = (&db.client, &flows);
    let mut started = Vec::new();
    for version in 0..VERSIONS {
        flows.deploy(&says(&format!("version {version}")), "ann", None).await.unwrap();
        let starts = (0..parked_runs().div_ceil(VERSIONS))
            .map(|_| async move { client.start_flow(deployed, "test", Value::Null).await.unwrap().await.unwrap() });
        started.push(join_all(starts).await);
    }
    for run in started.iter().flatten() {
        until("the run waits", async || (run.status().await.unwrap() == RunStatus::Parked).then_some(())).await;
    }
    for number in 0..20 {
        assert!(flows.deploy(&says(&format!("later {number}")), "ann", None).await.unwrap().is_new);
    }
    let mut raw = db.raw().await;
    raw.execute("DELETE FROM workflow_flows").await;
    assert!(flows.list().await.unwrap().is_empty());
    for (version, runs) in started.iter().enumerate() {
        let ends = runs.iter().map(|run| async move {
            client.approve(run.id(), "gate", "ops").await.unwrap();
            run.result().await.unwrap()
        });
        let results = join_all(ends).await;
        let expected = json!(format!("version {version}"));
        assert!(results.iter().all(|result| *result == expected), "{version}: {results:?}");
    }
    worker.stop().await;
}

pub async fn a_child_starts_with_an_input_that_fits_its_version_alone(db: Live) {
    let flows = store(&db).await;
    let refund = |kind: &str, back: Value| {
        let input = json!({ "required": ["cents"], "properties": { "cents": { "type": kind } } });
        flow_with(json!({ "do": [echo("back", back)] }), json!({ "name": "refund", "input": input }))
    };
    for kind in ["string", "integer"] {
        flows.deploy(&refund(kind, json!("{{input.cents}}")), "ann", None).await.unwrap();
    }
    let calls = Calls::default();
    let worker = LocalWorker::start(db.worker(runtime(&calls).flows(flows.clone()).build()).register(flow));
    let sub = |version: Option<&str>, args: &str| {
        let args = json!({ args: "{{input}}" });
        json!({ "flow": { "name": "refund", "version": version, "args": args } })
    };
    let inline = |args: &str| {
        let start = FlowStart::new(refund("integer", json!(5))).input(json!({ args: "{{input}}" }));
        json!({ "flow": { "name": "flow", "is_workflow": true, "args": start } })
    };
    let wrong = "/cents: \"5\" is not of type \"integer\"";
    let refused = db.client.start_flow(&flows, "refund", json!({ "cents": "5" })).await.unwrap_err();
    assert_eq!(refused.to_string(), format!("flow \"refund\" cannot start: F060: input: {wrong}"));
    for (call, input, refusal) in [
        (sub(None, "cents"), json!(5), None),
        (sub(None, "cents"), json!("5"), Some(wrong)),
        (sub(Some("1"), "cents"), json!("5"), None),
        (sub(None, "cent"), json!(5), Some("\"cents\" is missing")),
        (inline("cents"), json!(5), None),
        (inline("cents"), json!("5"), Some(wrong)),
    ] {
        let before = calls.of("echo");
        let start = FlowStart::new(steps(json!([step("sub", call.clone())]))).input(input.clone());
        let run = db.client.start_definition(start).await.unwrap();
        let result = run.result().await;
        let history = db.client.history(run.id()).await.unwrap();
        let keys: Vec<&str> = history.iter().map(|row| row.step_key.as_str()).collect();
        let Some(refusal) = refusal else {
            assert_eq!((result.unwrap(), calls.of("echo")), (input, before + 1), "{call}");
            continue;
        };
        let error: FlowError = match result {
            Err(ClientError::RunFailed { error, .. }) => error.downcast().unwrap(),
            other => panic!("{call}: {other:?}"),
        };
        assert_eq!((error.code, error.class, error.step.as_str()), (FlowCode::Tool, ErrorClass::Invalid, "sub"));
        let message = format!("args do not fit the flow \"refund\": F060: input: {refusal}");
        assert_eq!((error.message, keys, calls.of("echo")), (message, vec!["sub!"], before), "no child began");
    }
    worker.stop().await;
}

pub async fn a_fork_goes_on_with_another_definition(db: Live) {
    let calls = Calls::default();
    let worker = LocalWorker::start(db.worker(runtime(&calls).build()).register(flow));
    let of = |text: &str| steps(json!([echo("first", json!(1)), echo("second", json!(text))]));
    let run = db.client.start_definition(FlowStart::new(of("old"))).await.unwrap();
    assert_eq!(run.result().await.unwrap(), json!("old"));
    let fork = db.client.fork(run.id()).from("second").input(&FlowStart::new(of("new"))).await.unwrap();
    assert_eq!(fork.result().await.unwrap(), json!("new"));
    assert_eq!(calls.of("echo"), 3, "the first step did not run again");
    worker.stop().await;
}

/// A release whose switches told nothing rendered the output of the step anew.
pub async fn a_fork_of_an_old_condition_goes_on_with_one_that_tells(db: Live) {
    let worker = LocalWorker::start(db.worker(runtime(&Calls::default()).build()).register(flow));
    let of = |tells: bool, default: Value, output: Value, text: &str| {
        let cases = json!({ "5": { "do": [echo("in", json!("five"))] } });
        let switch = json!({ "value": "{{input.n}}", "cases": cases, "default": default, "tells": tells });
        let check = with(step("check", json!({ "switch": switch })), json!({ "output": output }));
        steps(json!([check, echo("say", json!([text, "{{steps.check}}"]))]))
    };
    for (n, branch, skipped) in [(5, "5", false), (6, "6", true)] {
        let told = json!({ "branch": branch, "output": "{{result}}", "skipped": skipped });
        let start = FlowStart::new(of(false, json!({ "do": [] }), told, "old")).input(json!({ "n": n }));
        let run = db.client.start_definition(start).await.unwrap();
        let old = run.result().await.unwrap();
        let start = FlowStart::new(of(true, Value::Null, json!("{{result}}"), "new")).input(json!({ "n": n }));
        let fork = db.client.fork(run.id()).from("say").input(&start).await.unwrap();
        assert_eq!(fork.result().await.unwrap(), json!(["new", old[1]]));
        let run = db.client.start_definition(start).await.unwrap();
        assert_eq!(run.result().await.unwrap(), json!(["new", old[1]]), "both forms tell the same");
    }
    worker.stop().await;
}

/// A flow whose steps share the limit `busy`, each with its number.
fn limited(numbers: &[u32]) -> Flow {
    let limit = |max: &u32| json!({ "limit": { "name": "busy", "key": "k", "max": max } });
    let ask = |(place, max): (usize, &u32)| with(echo(&format!("ask{place}"), json!(1)), limit(max));
    steps(numbers.iter().enumerate().map(ask).collect())
}

pub async fn deploys_and_starts_declare_the_limits_of_steps(db: Live) {
    let store = store(&db).await;
    let flows = Flows::new(db.client.clone(), store.clone());
    let busy = db.client.limit("busy");
    let declared = async || busy.record().await.unwrap().and_then(|record| record.declared);
    let most = |bodies: u32| Some(LimitRule::none().concurrency(bodies));

    for (refused, why) in [(limited(&[1, 2]), "max is 1 and 2"), (limited(&[0]), "max is 0")] {
        let error = flows.deploy(&refused, "ann", None).await.unwrap_err();
        assert_eq!(error.code, OperateErrorCode::BadInput);
        assert!(error.message.contains("\"busy\"") && error.message.contains(why), "{error}");
        assert!(matches!(db.client.set_limits(&refused).await, Err(FlowStoreError::Limit { .. })));
    }
    assert!(store.find("test", None).await.unwrap().is_none(), "nothing was stored");
    assert_eq!(declared().await, None);

    db.client.start_definition(FlowStart::new(limited(&[2, 2]))).await.unwrap();
    assert_eq!(declared().await, most(2));
    db.client.start_definition(FlowStart::new(limited(&[9]))).await.unwrap();
    assert_eq!(declared().await, most(2), "a start changes no rule");

    assert_eq!(flows.deploy(&limited(&[3]), "ann", None).await.unwrap().flow.version, "1");
    assert_eq!(declared().await, most(3));
    flows.deploy(&limited(&[4]), "ann", None).await.unwrap();
    assert!(!flows.deploy(&limited(&[3]), "ann", Some("1")).await.unwrap().is_new);
    assert_eq!(declared().await, most(4), "the newest version counts");

    busy.set(LimitRule::none().concurrency(1)).await.unwrap();
    flows.deploy(&limited(&[5]), "ann", None).await.unwrap();
    assert_eq!(busy.record().await.unwrap().unwrap().rule(), most(1), "the operator's rule holds");
    busy.clear().await.unwrap();
    assert_eq!(busy.record().await.unwrap().unwrap().rule(), most(5));

    let rate = LimitRule::none().rate(Rate::per_minute(60));
    busy.declare(rate).await.unwrap();
    db.client.set_limits(&limited(&[6])).await.unwrap();
    assert_eq!(declared().await, Some(rate.concurrency(6)), "the rate of a worker stays");
}

/// A start in a transaction declares nothing: others that declare the limit would wait for its end.
pub async fn an_order_declares_the_limits_of_its_start_and_a_transaction_none(db: Live) {
    let worker = LocalWorker::start(db.worker(runtime(&Calls::default()).build()).register(flow));
    let start = || db.client.start_definition(FlowStart::new(limited(&[2])));
    macro_rules! transact {
        ($begin:expr) => {{
            let mut transaction = $begin;
            start().within(&mut transaction).await.unwrap();
            transaction.rollback().await.unwrap();
            assert_eq!(db.client.limits().await.unwrap(), []);
            db.client.set_limits(&limited(&[2])).await.unwrap();
            let mut transaction = $begin;
            let run = start().within(&mut transaction).await.unwrap();
            transaction.commit().await.unwrap();
            run
        }};
    }
    let run = match db.database {
        Database::Sqlite | Database::Memory => {
            let mut connection = SqliteConnection::connect(&db.url()).await.unwrap();
            transact!(connection.begin_with("BEGIN IMMEDIATE").await.unwrap())
        }
        Database::Postgres => {
            let mut connection = PgConnection::connect(&db.url()).await.unwrap();
            transact!(connection.begin().await.unwrap())
        }
    };
    assert_eq!(run.result().await.unwrap(), json!(1));
    worker.stop().await;

    let mut other = limited(&[7]);
    other.for_each_step_mut(|step| step.limit.as_mut().unwrap().name = "other".to_owned());
    let start = FlowStart::new(other).into_run(None).unwrap();
    db.client.operate().perform(Order::new(Action::StartRun(Box::new(start)))).await.unwrap();
    let record = db.client.limit("other").record().await.unwrap().unwrap();
    assert_eq!(record.declared, Some(LimitRule::none().concurrency(7)));
}
