//! A process in which steps block their threads.

use std::time::Duration;

use workflow_sdk::{ErrorKind, Run, RunId, RunStatus};
use workflow_tests::{Database, until};
use workflow_torture::workflows;

use workflow_torture::audit::VIOLATIONS;
use workflow_torture::ledger::Line;
use workflow_torture::testbed::{Started, Testbed};
use workflow_torture::worker_process::WorkerProcess;

/// In milliseconds. Two thirds of the lease must be longer than the slowest commit of a renewal,
/// because a busy disk can stall for most of a second.
const LEASE: u64 = 5000;

/// In milliseconds. The cases with this lease wait until it is lost, so a slow renewal harms
/// nothing.
const SHORT_LEASE: u64 = 3000;

/// Long enough for a run to reach the step that blocks, and shorter than three of [`SHORT_LEASE`].
const DEADLINE: Duration = Duration::from_secs(6);

/// A separate thread renews the leases. Another worker waits for the time of two leases and finds
/// no run to claim.
pub async fn a_step_that_blocks_every_thread_keeps_its_lease(database: Database) {
    let testbed = Testbed::new(database).await;
    let mut settings = testbed.settings();
    settings.lease = Some(LEASE);
    let blocked = testbed.spawn("blocked", &settings);
    let output = 2 * LEASE;
    let id = testbed.client.start(workflows::blocker, output).await.expect("start").id();
    testbed.begins_in(&blocked).await;
    let idle = testbed.spawn("idle", &settings);
    let runs = [Started { id, output }];
    testbed.all_end(&runs).await;
    testbed.check(&runs, &[]).await;
    assert_eq!(testbed.ledger.begins().len(), 1);
    assert_eq!(testbed.epoch(id).await, 1);
    blocked.says("blocks its thread").await;
    blocked.assert_no_errors();
    idle.assert_no_warnings();
    testbed.sweep().await;
}

/// A step that blocks its thread for longer than three leases loses its run. The other run of that
/// worker keeps its lease, because its workflow is not stuck.
pub async fn a_run_that_never_awaits_loses_its_lease_and_its_neighbour_does_not(database: Database) {
    let testbed = Testbed::new(database).await;
    let mut settings = testbed.settings();
    settings.lease = Some(LEASE);
    settings.threads = 4;
    let hung = testbed.spawn("hung", &settings);
    let neighbour = testbed.start_gated(1).await;
    testbed.begins_in(&hung).await;
    let id = testbed.client.start(workflows::stuck, 7).await.expect("start").id();
    testbed.step_begins(id, "stuck").await;
    hung.says_of(&id.to_string(), "blocks its thread").await;
    settings.lease = None;
    let successor = testbed.spawn("successor", &settings);
    testbed.begins_in(&successor).await;
    testbed.open_gate("stuck");
    testbed.open_gate("one");
    testbed.open_gate("two");
    let runs = [neighbour, Started { id, output: 7 }];
    testbed.all_end(&runs).await;
    assert_eq!(testbed.crashes_counted().await, 0);
    assert_eq!(testbed.epoch(neighbour.id).await, 1, "the neighbour was never taken over");
    successor.assert_no_errors();
    testbed.sweep().await;
}

/// With one thread, nothing of the worker goes on while a step blocks it. Then the lease thread
/// renews nothing, and another worker takes every run over.
pub async fn a_runtime_that_stands_still_gives_up_all_its_runs(database: Database) {
    let testbed = Testbed::new(database).await;
    let mut settings = testbed.settings();
    settings.lease = Some(SHORT_LEASE);
    settings.threads = 1;
    let silent = testbed.spawn("silent", &settings);
    let neighbour = testbed.start_gated(1).await;
    testbed.begins_in(&silent).await;
    let id = testbed.client.start(workflows::stuck, 7).await.expect("start").id();
    testbed.step_begins(id, "stuck").await;
    silent.says_of(&id.to_string(), "blocks its thread").await;
    settings.lease = None;
    settings.threads = 4;
    let successor = testbed.spawn("successor", &settings);
    silent.says("has stopped to poll").await;
    for (run, step_key) in [(neighbour.id, "one"), (id, "stuck")] {
        until(&format!("the successor begins {step_key}"), async || {
            bodies(&testbed, run, step_key).iter().any(|line| line.pid == successor.pid()).then_some(())
        })
        .await;
        assert_eq!(testbed.epoch(run).await, 2);
    }
    for gate in ["stuck", "one", "two"] {
        testbed.open_gate(gate);
    }
    let runs = [neighbour, Started { id, output: 7 }];
    testbed.all_end(&runs).await;
    for run in runs {
        silent.says_of(&run.id.to_string(), "claim lost").await;
        assert_eq!(testbed.epoch(run.id).await, 2, "the successor has ended it");
    }
    assert_eq!(testbed.crashes_counted().await, 0, "the silent worker did not die");
    testbed.check_beside(&runs, &[], &[silent.pid()]).await;
    successor.assert_no_errors();
    testbed.sweep().await;
}

