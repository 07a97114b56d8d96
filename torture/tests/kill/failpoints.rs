//! A process dies at a failpoint, and the next one finishes its runs. These are the points that the
//! invariants depend on, under more load than in the matrix.

use futures::future::join_all;
use workflow_tests::Database;

use workflow_torture::testbed::Testbed;

pub async fn executor_before_commit(database: Database) {
    // With the delay, a sender that was wrongly answered before the commit would have continued
    // before the process dies.
    let at = |hit: u32| format!("executor.before_commit@{hit}:delay=50,executor.before_commit@{hit}");
    join_all([1, 2, 5, 20].map(|hit| die_once(database, at(hit)))).await;
}

pub async fn executor_after_commit(database: Database) {
    die_at(database, "executor.after_commit", &[1, 2, 5, 20]).await;
}

pub async fn park_after_commit(database: Database) {
    die_at(database, "park.after_commit", &[1, 2, 5]).await;
}

pub async fn step_body(database: Database) {
    die_at(database, "step.body", &[1, 2, 5, 20]).await;
}

/// Kills a process early, a little later, and in the middle of the load, each time on a new
/// database.
async fn die_at(database: Database, point: &str, hits: &[u32]) {
    join_all(hits.iter().map(|hit| die_once(database, format!("{point}@{hit}")))).await;
}

async fn die_once(database: Database, failpoint: String) {
    let testbed = Testbed::new(database).await;
    let runs = testbed.start_mix(6, 6, 8).await;
    let mut settings = testbed.settings();
    // Fewer permits than runs, so that there are several claims. Every sleep is a park.
    settings.concurrency = 4;
    settings.linger = 0;
    let mut first = testbed.spawn_to_die("first", &settings, &failpoint);
    first.end_by_kill().await;
    let recorded = testbed.recorded(&runs).await;
    testbed.check_order(&recorded);

    let second = testbed.spawn("second", &settings);
    testbed.all_end(&runs).await;
    testbed.check(&runs, &[first.pid()]).await;
    testbed.check_never_again(&recorded);
    first.assert_no_errors();
    second.assert_no_errors();
    println!("{database:?} {failpoint}: {} outcomes before the kill", recorded.count());
    testbed.sweep().await;
}
