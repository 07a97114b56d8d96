//! Failures are found by their messages, by visitors that may see these.

use std::time::Duration;

use workflow_dashboard::{Access, Actor};
use workflow_sdk::{RunId, RunStatus};
use workflow_tests::{Database, Live, LocalWorker, until};

use crate::browser::{Browser, beside};
use crate::{fails, greets};

async fn failures_are_found_by_their_messages(database: Database) {
    let live = Live::new(database).await;
    let working = LocalWorker::start(live.worker(()).register(fails));
    let mut ids = Vec::new();
    for message in ["card 4711 declined: \"no funds\"", "card 12 declined: \"stolen\"", "no answer"] {
        let run = live.client.start(fails, message.to_owned()).await.unwrap();
        run.result().await.unwrap_err();
        ids.push(run.id().to_string());
    }
    until("two groups", async || {
        let failures = workflow_sdk::operate::OperateStatistics::failures(&live.client, Default::default()).await;
        (failures.ok()?.items.len() == 2).then_some(())
    })
    .await;
    let browser = Browser::start(&live, Access::local()).await;
    let access = Access::by(async |_| Some(Actor::operator("eve").without_payloads()));
    let mut blind = Browser::start(&live, access).await;
    beside(move || {
        let [one, two, other] = &ids[..] else { unreachable!() };
        let group = browser.get("/failures");
        group.is_page(200).shows("card # declined: &quot;*&quot;");
        let row = group.text.split("card # declined").last().unwrap();
        let link = row.split("href=\"").find(|link| link.contains("error:")).unwrap().split('"').next().unwrap();
        let runs = browser.get(&link.strip_prefix("/workflows").unwrap().replace("&amp;", "&"));
        runs.is_page(200).shows(one).shows(two).hides(other);
        browser.get("/runs?q=error:4711").shows(one).hides(two);
        browser.get("/runs?q=error:%22no+funds%22").shows(one).hides(two);
        browser.get("/runs?q=-error:declined+status:failed").shows(other).hides(one);
        browser.get("/runs?q=error:").is_page(400);
        browser.get("/words?q=err").shows("data-text=\"error:\"");

        blind.visit();
        blind.get("/failures").is_page(200).hides("declined").hides("error:");
        blind.get("/runs?q=error:4711").is_page(403).shows("hidden from you").hides(one);
        blind.get("/bulk/new?all=1&q=error:4711").is_page(403).hides(one);
        assert_eq!(blind.get("/changes?q=error:4711").status, 403);
        let order = [("action", "start_bulk"), ("apply", "retry_run"), ("q", "error:4711")];
        blind.submit(&order).is_page(403);
        blind.get("/bulk").hides("4711");
    })
    .await;
    working.stop().await;
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_are_found_by_their_messages_on_sqlite() {
    failures_are_found_by_their_messages(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_are_found_by_their_messages_on_postgres() {
    failures_are_found_by_their_messages(Database::Postgres).await;
}

async fn a_run_whose_deadline_has_passed_is_retried_with_a_new_one(database: Database) {
    let live = Live::new(database).await;
    let working = LocalWorker::start(live.worker(()).register(greets));
    let mut runs = Vec::new();
    for number in 0..2 {
        let run = live.client.start(greets, number).deadline(Duration::ZERO).await.unwrap();
        run.result().await.unwrap_err();
        runs.push(run.id());
    }
    let summary = async |run: RunId| workflow_sdk::operate::OperateRuns::run(&live.client, run).await.unwrap().summary;
    let (one, other) = (runs[0], runs[1]);
    let passed = summary(other).await.deadline_at.unwrap();
    let mut browser = Browser::start(&live, Access::local()).await;
    beside(move || {
        browser.visit();
        let (one, other) = (one.to_string(), other.to_string());
        let page = browser.get(&format!("/runs/{one}"));
        page.shows("Its deadline has passed, so it needs a new one.").shows("name=\"deadline\" required");
        let retry = [("action", "retry_run"), ("run", one.as_str())];
        let with = |more: &[(&str, &str)]| browser.submit(&[&retry[..], more].concat());
        with(&[("deadline", ""), ("deadline_unit", "hours")]).is_page(409).shows("--deadline 1h");
        with(&[("deadline", "1"), ("deadline_unit", "years")]).is_page(400).shows("No unit is called years");
        let done = with(&[("deadline", "1"), ("deadline_unit", "hours")]);
        assert_eq!(done.status, 303, "{}", done.text);

        // Also those that are chosen on the page of runs.
        browser.get(&format!("/bulk/new?q=&run={other}&action=retry_run")).shows("name=\"deadline\"");
        let chosen = [("action", "each_run"), ("apply", "retry_run"), ("runs", other.as_str())];
        let done = browser.submit(&[&chosen[..], &[("deadline", "2"), ("deadline_unit", "days")]].concat());
        assert_eq!(done.status, 303, "{}", done.text);
    })
    .await;
    for (run, seconds) in [(one, 3600), (other, 172_800)] {
        let run = summary(run).await;
        assert_ne!(run.status, RunStatus::Failed);
        assert!(run.deadline_at.unwrap().since(passed).as_secs() >= seconds, "{run:?}");
    }
    working.stop().await;
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_deadline_has_passed_is_retried_with_a_new_one_on_sqlite() {
    a_run_whose_deadline_has_passed_is_retried_with_a_new_one(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_deadline_has_passed_is_retried_with_a_new_one_on_postgres() {
    a_run_whose_deadline_has_passed_is_retried_with_a_new_one(Database::Postgres).await;
}
