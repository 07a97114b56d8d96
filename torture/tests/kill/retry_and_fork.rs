//! Processes that die while a run is retried, or while a fork runs.

use futures::future::join_all;
use workflow_sdk::RunStatus;
use workflow_tests::Database;
use workflow_torture::ledger::Line;
use workflow_torture::workflows;

use workflow_torture::testbed::{Started, Testbed};

/// A worker dies between the failure of a run and the commit of its next attempt, and right after
/// that commit.
pub async fn a_kill_around_a_retry_loses_nothing(database: Database) {
    const POINTS: [&str; 4] =
        ["retry.before_commit@1", "retry.before_commit@2", "retry.after_commit@1", "retry.after_commit@2"];
    join_all(POINTS.map(|failpoint| die_around_a_retry(database, failpoint))).await;
}

async fn die_around_a_retry(database: Database, failpoint: &str) {
    let testbed = Testbed::new(database).await;
    let run = testbed.client.start(workflows::Stubborn, 5).await.expect("start");
    let mut first = testbed.spawn_to_die("first", &testbed.settings(), failpoint);
    first.end_by_kill().await;
    let second = testbed.spawn("second", &testbed.settings());
    testbed.all_end(&[Started { id: run.id(), output: 6 }]).await;

    let ended = run.run().await.expect("read a run");
    assert_eq!(
        (ended.status, ended.output.as_deref(), ended.attempt),
        (RunStatus::Succeeded, Some("6"), 3),
        "{failpoint}"
    );
    let begins = testbed.ledger.begins();
    let of = |key: &str| begins.iter().filter(|line| line.subject.ends_with(key)).collect::<Vec<&Line>>();
    assert_eq!(of("/steady").len(), 1, "{failpoint}: a finished step ran again");
    // One per attempt of the run, because no body was running at the moment of the kill.
    assert_eq!(of("/stubborn").len(), 3, "{failpoint}: {begins:?}");
    let history = testbed.history(run.id()).await;
    let outcomes: Vec<_> =
        history.iter().filter(|row| row.position.is_some()).map(|row| row.step_key.as_str()).collect();
    assert_eq!(outcomes, ["steady", "stubborn"]);
    let violations = testbed.raw().await.lines(workflow_torture::audit::VIOLATIONS, "violation").await;
    assert_eq!(violations, Vec::<String>::new(), "violations that the triggers of the database recorded");
    first.assert_no_errors();
    second.assert_no_errors();
    testbed.sweep().await;
}

/// A fork resumes after a kill like any other run, and never repeats a step before the one from
/// which it was forked.
pub async fn a_fork_survives_its_worker(database: Database) {
    const POINTS: [&str; 4] =
        ["claim.after_commit@1", "record.before_commit@2", "executor.after_commit@3", "end.before_commit@1"];
    join_all(POINTS.map(|failpoint| kill_a_fork(database, failpoint))).await;
}

async fn kill_a_fork(database: Database, failpoint: &str) {
    let testbed = Testbed::new(database).await;
    let source = testbed.client.start(workflows::chain, 1).await.expect("start");
    let mut worker = testbed.spawn("source", &testbed.settings());
    testbed.all_end(&[Started { id: source.id(), output: 55 }]).await;
    worker.kill();

    let fork = source.fork().from("link:5").await.expect("fork");
    let mut first = testbed.spawn_to_die("first", &testbed.settings(), failpoint);
    first.end_by_kill().await;
    let recorded = testbed.recorded(&[Started { id: fork.id(), output: 55 }]).await;
    let second = testbed.spawn("second", &testbed.settings());
    assert_eq!(fork.result().await.expect("the fork ends"), 55, "{failpoint}");
    testbed.check_never_again(&recorded);

    let begins = testbed.ledger.begins();
    let keys = |links: std::ops::Range<u32>| links.map(|link| format!("{}/link:{link}", fork.id()));
    let kept = keys(1..5).chain([format!("{}/link", fork.id())]);
    for key in kept {
        assert!(begins.iter().all(|line| line.subject != key), "{failpoint}: {key} began");
    }
    for key in keys(5..10) {
        assert!(begins.iter().any(|line| line.subject == key), "{failpoint}: {key} did not begin");
    }
    let violations = testbed.raw().await.lines(workflow_torture::audit::VIOLATIONS, "violation").await;
    assert_eq!(violations, Vec::<String>::new(), "violations that the triggers of the database recorded");
    first.assert_no_errors();
    second.assert_no_errors();
    testbed.sweep().await;
}
