//! Many processes on one database.

use std::collections::HashSet;

use workflow_tests::Database;

use crate::scene::Scene;

/// Three workers and a client write as fast as they can. Nobody is refused, nothing is lost or done twice, and no
/// warning is given.
pub async fn three_processes_write_one_database(database: Database) {
    let scene = Scene::new(database).await;
    let mut settings = scene.settings();
    settings.concurrency = 20;
    settings.linger = 0;
    settings.pause = 1;
    let workers: Vec<_> = (0..3).map(|n| scene.spawn(&format!("worker-{n}"), &settings)).collect();
    for worker in &workers {
        worker.ready().await;
    }
    let mut runs = Vec::new();
    for _ in 0..30 {
        runs.extend(scene.start_mix(5, 4, 3).await);
    }
    scene.all_end(&runs).await;
    scene.check(&runs, &[]).await;
    assert_eq!(scene.crashes_counted().await, 0);
    let busy: HashSet<u32> = scene.ledger.begins().iter().map(|line| line.pid).collect();
    assert_eq!(busy.len(), workers.len(), "each of the workers worked");
    workers.iter().for_each(|worker| worker.assert_no_warnings());
    scene.sweep().await;
}
