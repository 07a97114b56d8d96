//! A worker takes over the runs of another worker that died.

use std::time::{Duration, SystemTime};

use rustix::process::Signal;
use workflow_tests::{Database, until};

use workflow_torture::testbed::Testbed;
use workflow_torture::worker_process::WorkerSettings;

const RUNS: usize = 5;

/// Far longer than the two looks of a watcher and the claim, because other tests run beside this
/// one, and far shorter than a lease of 30 seconds. The benchmark `takeover` judges the time.
const BOUND: Duration = Duration::from_secs(12);

/// How often sessions of a living worker are cut. `WORKFLOW_KILL_CUTS` sets another number.
const CUTS: u32 = 12;

pub async fn runs_of_a_killed_worker_resume_at_once(database: Database) {
    let testbed = Testbed::new(database).await;
    let settings = testbed.settings();
    let mut runs = Vec::new();
    for n in 0..RUNS as u64 {
        runs.push(testbed.start_gated(n).await);
    }
    let mut killed = testbed.spawn("killed", &settings);
    testbed.begun(RUNS).await;
    let other = testbed.spawn("other", &settings);
    other.ready().await;
    killed.kill();
    let killed_at = SystemTime::UNIX_EPOCH.elapsed().expect("a clock after 1970");

    let begins = testbed.begun(2 * RUNS).await.split_off(RUNS);
    assert!(begins.iter().all(|line| line.pid == other.pid()));
    let after = begins.iter().map(|line| Duration::from_micros(line.at as u64).saturating_sub(killed_at));
    let (first, last) = (after.clone().min().expect("a line"), after.max().expect("a line"));
    println!("{database:?}: {RUNS} runs of a killed worker resumed after {first:?} to {last:?}");
    assert!(last < BOUND, "the last of {RUNS} runs resumed after {last:?}");

    testbed.open_gate("one");
    testbed.open_gate("two");
    testbed.all_end(&runs).await;
    testbed.check(&runs, &[killed.pid()]).await;
    other.assert_no_warnings();
    testbed.sweep().await;
}

/// A live worker loses its connection or lock file, until it counts as dead. Both workers run the
/// step to its end, and one of them commits. Afterwards the first worker is recorded and watched
/// again.
pub async fn a_worker_cut_off_and_its_successor_never_both_commit(database: Database) {
    let testbed = Testbed::new(database).await;
    let settings = testbed.settings();
    let run = testbed.start_gated(3).await;
    // With one permit, the worker cannot claim the run again while its body runs.
    let mut cut_off = testbed.spawn("cut-off", &WorkerSettings { concurrency: 1, ..settings.clone() });
    testbed.begins_in(&cut_off).await;
    let worker = testbed.raw().await.text("SELECT CAST(id AS text) FROM workflow_workers").await;
    let mut successor = testbed.spawn("successor", &settings);
    let mut raw = testbed.raw().await;
    until("the successor takes over", async || {
        cut(&testbed, &mut raw, &worker).await;
        testbed.ledger.begins().iter().any(|line| line.pid == successor.pid()).then_some(())
    })
    .await;
    testbed.open_gate("one");
    cut_off.says("claim lost").await;
    testbed.open_gate("two");
    testbed.all_end(&[run]).await;
    assert_eq!(testbed.epoch(run.id).await, 2);
    let begun = testbed.ledger.begins();
    assert_eq!(begun.iter().filter(|line| line.pid == cut_off.pid()).count(), 1, "{begun:?}");
    testbed.check(&[run], &[cut_off.pid()]).await;

    until("the first worker is recorded again", async || {
        (raw.number("SELECT count(*) FROM workflow_workers").await == 2).then_some(())
    })
    .await;
    successor.kill();
    testbed.close_gate("one");
    testbed.close_gate("two");
    let next = testbed.start_gated(4).await;
    testbed.step_begins(next.id, "one").await;
    let last = testbed.spawn("last", &settings);
    last.ready().await;
    cut_off.kill();
    testbed.begins_in(&last).await;
    testbed.open_gate("one");
    testbed.open_gate("two");
    testbed.all_end(&[next]).await;
    testbed.check(&[run, next], &[cut_off.pid()]).await;
    for process in [&cut_off, &successor, &last] {
        process.assert_no_errors();
    }
    testbed.sweep().await;
}

