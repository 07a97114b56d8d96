//! The kind `skew`: wrong clocks.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use workflow_engine::model::Clock;
use workflow_sdk::Timestamp;

use super::{Part, Report, Round, RoundOptions, RoundViolation};
use crate::checker::Violation;
use crate::skew::Skew;
use crate::worker_process::WorkerProcess;
use workflow_tests::Database;

const HOUR: i64 = 3600 * 1000;
const DECADE: i64 = 10 * 365 * 24 * HOUR;

pub(super) async fn round(part: Part) -> Report {
    match part.plan.database {
        Database::Sqlite => one_clock(part).await,
        _ => many_clocks(part).await,
    }
}

/// On PostgreSQL only the server's clock matters. Each worker has its own clock, which is sometimes
/// right and sometimes far off. No claim may be lost because of that, and no worker may be taken
/// for dead.
async fn many_clocks(part: Part) -> Report {
    let (count, seed) = (part.count, part.seed);
    let mut round = Round::begin(part, "skew", RoundOptions { workers: 0, ..RoundOptions::default() }).await;
    let mut clocks = Vec::new();
    for number in 0..3 {
        let skew = Skew::make(round.testbed.directory(), &number.to_string()).expect("create a wrong clock");
        skew.set(wrong_by(round.random.u32(..)));
        round.settings.variables = variables(&skew);
        round.spawn();
        clocks.push(skew);
    }
    for _ in 0..count {
        tokio::time::sleep(Duration::from_millis(round.random.u64(20..200))).await;
        let victim = round.random.usize(0..clocks.len());
        let shift = wrong_by(round.random.u32(..));
        clocks[victim].set(shift);
        round.ledger.read();
        let was_at_work =
            round.ledger.is_cut(round.workers[victim].pid()) || round.held_by(&round.workers[victim]).await > 0;
        round.report.faults += 1;
        round.report.delivered += usize::from(was_at_work);
        round.report.done += 1;
    }
    let mut report = round.finish().await;
    if report.taken_over > 0 {
        let what = format!("{} claims were taken from workers whose only fault was their clock", report.taken_over);
        let violation = Violation { invariant: "I-Fence", run: String::new(), what };
        report.violations.push(RoundViolation { violation, seed, count });
    }
    report
}

/// On SQLite the host's clock is the database's clock, and all processes share it. It is moved back
/// and forth by up to a second, as a correction may do, and sometimes forward by an hour, so that
/// all leases expire. Waits are late by the time by which the clock was moved back, so it is never
/// moved back by much.
async fn one_clock(part: Part) -> Report {
    let count = part.count;
    let clock = Clock::manual(Timestamp::from(std::time::SystemTime::now()));
    let options = RoundOptions { workers: 0, clock: Some(clock.clone()), ..RoundOptions::default() };
    let shift = Arc::new(AtomicI64::new(0));
    let mirror = tokio::spawn(mirror(clock, Arc::clone(&shift)));
    let mut round = Round::begin(part, "skew", options).await;
    let skew = Skew::make(round.testbed.directory(), "host").expect("create a wrong clock");
    round.settings.variables = variables(&skew);
    for _ in 0..3 {
        round.spawn();
    }
    round.disturbed = round.workers.iter().map(WorkerProcess::pid).collect();
    for _ in 0..count {
        tokio::time::sleep(Duration::from_millis(round.random.u64(50..300))).await;
        let step = match round.random.u32(0..20) {
            0 => HOUR,
            1..11 => -round.random.i64(1..1000),
            _ => round.random.i64(1..1000),
        };
        round.ledger.read();
        let mut was_at_work = round.workers.iter().any(|worker| round.ledger.is_cut(worker.pid()));
        for worker in &round.workers {
            was_at_work |= round.held_by(worker).await > 0;
        }
        skew.set(shift.fetch_add(step, Ordering::SeqCst) + step);
        round.note(if step < 0 { "backward" } else { "forward" }, 1);
        round.report.faults += 1;
        round.report.delivered += usize::from(was_at_work);
        round.report.done += 1;
    }
    let report = round.finish().await;
    mirror.abort();
    report
}

/// Keeps the clock of this process equal to the clock of the workers.
async fn mirror(clock: Clock, shift: Arc<AtomicI64>) {
    loop {
        let shift = shift.load(Ordering::SeqCst) * 1000;
        let wanted = Timestamp::from(std::time::SystemTime::now()).as_micros() + shift;
        let by = wanted - clock.fixed().map_or(wanted, Timestamp::as_micros);
        match by {
            0.. => clock.advance(Duration::from_micros(by.unsigned_abs())),
            _ => clock.set_back(Duration::from_micros(by.unsigned_abs())),
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Returns a shift in milliseconds.
fn wrong_by(number: u32) -> i64 {
    [0, HOUR, -HOUR, DECADE, -DECADE, 700, -700][number as usize % 7]
}

fn variables(skew: &Skew) -> Vec<(String, String)> {
    skew.variables().map(|(name, path)| (name.to_owned(), path.to_string_lossy().into_owned())).to_vec()
}
