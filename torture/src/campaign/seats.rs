//! The kind `seats`: workers die, stand still for longer than their leases or lose connections,
//! while the steps of all runs share the seats and the rate of a limit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use rustix::process::Signal;
use workflow_sdk::{LimitRule, Rate};

use super::cuts::Cuts;
use super::{Part, Report, Round, RoundOptions};
use crate::checker::Violation;
use crate::ledger::{Fact, Line};
use crate::program::Shape;
use crate::testbed::Testbed;
use crate::worker_process::{WorkerProcess, WorkerSettings};

/// The number of keys of the limit.
const KEYS: u32 = 3;

/// The number of bodies that may run at once under a key. The workers have room for more.
const SEATS: u32 = 2;

/// The rate under each key: so many bodies per second, and so many at once after a pause.
const PER_SECOND: u32 = 5;
const BURST: u32 = 3;

/// The lease of every worker, in milliseconds.
const LEASE: u64 = 1000;

/// The duration of a short step, in milliseconds: long enough for most kills to hit one.
const PAUSE: u64 = 10;

/// One of so many faults is a stop past the lease, and on PostgreSQL another one a cut connection.
const STOPS: usize = 8;

pub(super) async fn round(part: Part) -> Report {
    let count = part.count;
    let rule = LimitRule::none().concurrency(SEATS).rate(Rate::per_second(PER_SECOND).burst(BURST));
    let shape = Shape { keys: KEYS, ..Shape::default() };
    // Twice as many programs as elsewhere, because many wait for seats.
    let options = RoundOptions { shape, at_once: 48, limit: Some(rule), ..RoundOptions::default() };
    let slow = |settings: &mut WorkerSettings| (settings.lease, settings.pause) = (Some(LEASE), PAUSE);
    let mut cuts = Cuts::of(&part);
    let mut round = Round::begin_with(part, "seats", options, slow).await;
    cuts.spawn(&mut round);
    // A lease that ends during a stop is a lost claim.
    round.disturbed = round.workers.iter().map(WorkerProcess::pid).collect();
    let gauge = Gauge::start(&round.testbed).await;
    let mut halts = Vec::new();
    for fault in 1..=count {
        tokio::time::sleep(Duration::from_millis(round.random.u64(100..400))).await;
        let victim = round.busiest();
        let pid = round.workers[victim].pid();
        let was_at_work = if fault % STOPS == 0 {
            round.testbed.stop(&round.workers[victim]).await;
            halts.push((micros(), pid));
            let held = round.held_by(&round.workers[victim]).await > 0;
            tokio::time::sleep(Duration::from_millis(round.random.u64(LEASE..3 * LEASE))).await;
            round.workers[victim].signal(Signal::CONT);
            round.note("stops", 1);
            held
        } else if fault % STOPS == STOPS / 2 && cuts.cut(&mut round).await {
            true
        } else {
            let was_at_work = round.kill(victim).await;
            halts.push((micros(), pid));
            round.note("kills", 1);
            cuts.replace(&mut round, pid);
            round.disturbed.extend(round.workers.iter().map(WorkerProcess::pid));
            was_at_work
        };
        round.report.faults += 1;
        round.report.done += 1;
        round.report.delivered += usize::from(was_at_work);
    }
    let (most, looks) = gauge.end().await;
    round.note("looks at the seats", looks);
    round.most("seats of a key at once", most);
    if most > SEATS as usize {
        round.violation("I-Limit", format!("{most} steps held a seat of one key at once, of {SEATS}"));
    }
    let lines = round.testbed.ledger.lines();
    round.note("bodies with a seat", seated(&lines).filter(|(line, _)| line.fact == Fact::Begin).count());
    // The rest of the load ends under the limit: with a lost seat it could not.
    round
        .finish_with(|evidence| {
            // A worker without its session loses its seats while its bodies go on.
            let keeps_seats = |line: &&Line| !evidence.unlocked.contains(&line.pid);
            let lines: Vec<Line> = evidence.lines.iter().filter(keeps_seats).cloned().collect();
            violations(&lines, &halts)
        })
        .await
}

/// Returns the microseconds since 1970.
fn micros() -> u128 {
    SystemTime::UNIX_EPOCH.elapsed().expect("a clock after 1970").as_micros()
}

/// Returns the lines of bodies that needed a seat, each with its key.
fn seated(lines: &[Line]) -> impl Iterator<Item = (&Line, &str)> {
    let bodies = lines.iter().filter(|line| matches!(line.fact, Fact::Begin | Fact::End));
    bodies.filter_map(|line| {
        let name = line.subject.rsplit('/').next()?.split(':').next()?;
        Some((line, name.strip_prefix('q')?.split_once('-')?.1))
    })
}

