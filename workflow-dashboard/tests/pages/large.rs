//! Large and strange things: many steps, long names, texts of any kind.

use std::time::{Duration, Instant};

use workflow_dashboard::Access;
use workflow_engine::model::{Claim, RunId, StepAttempt, StepKind, Timestamp, WorkerId};
use workflow_engine::store::{ClaimRequest, Outcome, Write};
use workflow_tests::builders::{attempt, begun, lane_of, park, succeeded};
use workflow_tests::{Database, Live, LocalWorker, until};

use crate::browser::{Browser, beside};
use crate::{fails, greets};

/// The steps of the long run.
const STEPS: i64 = 50_000;
/// How long the first window may take, many times the budget: tests share their machine.
const LONGEST: Duration = Duration::from_secs(5);

async fn claimed(live: &Live, run: RunId) -> Claim {
    let request = ClaimRequest {
        worker: WorkerId::generate(),
        lanes: vec![lane_of("default", "greets", "1")],
        limited: Vec::new(),
        gated: Vec::new(),
        gates_first: Vec::new(),
        limit: 1,
        lease: Duration::from_secs(3600),
    };
    let mut outcomes = live.client.store().commit(&[Write::Claim(request)]).await.unwrap();
    match outcomes.pop() {
        Some(Outcome::Claimed(mut claimed)) => {
            let claim = claimed.runs.pop().expect("the run is due").claim;
            assert_eq!(claim.run_id, run);
            claim
        }
        other => panic!("{other:?}"),
    }
}