/// A cancel and a deadline that come while a run blocks its thread. The worker that takes the run
/// over begins no body of it but the compensation, and ends it.
pub async fn a_run_that_never_awaits_is_cleaned_up_by_its_successor(database: Database) {
    let testbed = Testbed::new(database).await;
    let mut settings = testbed.settings();
    settings.lease = Some(SHORT_LEASE);
    settings.threads = 5;
    // The worker has no permit to claim its runs again.
    settings.concurrency = 2;
    let hung = testbed.spawn("hung", &settings);
    let runs = [begin_late(&testbed, &hung).await, begin_canceled(&testbed).await];
    settings.lease = None;
    let successor = testbed.spawn("successor", &settings);
    for run in runs {
        hung.says_of(&run.to_string(), "blocks its thread").await;
    }
    for run in runs {
        let row = ended(&testbed, run).await;
        assert_eq!(row.epoch, 2, "{row:?}");
        assert_eq!(pids(&testbed, run, "stuck"), [hung.pid()]);
        assert_eq!(pids(&testbed, run, "undo-only"), [successor.pid()]);
    }
    is_lost(&testbed, &hung, &runs).await;
    successor.assert_no_errors();
    testbed.sweep().await;
}

/// No other worker serves the runs. The worker claims them again and drives them no second time.
/// They may have something to clean up, so only a termination ends them.
pub async fn a_run_that_never_awaits_is_terminated_without_another_worker(database: Database) {
    let testbed = Testbed::new(database).await;
    let mut settings = testbed.settings();
    settings.lease = Some(SHORT_LEASE);
    settings.threads = 5;
    settings.cancel_grace = Some(1000);
    let hung = testbed.spawn("hung", &settings);
    let runs = [begin_late(&testbed, &hung).await, begin_canceled(&testbed).await];
    for run in runs {
        hung.says_of(&run.to_string(), "blocks its thread").await;
    }
    for run in runs {
        until("the run is claimed again", async || {
            (testbed.client.run(run).await.expect("read a run").epoch > 2).then_some(())
        })
        .await;
        testbed.client.terminate(run).await.expect("terminate");
        assert_eq!(testbed.client.run(run).await.expect("read a run").status, RunStatus::Canceled);
        assert_eq!(pids(&testbed, run, "stuck"), [hung.pid()]);
        assert_eq!(pids(&testbed, run, "undo-only"), Vec::<u32>::new());
    }
    is_lost(&testbed, &hung, &runs).await;
    let next = testbed.client.start(workflows::leaf, 7).await.expect("start");
    assert_eq!(next.result().await.expect("the worker goes on"), 7);
    testbed.sweep().await;
}

/// Starts a run that blocks a thread of this worker beyond its deadline.
async fn begin_late(testbed: &Testbed, worker: &WorkerProcess) -> RunId {
    // The deadline counts from the start.
    worker.ready().await;
    let late = testbed.client.start(workflows::stuck_later, 7).deadline(DEADLINE).await.expect("start");
    testbed.step_begins(late.id(), "stuck").await;
    late.id()
}

/// Starts a run that blocks a thread, and cancels it.
async fn begin_canceled(testbed: &Testbed) -> RunId {
    let canceled = testbed.client.start(workflows::stuck_later, 7).await.expect("start");
    testbed.step_begins(canceled.id(), "stuck").await;
    canceled.cancel().await.expect("cancel");
    canceled.id()
}

/// Waits until the run has ended as its cancel or its deadline says.
async fn ended(testbed: &Testbed, id: RunId) -> Run {
    let row = until("a blocked run ends", async || {
        let row = testbed.client.run(id).await.expect("read a run");
        row.status.is_terminal().then_some(row)
    })
    .await;
    let kind = row.error.as_ref().map(|error| error.kind);
    match row.deadline_at {
        Some(_) => assert_eq!((row.status, kind), (RunStatus::Failed, Some(ErrorKind::Deadline))),
        None => assert_eq!((row.status, kind), (RunStatus::Canceled, None)),
    }
    row
}

/// Lets the blocked bodies end, and checks that their worker has lost the runs and changes nothing.
async fn is_lost(testbed: &Testbed, hung: &WorkerProcess, runs: &[RunId]) {
    let mut before = Vec::new();
    for run in runs {
        before.push((testbed.client.run(*run).await.expect("read a run"), testbed.history(*run).await));
    }
    testbed.open_gate("stuck");
    for (run, before) in runs.iter().zip(before) {
        hung.says_of(&run.to_string(), "claim lost").await;
        assert_eq!((testbed.client.run(*run).await.expect("read a run"), testbed.history(*run).await), before);
    }
    assert_eq!(testbed.crashes_counted().await, 0, "no worker died");
    assert_eq!(testbed.raw().await.lines(VIOLATIONS, "violation").await, Vec::<String>::new());
    hung.assert_no_errors();
}

/// Returns the lines of the bodies of this step that began.
fn bodies(testbed: &Testbed, run: RunId, step_key: &str) -> Vec<Line> {
    let subject = format!("{run}/{step_key}");
    testbed.ledger.begins().into_iter().filter(|line| line.subject == subject).collect()
}

/// Returns the processes in which a body of this step began.
fn pids(testbed: &Testbed, run: RunId, step_key: &str) -> Vec<u32> {
    bodies(testbed, run, step_key).iter().map(|line| line.pid).collect()
}
