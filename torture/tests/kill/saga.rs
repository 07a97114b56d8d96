//! A worker dies at any commit of a run with compensations. Every step is undone, in reverse order,
//! and a recorded compensation does not run again.

use std::collections::BTreeMap;

use futures::future::join_all;
use workflow_sdk::prelude::*;
use workflow_sdk::{ErrorKind, RunId};
use workflow_tests::{Database, until};
use workflow_torture::workflows;

use workflow_torture::audit::VIOLATIONS;
use workflow_torture::testbed::{Started, Testbed};

/// More than the commits of either run: the run ends before the last hits are reached.
const COMMITS: u32 = 9;

/// The claim, the outcome of the first step, and the claim after the cancel or the second outcome.
/// More outcomes may share a commit, and a death after the last commit is seen after the run's end.
const FEWEST: usize = 3;

pub async fn a_failed_run_is_undone_whenever_its_worker_dies(database: Database) {
    at_every_commit(database, async |testbed| testbed.client.start(workflows::unlucky, 1).await.expect("start").id())
        .await;
}

pub async fn a_canceled_run_is_undone_whenever_its_worker_dies(database: Database) {
    at_every_commit(database, async |testbed| testbed.client.start(workflows::waits, 1).await.expect("start").id())
        .await;
}

async fn at_every_commit(database: Database, start: impl AsyncFn(&Testbed) -> RunId) {
    for point in ["executor.before_commit", "executor.after_commit"] {
        let deaths = join_all((1..=COMMITS).map(|hit| die_once(database, format!("{point}@{hit}"), &start)));
        let deaths = deaths.await.into_iter().filter(|died| *died).count();
        assert!(deaths >= FEWEST, "only {deaths} of {COMMITS} workers died before the end");
    }
}

/// Returns whether the worker died before the run had ended.
async fn die_once(database: Database, failpoint: String, start: impl AsyncFn(&Testbed) -> RunId) -> bool {
    let testbed = Testbed::new(database).await;
    let mut settings = testbed.settings();
    settings.linger = 0;
    let run = Started { id: start(&testbed).await, output: 0 };
    let mut first = testbed.spawn_to_die("first", &settings, &failpoint);
    let died = until("the first worker dies or the run ends", async || {
        cancel_if_parked(&testbed, run.id).await;
        match first.ended() {
            Some(_) => Some(true),
            None => testbed.client.run(run.id).await.expect("read").status.is_terminal().then_some(false),
        }
    })
    .await;
    let recorded = testbed.recorded(&[run]).await;
    testbed.check_order(&recorded);
    let second = testbed.spawn("second", &settings);
    until("the run ends", async || {
        cancel_if_parked(&testbed, run.id).await;
        testbed.client.run(run.id).await.expect("read").status.is_terminal().then_some(())
    })
    .await;
    check(&testbed, run.id, first.pid(), &failpoint).await;
    testbed.check_never_again(&recorded);
    testbed.check_order(&testbed.recorded(&[run]).await);
    second.assert_no_errors();
    testbed.sweep().await;
    died
}

/// Cancels a parked run of [`workflows::waits`]. No other workflow parks for long.
async fn cancel_if_parked(testbed: &Testbed, id: RunId) {
    let run = testbed.client.run(id).await.expect("read");
    if run.lane.workflow == "waits" && run.status == RunStatus::Parked && run.cancel_requested_at.is_none() {
        testbed.client.cancel(id).await.expect("cancel");
    }
}

/// Checks that the run ended as it would without a death. Each body ran once, or a second time if
/// the death interrupted it.
async fn check(testbed: &Testbed, id: RunId, dead: u32, failpoint: &str) {
    let violations = testbed.raw().await.lines(VIOLATIONS, "violation").await;
    assert_eq!(violations, Vec::<String>::new(), "violations that the triggers of the database recorded");
    let run = testbed.client.run(id).await.expect("read");
    let bodies: &[&str] = match run.lane.workflow.as_str() {
        "waits" => {
            assert_eq!((run.status, &run.error), (RunStatus::Canceled, &None), "{failpoint}");
            &["only", "undo-only"]
        }
        _ => {
            let error = run.error.expect("a failed run has an error");
            assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Application, "no luck"), "{failpoint}");
            assert_eq!(error.causes, [""; 0]);
            &["one", "two", "undo-one", "undo-two"]
        }
    };
    let mut begins: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for line in testbed.ledger.begins() {
        begins.entry(line.subject).or_default().push(line.pid);
    }
    let keys: Vec<String> = bodies.iter().map(|name| format!("{id}/{name}")).collect();
    assert_eq!(begins.keys().collect::<Vec<_>>(), keys.iter().collect::<Vec<_>>(), "{failpoint}");
    for (subject, pids) in begins {
        let twice = pids.len() == 2 && pids[0] == dead && pids[1] != dead;
        assert!(pids.len() == 1 || twice, "{failpoint}: {subject} began in {pids:?}, and {dead} died");
    }
}
