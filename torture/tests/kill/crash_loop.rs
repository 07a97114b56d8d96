//! A run that kills its worker processes.

use std::time::{Duration, Instant};

use workflow_sdk::{ErrorKind, RunStatus};
use workflow_tests::{Database, until};
use workflow_torture::workflows;
use workflow_worker::WorkerOptions;

use workflow_torture::testbed::{Started, Testbed};

pub async fn a_run_that_kills_its_workers_is_failed(database: Database) {
    let testbed = Testbed::new(database).await;
    let settings = testbed.settings();
    // Healthy runs that the same worker has claimed at every death.
    let mut neighbours = Vec::new();
    for n in 0..3 {
        neighbours.push(testbed.start_gated(n).await);
    }
    let run = testbed.client.start(workflows::aborter, 1).await.expect("start");
    let mut deaths = 0;
    let survivor = loop {
        let mut worker = testbed.spawn(&format!("worker-{deaths}"), &settings);
        let died = until("the worker dies or the run ends", async || {
            let status = worker.ended();
            let ended = run.status().await.expect("read a run").is_terminal();
            (status.is_some() || ended).then_some(status)
        })
        .await;
        let Some(status) = died else { break worker };
        assert!(!status.success(), "{status}");
        if deaths == 4 {
            // From now on each suspect is driven alone, so its neighbours must be able to end.
            testbed.open_gate("one");
            testbed.open_gate("two");
        }
        assert!(!worker.log().contains("panicked"), "{}", worker.log());
        if deaths >= 5 {
            for text in ["it waits to be driven alone", "the run is driven alone"] {
                worker.says_of(&run.id().to_string(), text).await;
            }
        }
        deaths += 1;
    };
    let ended = run.run().await.expect("read a run");
    assert_eq!(ended.status, RunStatus::Failed);
    assert_eq!(ended.error.expect("a failed run has an error").kind, ErrorKind::CrashLoop);
    // Five deaths beside its neighbours, then those while it was driven alone.
    assert_eq!(deaths, 5 + 1 + WorkerOptions::DEFAULT_MAX_CRASHES);
    let begins = testbed.ledger.begins();
    let of_run = begins.iter().filter(|line| line.subject.starts_with(&run.id().to_string()));
    assert_eq!(of_run.count(), deaths as usize, "one body per death");
    testbed.all_end(&neighbours).await;

    let begun = testbed.ledger.begins().len();
    let next = testbed.client.start(workflows::fan, 1).await.expect("start");
    let next = Started { id: next.id(), output: 15 };
    testbed.all_end(&[next]).await;
    assert!(testbed.ledger.begins().iter().skip(begun).all(|line| line.pid == survivor.pid()));
    testbed.sweep().await;
}

pub async fn runs_in_flight_at_two_deaths_go_on_at_full_speed(database: Database) {
    go_on_at_full_speed(database, 2).await;
}

pub async fn runs_in_flight_at_three_deaths_go_on_at_full_speed(database: Database) {
    go_on_at_full_speed(database, 3).await;
}

/// Kills so many workers in turn while 40 runs are in flight, none of which records an outcome.
async fn go_on_at_full_speed(database: Database, kills: usize) {
    let testbed = Testbed::new(database).await;
    let mut settings = testbed.settings();
    settings.concurrency = 40;
    let mut runs = Vec::new();
    for n in 0..40 {
        runs.push(testbed.start_gated(n).await);
    }
    for deaths in 1..=kills {
        let mut worker = testbed.spawn(&format!("killed-{deaths}"), &settings);
        until("all runs are in flight", async || (testbed.ledger.begins().len() == 40 * deaths).then_some(())).await;
        worker.kill();
    }
    let survivor = testbed.spawn("survivor", &settings);
    let since = Instant::now();
    let all = 40 * (kills + 1);
    until("all runs are in flight again", async || (testbed.ledger.begins().len() == all).then_some(())).await;
    // The gates are closed, so no run has made room for another one.
    assert!(since.elapsed() < Duration::from_secs(18), "{:?}", since.elapsed());
    // More runs were claimed at once than may begin together.
    survivor.says("the run is held back").await;
    testbed.open_gate("one");
    testbed.open_gate("two");
    testbed.all_end(&runs).await;
    survivor.assert_no_errors();
    testbed.sweep().await;
}

