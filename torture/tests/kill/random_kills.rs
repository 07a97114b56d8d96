//! Kills at random moments.

use workflow_tests::Database;

use workflow_torture::testbed::Testbed;

const KILLS: usize = 10;

/// Three processes work on one database. Ten times, one of them is killed at a random moment of the
/// load and replaced. The moment is a number of lines of the ledger, so it never falls into idle
/// time.
pub async fn kills_lose_nothing(database: Database) {
    let seed = std::env::var("WORKFLOW_KILL_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("{database:?}: WORKFLOW_KILL_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let testbed = Testbed::new(database).await;
    let mut settings = testbed.settings();
    settings.concurrency = 15;
    settings.linger = 20;
    settings.pause = 10;
    // Random kills may hit the same run every time.
    settings.max_crashes = Some(100);
    let mut workers: Vec<_> = (0..3).map(|n| testbed.spawn(&format!("worker-{n}"), &settings)).collect();
    let mut dead = Vec::new();
    let mut runs = Vec::new();
    let mut mid_step = 0;
    for kill in 0..KILLS {
        // The runs of one round write 144 lines.
        let before = testbed.ledger.lines().len();
        runs.extend(testbed.start_mix(4, 4, 4).await);
        testbed.lines(before + random.usize(1..130)).await;
        // The process that wrote the last line is most likely in the middle of a step.
        let busy = testbed.ledger.lines().last().map(|line| line.pid);
        let busy = workers.iter().position(|worker| Some(worker.pid()) == busy);
        let mut victim = workers.swap_remove(busy.unwrap_or_else(|| random.usize(0..workers.len())));
        victim.kill();
        mid_step += usize::from(testbed.is_cut(victim.pid()));
        dead.push(victim);
        workers.push(testbed.spawn(&format!("replacement-{kill}"), &settings));
    }
    testbed.all_end(&runs).await;
    let pids: Vec<u32> = dead.iter().map(|worker| worker.pid()).collect();
    testbed.check(&runs, &pids).await;
    dead.iter().chain(&workers).for_each(|worker| worker.assert_no_errors());
    println!("{database:?}: {} runs, {KILLS} kills, {mid_step} of them in the middle of a step", runs.len());
    testbed.sweep().await;
}

/// Runs so many workflows at once that the executor prepares batches and sends them ahead, where
/// the database allows it. Each worker is killed in the middle of the load.
pub async fn hundreds_of_concurrent_runs_survive_kills(database: Database) {
    let testbed = Testbed::new(database).await;
    let mut settings = testbed.settings();
    settings.concurrency = 300;
    settings.linger = 0;
    settings.pause = 1;
    settings.max_crashes = Some(100);
    let mut runs = Vec::new();
    let mut dead = Vec::new();
    for kill in 0..3 {
        let before = testbed.ledger.lines().len();
        runs.extend(testbed.start_mix(200, 60, 0).await);
        let mut worker = testbed.spawn(&format!("worker-{kill}"), &settings);
        // The runs of one round write about 5,000 lines.
        testbed.lines(before + 1500).await;
        worker.kill();
        dead.push(worker);
    }
    let last = testbed.spawn("last", &settings);
    testbed.all_end(&runs).await;
    let pids: Vec<u32> = dead.iter().map(|worker| worker.pid()).collect();
    testbed.check(&runs, &pids).await;
    dead.iter().chain([&last]).for_each(|worker| worker.assert_no_errors());
    testbed.sweep().await;
}