/// Each cut ends one of the two sessions of a worker, in turns, while another worker looks for free
/// locks ten times per second. It never finds both free.
pub async fn a_living_worker_keeps_its_runs_when_a_session_is_cut(database: Database) {
    if database != Database::Postgres {
        // The lock of a file needs no connection.
        return;
    }
    let testbed = Testbed::new(database).await;
    let settings = testbed.settings();
    let run = testbed.start_gated(3).await;
    let mut worker = testbed.spawn("worker", &WorkerSettings { concurrency: 1, ..settings.clone() });
    testbed.begins_in(&worker).await;
    let other = testbed.spawn("other", &settings);
    other.ready().await;
    let mut raw = testbed.raw().await;
    let id = worker.id().expect("a worker that has started");
    let locks = format!(
        "FROM pg_locks AS l
         JOIN workflow_workers AS w ON w.lock_key = (l.classid::bigint << 32) | l.objid::bigint
         WHERE l.locktype = 'advisory' AND l.granted AND w.id = '{id}'"
    );
    let cuts = std::env::var("WORKFLOW_KILL_CUTS").map_or(CUTS, |cuts| cuts.parse().expect("a number"));
    for cut in 0..cuts {
        until("the worker has both locks", async || {
            (raw.number(format!("SELECT count(*) {locks}")).await == 2).then_some(())
        })
        .await;
        let kind = cut % 2 + 1;
        let ended =
            raw.number(format!("SELECT count(pg_terminate_backend(l.pid, 5000)) {locks} AND l.objsubid = {kind}"));
        assert_eq!(ended.await, 1);
    }
    assert_eq!((testbed.epoch(run.id).await, testbed.crashes_counted().await), (1, 0));

    // The other worker has looked all the time.
    worker.kill();
    testbed.begins_in(&other).await;
    testbed.open_gate("one");
    testbed.open_gate("two");
    testbed.all_end(&[run]).await;
    assert_eq!((testbed.epoch(run.id).await, testbed.crashes_counted().await), (2, 1));
    testbed.check(&[run], &[worker.pid()]).await;
    other.assert_no_warnings();
    testbed.sweep().await;
}

/// A stopped process keeps its locks. The worker that takes over the runs of a dead neighbour has
/// looked at both.
pub async fn a_stopped_worker_keeps_its_runs_beside_one_that_died(database: Database) {
    let testbed = Testbed::new(database).await;
    let settings = testbed.settings();
    let one_run = WorkerSettings { concurrency: 1, ..settings.clone() };
    let kept = testbed.start_gated(3).await;
    let stopped = testbed.spawn("stopped", &one_run);
    testbed.begins_in(&stopped).await;
    let lost = testbed.start_gated(4).await;
    let mut killed = testbed.spawn("killed", &one_run);
    testbed.begins_in(&killed).await;
    let other = testbed.spawn("other", &settings);
    other.ready().await;
    testbed.stop(&stopped).await;
    killed.kill();
    testbed.begins_in(&other).await;
    assert_eq!((testbed.epoch(kept.id).await, testbed.epoch(lost.id).await), (1, 2));
    assert_eq!(testbed.crashes_counted().await, 1, "only the run of the worker that died");

    stopped.signal(Signal::CONT);
    testbed.open_gate("one");
    testbed.open_gate("two");
    testbed.all_end(&[kept, lost]).await;
    assert_eq!(testbed.epoch(kept.id).await, 1);
    testbed.check_beside(&[kept, lost], &[killed.pid()], &[stopped.pid()]).await;
    stopped.assert_no_errors();
    other.assert_no_errors();
    testbed.sweep().await;
}

/// Removes the liveness locks of this worker: ends the sessions that hold them, or puts another
/// file in the place of the locked one. Without a file, the worker would count as unknown for a
/// while.
async fn cut(testbed: &Testbed, raw: &mut workflow_tests::RawConnection, worker: &str) {
    match testbed.database {
        Database::Memory => unreachable!("these cases do not run on the in-memory store"),
        Database::Sqlite => {
            let file = testbed.directory().join("test.db-workers").join(format!("{worker}.lock"));
            match std::fs::remove_file(&file) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => panic!("remove a lock file: {error}"),
                _ => drop(std::fs::File::create(file).expect("create a lock file")),
            }
        }
        Database::Postgres => {
            raw.number(format!(
                "SELECT count(pg_terminate_backend(l.pid)) FROM pg_locks AS l
                 JOIN workflow_workers AS w ON w.lock_key = (l.classid::bigint << 32) | l.objid::bigint
                 WHERE l.locktype = 'advisory' AND l.granted AND w.id = '{worker}'"
            ))
            .await;
        }
    }
}
