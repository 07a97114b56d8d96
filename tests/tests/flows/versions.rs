//! Deployed versions, and runs that keep theirs.

use futures::future::join_all;
use serde_json::{Value, json};
use workflow_flows::graph::Flow;
use workflow_flows::{FlowClient, FlowStart, FlowStore, FlowStoreError, flow};
use workflow_sdk::RunStatus;
use workflow_tests::{Live, LocalWorker, until};

use crate::common::{Calls, echo, runtime, step, steps};

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