pub async fn a_run_that_records_an_outcome_in_each_life_is_never_suspected(database: Database) {
    let testbed = Testbed::new(database).await;
    let mut settings = testbed.settings();
    // Long enough for a kill during the step that follows an outcome.
    settings.pause = 300;
    let run = testbed.client.start(workflows::chain, 12).await.expect("start");
    for life in 0..7 {
        let mut worker = testbed.spawn(&format!("life-{life}"), &settings);
        let recorded = async || run.history().await.expect("read a history").len();
        let before = recorded().await;
        until("an outcome is recorded", async || (recorded().await > before).then_some(())).await;
        worker.kill();
    }
    let _last = testbed.spawn("last", &settings);
    run.result().await.expect("the run succeeds");
    assert_eq!(run.run().await.expect("read a run").crashes, 0);
    testbed.sweep().await;
}

/// The number and the times of the runs of
/// [`no_innocent_run_fails_beside_runs_that_kill_their_workers`].
struct Bombs {
    poison: u64,
    innocent: u64,
    /// The duration of the step of an innocent run.
    step: Duration,
    /// How long the body of a poison lives before it aborts its process.
    fuse: Duration,
}

impl Bombs {
    /// Reads `WORKFLOW_KILL_BOMBS`, four numbers such as `3,12,40,0`: runs that abort, innocent
    /// runs, the seconds of an innocent step, and the seconds before an abort. Default: `2,8,2,0`,
    /// which a test can wait for.
    fn of_environment() -> Self {
        let text = std::env::var("WORKFLOW_KILL_BOMBS").unwrap_or_else(|_| "2,8,2,0".into());
        let numbers: Vec<u64> = text.split(',').map(|number| number.trim().parse().expect("a number")).collect();
        let [poison, innocent, step, fuse] = numbers[..] else { panic!("WORKFLOW_KILL_BOMBS={text}: four numbers") };
        Self { poison, innocent, step: Duration::from_secs(step), fuse: Duration::from_secs(fuse) }
    }

    /// Returns how long one worker may live: each innocent run may have to be driven alone for a
    /// while.
    fn longest_life(&self) -> Duration {
        Duration::from_secs(120) + (self.step + self.fuse) * 20
    }
}

/// Poison beside innocent runs with long steps: each poison fails, after at most 10 deaths that it
/// caused or shared, and no innocent run does. See [`Bombs::of_environment`] for longer steps.
pub async fn no_innocent_run_fails_beside_runs_that_kill_their_workers(database: Database) {
    let bombs = Bombs::of_environment();
    let testbed = Testbed::new(database).await;
    let mut settings = testbed.settings();
    settings.pause = u64::try_from(bombs.step.as_millis()).expect("a short time");
    let fuse = u64::try_from(bombs.fuse.as_millis()).expect("a short time");
    let (mut poison, mut innocent) = (Vec::new(), Vec::new());
    for n in 0..bombs.innocent.max(bombs.poison) {
        if n < bombs.innocent {
            innocent.push(testbed.client.start(workflows::leaf, n).await.expect("start"));
        }
        if n < bombs.poison {
            poison.push(testbed.client.start(workflows::slow_aborter, fuse).await.expect("start"));
        }
    }
    let mut deaths = 0;
    let ended = async || {
        let mut ended = true;
        for run in poison.iter().map(|run| run.id()).chain(innocent.iter().map(|run| run.id())) {
            ended &= testbed.client.run(run).await.expect("read a run").status.is_terminal();
        }
        ended
    };
    while !ended().await {
        let mut worker = testbed.spawn(&format!("worker-{deaths}"), &settings);
        let begun = Instant::now();
        while worker.ended().is_none() && !ended().await {
            assert!(begun.elapsed() < bombs.longest_life(), "no end after {deaths} deaths: {}", worker.log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        deaths += 1;
    }
    println!("{database:?}: {deaths} workers for {} runs that abort", bombs.poison);
    for run in &innocent {
        let row = run.run().await.expect("read a run");
        assert_eq!((row.status, row.crashes), (RunStatus::Succeeded, 0), "{row:?}");
    }
    for run in &poison {
        let row = run.run().await.expect("read a run");
        assert_eq!(row.error.expect("a failed run has an error").kind, ErrorKind::CrashLoop);
        let begins = testbed.ledger.begins();
        let bodies = begins.iter().filter(|line| line.subject.starts_with(&run.id().to_string())).count();
        assert!(bodies <= 10, "{bodies} deaths");
    }
    testbed.sweep().await;
}
