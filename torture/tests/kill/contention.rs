//! Many processes on one database.

use std::collections::HashSet;

use workflow_tests::Database;

use workflow_torture::testbed::Testbed;

/// Three workers and a client write as fast as they can. No write is refused, nothing is lost or
/// done twice, and no process logs a warning.
pub async fn three_processes_write_one_database(database: Database) {
    let testbed = Testbed::new(database).await;
    let mut settings = testbed.settings();
    settings.concurrency = 20;
    settings.linger = 0;
    settings.pause = 1;
    let workers: Vec<_> = (0..3).map(|n| testbed.spawn(&format!("worker-{n}"), &settings)).collect();
    for worker in &workers {
        worker.ready().await;
    }
    let mut runs = Vec::new();
    let busy = || testbed.ledger.begins().iter().map(|line| line.pid).collect::<HashSet<u32>>().len();
    for round in 0..200 {
        if round >= 30 && busy() == workers.len() {
            break;
        }
        runs.extend(testbed.start_mix(5, 4, 3).await);
    }
    testbed.all_end(&runs).await;
    testbed.check(&runs, &[]).await;
    assert_eq!(testbed.crashes_counted().await, 0);
    assert_eq!(busy(), workers.len(), "each worker ran steps");
    workers.iter().for_each(|worker| worker.assert_no_warnings());
    testbed.sweep().await;
}