/// Returns where the bodies of a key were more than the limit allows for the first time: at one
/// moment, and in any period. `halts` are the times at which processes died or were stopped. Their
/// seats are not free before, and may be taken by others long after.
fn violations(lines: &[Line], halts: &[(u128, u32)]) -> Vec<Violation> {
    let mut lines: Vec<(&Line, &str)> = seated(lines).collect();
    lines.sort_by_key(|(line, _)| line.at);
    let mut halts = halts.iter().peekable();
    let mut running: BTreeMap<&str, BTreeSet<(u32, &str, u32)>> = BTreeMap::new();
    let mut buckets: BTreeMap<&str, Bucket> = BTreeMap::new();
    let (mut at_once, mut too_early) = (BTreeMap::new(), BTreeMap::new());
    for (line, key) in lines {
        while let Some((_, pid)) = halts.next_if(|(at, _)| *at <= line.at) {
            running.values_mut().for_each(|bodies| bodies.retain(|(other, ..)| other != pid));
        }
        let body = (line.pid, line.subject.as_str(), line.attempt);
        let bodies = running.entry(key).or_default();
        if line.fact == Fact::End {
            bodies.remove(&body);
            continue;
        }
        bodies.insert(body);
        let violation = |what: String| Violation { invariant: "I-Limit", run: line.subject.clone(), what };
        if bodies.len() > SEATS as usize {
            let what = || format!("{} bodies ran under key {key} at once, of {SEATS}: {bodies:?}", bodies.len());
            at_once.entry(key).or_insert_with(|| violation(what()));
        }
        if buckets.entry(key).or_default().is_too_full(line.at) {
            let what = || format!("more bodies began under key {key} within a period than its rate allows");
            too_early.entry(key).or_insert_with(|| violation(what()));
        }
    }
    at_once.into_values().chain(too_early.into_values()).collect()
}

/// The bodies that began under a key, as a bucket that leaks at its rate.
#[derive(Default)]
struct Bucket {
    at: u128,
    /// The level after the last body, in microseconds of the rate.
    level: u128,
}

impl Bucket {
    /// Adds a body. Returns whether the rate cannot have let it begin. A body may begin late, but
    /// it holds a seat until then, so at any moment at most as many are late as there are seats.
    fn is_too_full(&mut self, at: u128) -> bool {
        let a_body = 1_000_000 / u128::from(PER_SECOND);
        self.level = self.level.saturating_sub(at - self.at) + a_body;
        self.at = at;
        self.level > a_body * u128::from(BURST + 1 + SEATS)
    }
}

/// Counts the seats that are taken again and again. Each count is one statement, which sees the
/// commits of one moment.
struct Gauge {
    task: tokio::task::JoinHandle<()>,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    most: AtomicUsize,
    looks: AtomicUsize,
    is_over: AtomicBool,
}

/// Reads the number of seats that are taken under the key that has most.
const MOST_TAKEN: &str = "SELECT coalesce(max(taken), 0) FROM (
    SELECT count(*) AS taken FROM workflow_seats AS s JOIN workflow_runs AS r ON r.id = s.run_id AND r.epoch = s.epoch
    WHERE s.epoch IS NOT NULL AND r.status = 'running' GROUP BY s.limit_name, s.key) AS lines";

impl Gauge {
    async fn start(testbed: &Testbed) -> Self {
        let seen = Arc::new(Seen::default());
        let mut raw = testbed.raw().await;
        let task = tokio::spawn({
            let seen = Arc::clone(&seen);
            async move {
                while !seen.is_over.load(Ordering::Relaxed) {
                    let most = usize::try_from(raw.number(MOST_TAKEN).await).unwrap_or(usize::MAX);
                    seen.most.fetch_max(most, Ordering::Relaxed);
                    seen.looks.fetch_add(1, Ordering::Relaxed);
                    // The looks must not slow the workers down.
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        });
        Self { task, seen }
    }

    /// Returns the largest count, and the number of counts.
    async fn end(self) -> (usize, usize) {
        self.seen.is_over.store(true, Ordering::Relaxed);
        self.task.await.expect("the gauge ends");
        (self.seen.most.load(Ordering::Relaxed), self.seen.looks.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(at: u128, pid: u32, fact: Fact, subject: &str) -> Line {
        Line { at, pid, fact, subject: subject.to_owned(), attempt: 1, value: String::new() }
    }

    #[test]
    fn a_third_body_of_a_key_is_found_unless_one_has_ended_or_its_process_has_died() {
        let two = [line(1, 7, Fact::Begin, "a/q1-3"), line(2, 8, Fact::Begin, "b/j1-0/q2-3")];
        let with = |more: &[Line]| [&two[..], more].concat();
        let third = line(9, 8, Fact::Begin, "c/q1-3");
        let found = violations(&with(std::slice::from_ref(&third)), &[]);
        assert!(found[0].what.contains("3 bodies ran under key 3 at once, of 2"), "{found:?}");
        let ended = with(&[line(3, 7, Fact::End, "a/q1-3"), third.clone()]);
        assert!(violations(&ended, &[]).is_empty());
        assert!(violations(&with(&[third]), &[(5, 7)]).is_empty());
        assert!(violations(&with(&[line(9, 8, Fact::Begin, "c/q1-2")]), &[]).is_empty(), "another key");
        assert!(violations(&with(&[line(9, 8, Fact::Begin, "c/s1")]), &[]).is_empty(), "a step without a seat");
    }

    #[test]
    fn a_body_before_the_rate_allows_it_is_found() {
        let bodies = |count: u128, every: u128| -> Vec<Line> {
            let body = |n: u128| {
                let subject = format!("r{n}/q1-1");
                [line(n * every, 7, Fact::Begin, &subject), line(n * every, 7, Fact::End, &subject)]
            };
            (0..count).flat_map(body).collect()
        };
        assert!(violations(&bodies(100, 210_000), &[]).is_empty());
        let found = violations(&bodies(100, 160_000), &[]);
        assert!(found[0].what.contains("than its rate allows"), "{found:?}");
    }
}
