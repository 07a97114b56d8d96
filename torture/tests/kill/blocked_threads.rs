//! A process whose threads are all blocked.

use workflow_tests::Database;
use workflow_torture::workflows;

use workflow_torture::testbed::{Started, Testbed};

/// In milliseconds. Two thirds of the lease must be longer than the slowest commit of a renewal,
/// because a busy disk can stall for most of a second.
const LEASE: u64 = 5000;

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
    hung.says("blocks its thread").await;
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
