//! A process whose threads are all blocked.

use workflow_tests::Database;
use workflow_torture::workflows;

use workflow_torture::scene::{Scene, Started};

/// In milliseconds. Two thirds of the lease must be longer than the slowest commit of a renewal,
/// because a busy disk can stall for most of a second.
const LEASE: u64 = 3000;

/// A separate thread renews the leases. Another worker waits for the time of three leases and finds
/// no run to claim.
pub async fn a_step_that_blocks_every_thread_keeps_its_lease(database: Database) {
    let scene = Scene::new(database).await;
    let mut settings = scene.settings();
    settings.lease = Some(LEASE);
    let blocked = scene.spawn("blocked", &settings);
    let output = 3 * LEASE;
    let id = scene.client.start(workflows::blocker, output).await.expect("start").id();
    scene.begins_in(&blocked).await;
    let idle = scene.spawn("idle", &settings);
    let runs = [Started { id, output }];
    scene.all_end(&runs).await;
    scene.check(&runs, &[]).await;
    assert_eq!(scene.ledger.begins().len(), 1);
    assert_eq!(scene.epoch(id).await, 1);
    blocked.assert_no_warnings();
    idle.assert_no_warnings();
    scene.sweep().await;
}
