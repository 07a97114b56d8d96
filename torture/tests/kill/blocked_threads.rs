//! A process whose threads are all blocked.

use workflow_tests::Database;
use workflow_torture::workflows;

use workflow_torture::testbed::{Started, Testbed};

/// In milliseconds. Two thirds of the lease must be longer than the slowest commit of a renewal,
/// because a busy disk can stall for most of a second.
const LEASE: u64 = 3000;

/// A separate thread renews the leases. Another worker waits for the time of three leases and finds
/// no run to claim.
pub async fn a_step_that_blocks_every_thread_keeps_its_lease(database: Database) {
    let testbed = Testbed::new(database).await;
    let mut settings = testbed.settings();
    settings.lease = Some(LEASE);
    let blocked = testbed.spawn("blocked", &settings);
    let output = 3 * LEASE;
    let id = testbed.client.start(workflows::blocker, output).await.expect("start").id();
    testbed.begins_in(&blocked).await;
    let idle = testbed.spawn("idle", &settings);
    let runs = [Started { id, output }];
    testbed.all_end(&runs).await;
    testbed.check(&runs, &[]).await;
    assert_eq!(testbed.ledger.begins().len(), 1);
    assert_eq!(testbed.epoch(id).await, 1);
    blocked.assert_no_warnings();
    idle.assert_no_warnings();
    testbed.sweep().await;
}
