//! A process that is stopped and continued.

use std::time::{Duration, SystemTime};

use rustix::process::Signal;
use workflow_sdk::Timestamp;
use workflow_tests::{Database, until};

use workflow_torture::testbed::Testbed;

/// A stopped worker keeps its liveness lock, so another worker can take over only after the end of
/// the lease. The worker continues while its successor works, and finds that its claim is lost. It
/// writes nothing, begins no step of that run, and serves new runs.
pub async fn a_stopped_worker_that_comes_back_writes_nothing(database: Database) {
    let testbed = Testbed::new(database).await;
    let mut settings = testbed.settings();
    // Long enough that a live worker on a busy machine does not lose it.
    settings.lease = Some(1500);
    let run = testbed.start_gated(7).await;
    let stopped = testbed.spawn("stopped", &settings);
    testbed.begins_in(&stopped).await;
    testbed.stop(&stopped).await;
    // The successor has a long lease, so that it does not lose the run on a slow machine.
    settings.lease = None;
    let mut successor = testbed.spawn("successor", &settings);
    testbed.begins_in(&successor).await;
    testbed.open_gate("one");
    let before = until("both steps have a row", async || {
        let rows = testbed.history(run.id).await;
        (rows.len() == 2).then_some(rows)
    })
    .await;

    stopped.signal(Signal::CONT);
    stopped.says("claim lost").await;
    assert_eq!(testbed.history(run.id).await, before);
    assert_eq!(testbed.epoch(run.id).await, 2);
    testbed.open_gate("two");
    testbed.all_end(&[run]).await;
    assert_eq!(testbed.epoch(run.id).await, 2);
    let begun: Vec<_> = testbed.ledger.begins().into_iter().filter(|line| line.pid == stopped.pid()).collect();
    assert_eq!(begun.len(), 1, "the stopped worker began one body, before it was stopped: {begun:?}");
    testbed.check(&[run], &[stopped.pid()]).await;

    assert_eq!(testbed.crashes_counted().await, 0, "the stopped worker did not die");
    successor.kill();
    let next = testbed.start_gated(8).await;
    testbed.all_end(&[next]).await;
    testbed.check(&[run, next], &[stopped.pid()]).await;
    assert!(
        testbed.ledger.begins().iter().skip(3).all(|line| line.pid == stopped.pid()),
        "the worker must serve new runs"
    );
    stopped.assert_no_errors();
    successor.assert_no_errors();
    testbed.sweep().await;
}

/// After many leases, the lease thread may run again before the threads of the worker. That must
/// not look as if the worker were stuck.
pub async fn a_worker_stopped_for_many_leases_does_not_take_itself_for_stuck(database: Database) {
    let testbed = Testbed::new(database).await;
    let mut settings = testbed.settings();
    let lease = Duration::from_millis(500);
    settings.lease = Some(500);
    let run = testbed.start_gated(7).await;
    let stopped = testbed.spawn("stopped", &settings);
    testbed.begins_in(&stopped).await;
    testbed.stop(&stopped).await;
    let lapsed_at = testbed.client.run(run.id).await.expect("read the run").available_at;
    until("many leases have passed", async || {
        let now = Timestamp::from(SystemTime::now());
        (now > lapsed_at + 6 * lease).then_some(())
    })
    .await;
    stopped.signal(Signal::CONT);
    testbed.open_gate("one");
    testbed.open_gate("two");
    testbed.all_end(&[run]).await;
    testbed.check(&[run], &[stopped.pid()]).await;
    assert_eq!(testbed.crashes_counted().await, 0);
    stopped.assert_no_errors();
    testbed.sweep().await;
}

/// The worker is stopped while its outcome is in flight. The successor has begun the same step and
/// not ended it, so only the fence can reject the stale outcome.
pub async fn a_worker_stopped_before_its_commit_changes_nothing(database: Database) {
    // On SQLite, a process that is stopped inside a transaction of another thread blocks all other
    // processes. Then the test tries again with a new database.
    let (testbed, mut settings, run, stopped) = loop {
        let testbed = Testbed::new(database).await;
        let mut settings = testbed.settings();
        settings.lease = Some(500);
        testbed.open_gate("one");
        let run = testbed.start_gated(7).await;
        let mut stopped = testbed.spawn_to_die("stopped", &settings, "record.before_commit@1:stop");
        testbed.begins_in(&stopped).await;
        stopped.stands_still().await;
        testbed.close_gate("one");
        if testbed.can_be_written().await {
            break (testbed, settings, run, stopped);
        }
        stopped.kill();
        testbed.sweep().await;
    };
    settings.lease = None;
    let successor = testbed.spawn("successor", &settings);
    testbed.begins_in(&successor).await;
    let before = until("the successor's row", async || {
        let rows = testbed.history(run.id).await;
        rows.iter().any(|row| row.epoch == 2).then_some(rows)
    })
    .await;

    stopped.signal(Signal::CONT);
    stopped.says("claim lost").await;
    assert_eq!(testbed.history(run.id).await, before);
    testbed.open_gate("one");
    testbed.open_gate("two");
    testbed.all_end(&[run]).await;
    assert_eq!(testbed.epoch(run.id).await, 2);
    testbed.check(&[run], &[stopped.pid()]).await;
    stopped.assert_no_errors();
    successor.assert_no_warnings();
    testbed.sweep().await;
}

/// The worker is stopped after the begin of a transaction, before the body. On SQLite, no other
/// worker can claim the run while a transaction is open.
pub async fn a_worker_stopped_before_the_body_of_a_transaction_begins_none(database: Database) {
    if database == Database::Sqlite {
        return;
    }
    let testbed = Testbed::new(database).await;
    testbed.make_effects().await;
    let mut settings = testbed.settings();
    settings.lease = Some(500);
    let runs = testbed.start_debits(1).await;
    let stopped = testbed.spawn_to_die("stopped", &settings, "transaction.begun@1:stop");
    stopped.stands_still().await;
    settings.lease = None;
    let successor = testbed.spawn("successor", &settings);
    testbed.all_end(&runs).await;

    stopped.signal(Signal::CONT);
    stopped.says("claim lost").await;
    assert!(
        testbed.ledger.begins().iter().all(|line| line.pid == successor.pid()),
        "the worker began a body of a run that it had lost"
    );
    testbed.check(&runs, &[]).await;
    testbed.check_effects(&runs).await;
    stopped.assert_no_errors();
    successor.assert_no_warnings();
    testbed.sweep().await;
}