async fn a_run_of_many_steps_is_shown_in_windows(database: Database) {
    let live = Live::new(database).await;
    let run = live.client.start(greets, 1).await.unwrap().id();
    let claim = claimed(&live, run).await;
    let steps: Vec<i64> = (1..=STEPS).collect();
    for part in steps.chunks(2_000) {
        let writes: Vec<Write> =
            part.iter().map(|step| attempt(claim, succeeded(&format!("step-{step:05}"), *step, "1"))).collect();
        live.client.store().commit(&writes).await.unwrap();
    }
    let browser = Browser::start(&live, Access::local()).await;
    let browser = beside(move || {
        browser.get("/runs").is_page(200);
        let begun = Instant::now();
        let first = browser.get(&format!("/runs/{run}"));
        let took = begun.elapsed();
        first.is_page(200).shows("step-00001").shows("Later steps").hides("step-00301");
        assert!(took <= LONGEST, "the first window took {took:?}");
        assert!(first.compressed() <= 25_000, "{} bytes", first.compressed());
        let later = browser.get(&format!("/runs/{run}?from=300"));
        later.shows("step-00301").shows("Earlier steps").hides("step-00300");
        let last = browser.get(&format!("/runs/{run}?from=49800"));
        last.is_page(200).shows("step-50000").hides("Later steps");
        browser.get(&format!("/runs/{run}?from=4294967295")).is_page(200);
        let history = browser.get(&format!("/runs/{run}?tab=history"));
        assert!(history.is_page(200).compressed() <= 25_000, "{} bytes", history.compressed());
        // The window of a step is found.
        let far = browser.get(&format!("/runs/{run}?step=step-04000"));
        far.is_page(200).shows("aria-label=\"Step step-04000\"").shows("step-03901").hides("step-03900");
        browser.get(&format!("/runs/{run}?step=step-04000x")).is_page(200).hides("aria-label=\"Step ");
        // Nothing is said of the attempts that were not read.
        let signals = browser.get(&format!("/runs/{run}?tab=signals"));
        signals.is_page(200).hides("waits for none").shows("The first 200 attempts of the run have received no signal");
        browser
    })
    .await;
    let wait = StepAttempt { kind: StepKind::Signal, output: Some("{}".into()), ..begun("greeting") };
    for write in [attempt(claim, wait), park(claim, Timestamp::FAR_FUTURE)] {
        let outcomes = live.client.store().commit(&[write]).await.unwrap();
        assert!(matches!(outcomes[..], [Outcome::Applied]), "{outcomes:?}");
    }
    beside(move || {
        let signals = browser.get(&format!("/runs/{run}?tab=signals"));
        signals.is_page(200).shows("<strong>greeting</strong>").shows("waits").hides("have received no signal");
        let open = browser.get(&format!("/runs/{run}?step=greeting"));
        open.is_page(200).shows("aria-label=\"Step greeting\"").shows("step-50000").hides("step-49800");
    })
    .await;
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_of_many_steps_is_shown_in_windows_on_sqlite() {
    a_run_of_many_steps_is_shown_in_windows(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_of_many_steps_is_shown_in_windows_on_postgres() {
    a_run_of_many_steps_is_shown_in_windows(Database::Postgres).await;
}

const SCRIPT: &str = "<script>alert(1)</script>\"'&";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strange_texts_are_shown_as_text() {
    let live = Live::new(Database::Sqlite).await;
    let long = "\u{5e9}\u{5dc}\u{5d5}\u{5dd} ".repeat(20);
    let input = serde_json::json!({ "max": i64::MAX, "min": i64::MIN, "html": SCRIPT, "rtl": "\u{202e}\u{5e9}" });
    let strange = live
        .client
        .start_by_name(format!("work{SCRIPT}"), &input)
        .queue(format!("queue{SCRIPT}"))
        .version("7<script>")
        .key(format!("{long}{SCRIPT}"))
        .tag("<script>", SCRIPT)
        .await
        .unwrap()
        .id();
    let big = serde_json::Value::from("x".repeat(2 * 1024 * 1024 - 100));
    let large = live.client.start_by_name("large", &big).await.unwrap().id();
    let working = LocalWorker::start(live.worker(()).register(fails));
    let secret = live.client.start(fails, format!("{SCRIPT}{}", "w".repeat(10_000))).await.unwrap();
    secret.result().await.unwrap_err();
    let failed = secret.id();
    let reason = workflow_sdk::operate::Order::new(workflow_sdk::operate::Action::PauseRun { run: strange });
    let reason = reason.actor(SCRIPT).reason(SCRIPT);
    workflow_sdk::operate::Operate::perform(&live.client, reason).await.unwrap();
    until("the failure", async || {
        let failures = workflow_sdk::operate::OperateStatistics::failures(&live.client, Default::default()).await;
        (failures.ok()?.items.len() == 1).then_some(())
    })
    .await;

    let browser = Browser::start(&live, Access::local()).await;
    beside(move || {
        let tabs = ["", "?tab=history", "?tab=signals", "?tab=family", "?tab=data", "?step=charge"];
        let runs = [strange, large, failed];
        let of_runs = runs.iter().flat_map(|run| tabs.iter().map(move |tab| format!("/runs/{run}{tab}")));
        let pages = crate::story::PAGES.iter().map(|path| (*path).to_owned());
        let more = [
            "/bulk/new?all=1&q=is:open".to_owned(),
            "/words?q=%3Cscript%3Ealert(1)".to_owned(),
            "/runs?q=%3Cscript%3Ealert(1)%3C/script%3E".to_owned(),
            format!("/queues/{}", crate::browser::escaped(&format!("queue{SCRIPT}"))),
            format!("/workflows/{}", crate::browser::escaped(&format!("work{SCRIPT}"))),
            "/failures?workflow=%3Cscript%3Ealert(1)".to_owned(),
            "/audit?actor=%3Cscript%3Ealert(1)".to_owned(),
        ];
        for path in pages.chain(of_runs).chain(more) {
            let page = browser.get(&path);
            assert!(matches!(page.status, 200 | 400), "{path}: {}", page.status);
            page.is_page(page.status).hides("<script>");
            assert!(page.compressed() <= 25_000, "{path}: {} bytes", page.compressed());
        }
        let page = browser.get(&format!("/runs/{strange}"));
        page.shows("9223372036854775807").shows("-9223372036854775808").shows("dir=\"auto\"").shows("&lt;script&gt;");
        let page = browser.get(&format!("/runs/{large}?tab=data"));
        page.shows("too much for a page").shows("Download");
        let whole = browser.get(&format!("/runs/{large}/payload?of=input"));
        assert_eq!(whole.text.len(), 2 * 1024 * 1024 - 98);
    })
    .await;
    working.stop().await;
    live.sweep().await;
}
