//! Transactional steps have their effect exactly once, whichever process is killed at whichever
//! moment.

use futures::future::join_all;
use workflow_tests::Database;

use workflow_torture::testbed::Testbed;

pub async fn transaction_body(database: Database) {
    die_at(database, "transaction.body").await;
}

pub async fn transaction_before_commit(database: Database) {
    die_at(database, "transaction.before_commit").await;
}

/// Kills a process at the first transaction, a little later, and in the middle of the load, each
/// time on a new database.
async fn die_at(database: Database, point: &str) {
    join_all([1, 2, 7, 20].iter().map(|hit| die_once(database, format!("{point}@{hit}")))).await;
}

async fn die_once(database: Database, failpoint: String) {
    let testbed = Testbed::new(database).await;
    testbed.make_effects().await;
    let runs = testbed.start_debits(10).await;
    let mut settings = testbed.settings();
    settings.concurrency = 4;
    let mut first = testbed.spawn_to_die("first", &settings, &failpoint);
    first.end_by_kill().await;
    let recorded = testbed.recorded(&runs).await;
    testbed.check_order(&recorded);
    testbed.check_effects_so_far().await;

    let second = testbed.spawn("second", &settings);
    testbed.all_end(&runs).await;
    testbed.check(&runs, &[first.pid()]).await;
    testbed.check_never_again(&recorded);
    testbed.check_effects(&runs).await;
    first.assert_no_errors();
    second.assert_no_errors();
    println!("{database:?} {failpoint}: {} outcomes before the kill", recorded.count());
    testbed.sweep().await;
}

/// Two processes work on one database. Eight times, one of them is killed at a random moment of the
/// load and replaced.
pub async fn kills_leave_each_effect_once(database: Database) {
    let seed = std::env::var("WORKFLOW_KILL_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("{database:?}: WORKFLOW_KILL_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let testbed = Testbed::new(database).await;
    testbed.make_effects().await;
    let mut settings = testbed.settings();
    settings.concurrency = 10;
    settings.max_crashes = Some(100);
    let mut workers: Vec<_> = (0..2).map(|n| testbed.spawn(&format!("worker-{n}"), &settings)).collect();
    let (mut dead, mut runs) = (Vec::new(), Vec::new());
    for kill in 0..8 {
        // The runs of one round write 100 lines.
        let before = testbed.ledger.lines().len();
        runs.extend(testbed.start_debits(10).await);
        testbed.lines(before + random.usize(1..90)).await;
        let mut victim = workers.swap_remove(random.usize(0..workers.len()));
        victim.kill();
        dead.push(victim);
        workers.push(testbed.spawn(&format!("replacement-{kill}"), &settings));
    }
    testbed.all_end(&runs).await;
    let pids: Vec<u32> = dead.iter().map(|worker| worker.pid()).collect();
    testbed.check(&runs, &pids).await;
    testbed.check_effects(&runs).await;
    dead.iter().chain(&workers).for_each(|worker| worker.assert_no_errors());
    testbed.sweep().await;
}
