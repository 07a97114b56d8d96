//! A process that is stopped and continued.

use rustix::process::Signal;
use workflow_tests::{Database, until};

use workflow_torture::scene::Scene;

/// A stopped worker keeps its liveness lock, so another worker can take over only after the end of
/// the lease. The worker continues while its successor works, and finds that its claim is lost. It
/// writes nothing, begins no step of that run, and serves new runs.
pub async fn a_stopped_worker_that_comes_back_writes_nothing(database: Database) {
    let scene = Scene::new(database).await;
    let mut settings = scene.settings();
    // Long enough that a live worker on a busy machine does not lose it.
    settings.lease = Some(1500);
    let run = scene.start_gated(7).await;
    let stopped = scene.spawn("stopped", &settings);
    scene.begins_in(&stopped).await;
    scene.stop(&stopped).await;
    // The successor has a long lease, so that it does not lose the run on a slow machine.
    settings.lease = None;
    let mut successor = scene.spawn("successor", &settings);
    scene.begins_in(&successor).await;
    scene.open_gate("one");
    let before = until("both steps have a row", async || {
        let rows = scene.history(run.id).await;
        (rows.len() == 2).then_some(rows)
    })
    .await;

    stopped.signal(Signal::CONT);
    stopped.says("claim lost").await;
    assert_eq!(scene.history(run.id).await, before);
    assert_eq!(scene.epoch(run.id).await, 2);
    scene.open_gate("two");
    scene.all_end(&[run]).await;
    assert_eq!(scene.epoch(run.id).await, 2);
    let begun: Vec<_> = scene.ledger.begins().into_iter().filter(|line| line.pid == stopped.pid()).collect();
    assert_eq!(begun.len(), 1, "the stopped worker began one body, before it was stopped: {begun:?}");
    scene.check(&[run], &[stopped.pid()]).await;

    successor.kill();
    let next = scene.start_gated(8).await;
    scene.all_end(&[next]).await;
    scene.check(&[run, next], &[stopped.pid()]).await;
    assert!(
        scene.ledger.begins().iter().skip(3).all(|line| line.pid == stopped.pid()),
        "the worker must serve new runs"
    );
    stopped.assert_no_errors();
    successor.assert_no_errors();
    scene.sweep().await;
}

/// The worker is stopped while its outcome is in flight. The successor has begun the same step and
/// not ended it, so only the fence can reject the stale outcome.
pub async fn a_worker_stopped_before_its_commit_changes_nothing(database: Database) {
    let scene = Scene::new(database).await;
    let mut settings = scene.settings();
    settings.lease = Some(500);
    // On SQLite, a process that is stopped inside a transaction of another thread blocks all other
    // processes. Then the test tries again with a new worker.
    let (run, stopped) = loop {
        scene.open_gate("one");
        let run = scene.start_gated(7).await;
        let mut stopped = scene.spawn_to_die("stopped", &settings, "record.before_commit@1:stop");
        scene.begins_in(&stopped).await;
        stopped.stands_still().await;
        scene.close_gate("one");
        if scene.can_be_written().await {
            break (run, stopped);
        }
        stopped.kill();
        scene.client.cancel(run.id).await.expect("cancel");
    };
    settings.lease = None;
    let successor = scene.spawn("successor", &settings);
    scene.begins_in(&successor).await;
    let before = until("the successor's row", async || {
        let rows = scene.history(run.id).await;
        rows.iter().any(|row| row.epoch == 2).then_some(rows)
    })
    .await;

    stopped.signal(Signal::CONT);
    stopped.says("claim lost").await;
    assert_eq!(scene.history(run.id).await, before);
    scene.open_gate("one");
    scene.open_gate("two");
    scene.all_end(&[run]).await;
    assert_eq!(scene.epoch(run.id).await, 2);
    scene.check(&[run], &[stopped.pid()]).await;
    stopped.assert_no_errors();
    successor.assert_no_warnings();
    scene.sweep().await;
}

/// The worker is stopped after the begin of a transaction, before the body. On SQLite, no other
/// worker can claim the run while a transaction is open.
pub async fn a_worker_stopped_before_the_body_of_a_transaction_begins_none(database: Database) {
    if database == Database::Sqlite {
        return;
    }
    let scene = Scene::new(database).await;
    scene.make_effects().await;
    let mut settings = scene.settings();
    settings.lease = Some(500);
    let runs = scene.start_debits(1).await;
    let stopped = scene.spawn_to_die("stopped", &settings, "transaction.begun@1:stop");
    stopped.stands_still().await;
    settings.lease = None;
    let successor = scene.spawn("successor", &settings);
    scene.all_end(&runs).await;

    stopped.signal(Signal::CONT);
    stopped.says("claim lost").await;
    assert!(
        scene.ledger.begins().iter().all(|line| line.pid == successor.pid()),
        "the worker began a body of a run that it had lost"
    );
    scene.check(&runs, &[]).await;
    scene.check_effects(&runs).await;
    stopped.assert_no_errors();
    successor.assert_no_warnings();
    scene.sweep().await;
}
