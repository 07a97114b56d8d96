//! A process that starts runs and is killed.

use futures::future::join_all;
use workflow_sdk::RunId;
use workflow_tests::Database;
use workflow_torture::ledger::Fact;

use workflow_torture::testbed::{Started, Testbed};

/// Every acknowledged start is stored. Every stored run ends, whether its start was acknowledged or
/// not.
pub async fn an_acknowledged_start_survives_its_process(database: Database) {
    let mut points = vec!["executor.before_commit@20", "executor.after_commit@20"];
    // On PostgreSQL, a batch of starts is one statement, so no transaction is open between two
    // statements.
    if database == Database::Sqlite {
        points.push("store.in_transaction@20");
    }
    join_all(points.into_iter().map(|failpoint| kill_starter(database, failpoint))).await;
}

async fn kill_starter(database: Database, failpoint: &str) {
    let testbed = Testbed::new(database).await;
    let mut settings = testbed.settings();
    settings.starts_runs = true;
    testbed.spawn_to_die("starter", &settings, failpoint).end_by_kill().await;
    let acknowledged = testbed.ledger.lines().into_iter().filter(|line| line.fact == Fact::Started);
    let acknowledged: Vec<RunId> = acknowledged.map(|line| line.subject.parse().expect("a run id")).collect();
    assert!(acknowledged.len() >= 19, "each batch before the last had a start: {}", acknowledged.len());
    for id in &acknowledged {
        testbed.client.run(*id).await.expect("an acknowledged start is never lost");
    }

    settings.starts_runs = false;
    let worker = testbed.spawn("worker", &settings);
    let mut runs = Vec::new();
    let mut raw = testbed.raw().await;
    for row in raw.lines("SELECT CAST(id AS text) || ' ' || input AS run FROM workflow_runs", "run").await {
        let (id, n) = row.split_once(' ').expect("id and input");
        runs.push(Started { id: id.parse().expect("a run id"), output: 5 * n.parse::<u64>().expect("a number") + 10 });
    }
    assert!(runs.len() >= acknowledged.len());
    testbed.all_end(&runs).await;
    testbed.check(&runs, &[]).await;
    worker.assert_no_warnings();
    testbed.sweep().await;
}
