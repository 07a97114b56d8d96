//! Workers that stand still for longer than their lease, and come back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use rustix::process::Signal;

use super::{Part, Report, Round, RoundOptions};
use crate::checker::{Evidence, Violation, run_of};
use crate::ledger::{Fact, Line};
use crate::program::Shape;

/// Of every worker, in milliseconds. Longer than a busy machine keeps a thread waiting.
const LEASE: u64 = 1000;

/// A thread that was stopped on its way into the bodies of a run writes their lines once it has the processor again, in microseconds.
const ENTERED: u128 = 1_000_000;

/// Threads of a worker: so many runs may be entered when it is stopped.
const THREADS: usize = 2;

/// How long a long body takes, in milliseconds: longer than a worker that came back needs to learn what it has lost, which is its
/// next heartbeat, a third of a lease away.
const LONG: u64 = 5 * LEASE;

/// By then it has learned that, in microseconds, on a machine that is busy too.
const LEARNED: u128 = 3_000_000;

/// A worker that stood still, and the claims that it had lost meanwhile.
struct Zombie {
    pid: u32,
    worker: String,
    /// Run and stale epoch.
    lost: BTreeMap<String, i64>,
    /// When it went on, in microseconds since 1970.
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
        // From the end of its lease on its runs are due, but others look for them once a second.
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
    // A lease this short may also lapse on a machine that is busy.
    round.disturbed = round.workers.iter().map(crate::worker_process::WorkerProcess::pid).collect();
    round
        .finish_with(|evidence| {
            let mut found = begun_after_loss(evidence, &zombies);
            found.extend(ended_after_loss(evidence, &zombies));
            found
        })
        .await
}

/// Once it has learned that a run is lost, a worker drops the bodies of that run: none comes to its end. It needs the time to learn
/// it: one that is stopped again at once does not have it.
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
            let what = format!("{} came to its end in {}, which had lost epoch {stale}", end.subject, zombie.pid);
            found.push(Violation { invariant: "I-Fence", run: run_of(&end.subject).to_owned(), what });
        }
    }
    found
}

/// After it has come back, a worker begins no body of a run that it had lost, unless it has claimed it anew.
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
                let what = format!("{} began in {}, which had lost epoch {stale}", line.subject, zombie.pid);
                found.push(Violation { invariant: "I-Fence", run: run.to_owned(), what });
            }
        }
    }
    found
}

/// Whether a process had come back only so many microseconds before a line, maybe for the second time.
fn is_back(zombies: &[Zombie], pid: u32, since: u128, line: &Line) -> bool {
    let mut back = zombies.iter().filter(|it| it.pid == pid).map(|it| it.went_on);
    back.any(|went_on| (went_on..went_on + since).contains(&line.at))
}

impl Round {
    /// The runs that a worker holds, and their epochs.
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
