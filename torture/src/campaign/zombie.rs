//! The kind `zombie`: workers that are stopped for longer than their lease, and continue.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use rustix::process::Signal;

use super::{Part, Report, Round, RoundOptions};
use crate::checker::{Evidence, Violation, run_of};
use crate::ledger::{Fact, Line};
use crate::program::Shape;

/// The lease of every worker, in milliseconds. It is longer than a busy machine delays a thread.
const LEASE: u64 = 1000;

/// A thread that was stopped just before the bodies of a run writes their lines when it gets the
/// processor again, within this many microseconds.
const ENTERED: u128 = 1_000_000;

/// The number of threads of a worker: at most this many runs may be about to begin a body when it
/// is stopped.
const THREADS: usize = 2;

/// The duration of a long body, in milliseconds. It is longer than a worker needs after its return
/// to learn what it has lost. It learns that at its next heartbeat, a third of a lease later.
const LONG: u64 = 5 * LEASE;

/// Within this many microseconds a worker learns what it has lost, even on a busy machine.
const LEARNED: u128 = 3_000_000;

/// A worker that was stopped, and the claims that it lost meanwhile.
struct Zombie {
    pid: u32,
    worker: String,
    /// The runs, with the stale epochs.
    lost: BTreeMap<String, i64>,
    /// The time at which the worker continued, in microseconds since 1970.
    went_on: u128,
}

pub(super) async fn round(part: Part) -> Report {
    let count = part.count;
    let shape = Shape { long: LONG, ..Shape::default() };
    let options = RoundOptions { workers: 4, shape, ..RoundOptions::default() };
    let mut round = Round::begin_with(part, "zombie", options, |settings| {
        settings.lease = Some(LEASE);
        settings.pause = 10;
    })
    .await;
    round.wait_for_work().await;
    let mut zombies = Vec::new();
    for _ in 0..count {
        let pause = round.random.u64(0..200);
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let number = round.busiest();
        let worker = &round.workers[number];
        round.testbed.stop(worker).await;
        let held = round.claims_of(number).await;
        let stands = LEASE + round.random.u64(0..4 * LEASE);
        // Its runs are due from the end of its lease on, but other workers look for due runs only
        // once a second.
        tokio::time::sleep(Duration::from_millis(stands + 500)).await;
        let now = round.epochs(&held).await;
        let went_on = SystemTime::UNIX_EPOCH.elapsed().expect("a clock after 1970").as_micros();
        let worker = &round.workers[number];
        worker.signal(Signal::CONT);
        let lost: BTreeMap<String, i64> =
            held.into_iter().filter(|(run, epoch)| now.get(run).is_some_and(|now| now > epoch)).collect();
        round.report.faults += 1;
        round.report.done += 1;
        round.report.delivered += usize::from(!lost.is_empty());
        zombies.push(Zombie { pid: worker.pid(), worker: worker.id().unwrap_or_default(), lost, went_on });
    }
    // A lease this short may also expire on a busy machine.
    round.disturbed = round.workers.iter().map(crate::worker_process::WorkerProcess::pid).collect();
    round
        .finish_with(|evidence| {
            let mut found = begun_after_loss(evidence, &zombies);
            found.extend(ended_after_loss(evidence, &zombies));
            found
        })
        .await
}

/// Finds bodies that ended too late: once a worker has learned that a run is lost, it drops the
/// bodies of that run. It needs some time to learn that; a worker that is stopped again at once
/// does not have it.
fn ended_after_loss(evidence: &Evidence, zombies: &[Zombie]) -> Vec<Violation> {
    let mut found = Vec::new();
    for zombie in zombies {
        let begun = |end: &Line| {
            let begins = evidence.lines.iter().filter(|line| line.fact == Fact::Begin && line.pid == zombie.pid);
            begins.filter(|begin| begin.subject == end.subject && begin.at < end.at).map(|begin| begin.at).max()
        };
        let later = evidence
            .lines
            .iter()
            .filter(|line| line.fact == Fact::End && line.pid == zombie.pid && line.at > zombie.went_on + LEARNED);
        let stale = later.filter_map(|end| Some((end, zombie.lost.get(run_of(&end.subject))?)));
        let stale = stale.filter(|(end, _)| !is_back(zombies, zombie.pid, LEARNED, end));
        for (end, stale) in stale.filter(|(end, _)| begun(end).is_some_and(|begun| begun < zombie.went_on)) {
            let what = format!("{} ended in process {}, which had lost epoch {stale}", end.subject, zombie.pid);
            found.push(Violation { invariant: "I-Fence", run: run_of(&end.subject).to_owned(), what });
        }
    }
    found
}

/// Finds bodies that began too late: after its return, a worker begins no body of a run that it had
/// lost, unless it has claimed the run again.
fn begun_after_loss(evidence: &Evidence, zombies: &[Zombie]) -> Vec<Violation> {
    let mut found = Vec::new();
    for zombie in zombies {
        let again = |run: &str, stale: i64| {
            let mut its = evidence.claims.iter().filter(|claim| claim.worker.as_deref() == Some(&zombie.worker));
            its.any(|claim| claim.run == run && claim.epoch > stale)
        };
        let later = evidence
            .lines
            .iter()
            .filter(|line| line.fact == Fact::Begin && line.pid == zombie.pid && line.at > zombie.went_on);
        let stale = later.filter_map(|line| Some((line, *zombie.lost.get(run_of(&line.subject))?)));
        let mut entered = BTreeSet::new();
        for (line, stale) in stale.filter(|(line, stale)| !again(run_of(&line.subject), *stale)) {
            let run = run_of(&line.subject);
            entered.insert(run);
            if !is_back(zombies, zombie.pid, ENTERED, line) || entered.len() > THREADS {
                let what = format!("{} began in process {}, which had lost epoch {stale}", line.subject, zombie.pid);
                found.push(Violation { invariant: "I-Fence", run: run.to_owned(), what });
            }
        }
    }
    found
}

/// Returns `true` if the process had continued at most `since` microseconds before the line,
/// perhaps for the second time.
fn is_back(zombies: &[Zombie], pid: u32, since: u128, line: &Line) -> bool {
    let mut back = zombies.iter().filter(|it| it.pid == pid).map(|it| it.went_on);
    back.any(|went_on| (went_on..went_on + since).contains(&line.at))
}

impl Round {
    /// Returns the runs that a worker holds, with their epochs.
    async fn claims_of(&self, number: usize) -> BTreeMap<String, i64> {
        let Some(id) = self.workers[number].id() else { return BTreeMap::new() };
        self.epochs_where(&format!("worker_id = '{id}' AND status = 'running'")).await
    }

    async fn epochs(&self, runs: &BTreeMap<String, i64>) -> BTreeMap<String, i64> {
        let ids: Vec<String> = runs.keys().map(|run| format!("'{run}'")).collect();
        match ids.is_empty() {
            true => BTreeMap::new(),
            false => self.epochs_where(&format!("id IN ({})", ids.join(", "))).await,
        }
    }

    async fn epochs_where(&self, condition: &str) -> BTreeMap<String, i64> {
        let select = format!("SELECT CAST(id AS text) || ' ' || epoch AS line FROM workflow_runs WHERE {condition}");
        let lines = self.testbed.raw().await.lines(select, "line").await;
        let pairs = lines.iter().filter_map(|line| line.split_once(' '));
        pairs.map(|(run, epoch)| (run.to_owned(), epoch.parse().expect("an epoch"))).collect()
    }
}
