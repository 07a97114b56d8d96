//! Random drives of random programs, and the checks of their results.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use workflow_engine::replay::{Divergence, Interruption};
use workflow_sdk::{AttemptStatus, StepKind, StoredError, Timestamp};

use crate::harness::{Delivery, Drive, Flow, START, Seen, Stop, Table, World};
use crate::program::undo;

/// The outputs of the rows of interruptions.
const INTERRUPTIONS: [&str; 2] = ["\"canceled\"", "\"deadline\""];

/// The number of moves after which a drive counts as stuck.
const MOST_MOVES: usize = 20_000;

/// How a run ended: with a result, or with a divergence.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum End {
    Result(Result<String, StoredError>),
    Diverged(Divergence),
}

/// The results of a drive from its history to its end.
#[derive(Debug)]
pub(crate) struct FinishedDrive {
    pub(crate) end: End,
    pub(crate) seen: Vec<Seen>,
    pub(crate) begun: Vec<String>,
    /// The leaves whose compensations were armed, in order.
    armed: Vec<usize>,
    pub(crate) crash_points: Vec<CrashPoint>,
    /// The table at the end of the drive.
    pub(crate) table: Table,
    /// The labels of final attempts, in the order of their commits.
    commit_order: Vec<String>,
}

impl FinishedDrive {
    /// Returns the drive if it has not diverged, as no drive of unchanged code does.
    pub(crate) fn fits(self) -> Result<Self, String> {
        match &self.end {
            End::Diverged(divergence) => Err(divergence.to_string()),
            End::Result(_) => Ok(self),
        }
    }

    /// Checks that each taken signal reached the workflow, so none is lost to a wait that was
    /// dropped.
    fn checked(self) -> Result<Self, String> {
        // A retried run need not ask for what it received after its failure.
        if let End::Result(_) = self.end
            && self.table.retries == 0
        {
            self.table.external.check(&self.table.rows, &self.seen)?;
        }
        Ok(self)
    }
}

/// The state after a crash between two commits.
#[derive(Debug)]
pub(crate) struct CrashPoint {
    pub(crate) table: Table,
    /// The number of values that the workflow had seen at most.
    pub(crate) seen: usize,
    pub(crate) now: Timestamp,
}

/// Continues from this history, with bodies, commits and timers in a random order.
pub(crate) fn drive_at_random(
    flow: &Flow,
    table: &Table,
    now: Timestamp,
    delivery: Delivery,
    rng: &mut Rng,
) -> Result<FinishedDrive, String> {
    let world = World { drive: rng.u64(..), ..World::default() };
    let mut drive = begin(flow, table, now, world, delivery);
    drive.delivers_early = rng.bool();
    RandomDrive::new(drive, table, now).finish(|it, stop| it.act_at_random(stop, rng))?.checked()
}

/// Continues from a crash point in the order and with the values of another drive.
pub(crate) fn drive_in_order(
    flow: &Flow,
    point: &CrashPoint,
    other: &FinishedDrive,
    delivery: Delivery,
) -> Result<FinishedDrive, String> {
    let world = World { values: values(&other.table), ..World::default() };
    let mut drive = begin(flow, &point.table, point.now, world, delivery);
    // Another choice than that of most crash points beside it.
    drive.delivers_early = point.seen.is_multiple_of(2);
    RandomDrive::new(drive, &point.table, point.now).finish(|it, _| it.act_in_order(&other.commit_order))
}

fn begin(flow: &Flow, table: &Table, now: Timestamp, world: World, delivery: Delivery) -> Drive {
    let mut drive = Drive::begin_at(table, flow, now, world);
    drive.delivery = delivery;
    drive
}

/// Returns the values of recorded bodies, also from the messages of errors.
fn values(table: &Table) -> BTreeMap<String, u64> {
    let value = |row: &workflow_sdk::StepAttempt| match (&row.output, &row.error) {
        (Some(output), _) => output.parse().ok(),
        (None, Some(error)) => error.message.rsplit(' ').next()?.parse().ok(),
        (None, None) => None,
    };
    table.rows.iter().filter_map(|row| Some((format!("{}#{}", row.step_key, row.attempt), value(row)?))).collect()
}

struct RandomDrive {
    drive: Drive,
    table: Table,
    now: Timestamp,
    crash_points: Vec<CrashPoint>,
    commit_order: Vec<String>,
    /// Whether an external event happened of which the run was not notified.
    unnoticed: bool,
}

impl RandomDrive {
    fn new(drive: Drive, table: &Table, now: Timestamp) -> Self {
        Self { drive, table: table.clone(), now, crash_points: Vec::new(), commit_order: Vec::new(), unnoticed: false }
    }

    fn finish(mut self, mut act: impl FnMut(&mut Self, &Stop) -> Result<(), String>) -> Result<FinishedDrive, String> {
        for _ in 0..MOST_MOVES {
            let stop = self.drive.advance();
            let end = match stop {
                Stop::Ended(result) => End::Result(result),
                Stop::Diverged(divergence) => End::Diverged(divergence),
                Stop::Continued(input) => return Err(format!("continues as new with {input}")),
                Stop::Waits { .. } if self.drive.read_external_events(&self.table) => continue,
                Stop::Waits { .. } => {
                    self.check_wait(&stop)?;
                    act(&mut self, &stop)?;
                    continue;
                }
            };
            // Records that were sent before the end are committed before the end.
            while self.commit()? {}
            // A transaction continues by itself: it is committed, or it finds that the run has
            // ended.
            while let Some(last) = self.drive.commits.len().checked_sub(1) {
                self.end_transaction(last, last % 2 == 0)?;
            }
            self.note_crash_point();
            let seen = self.drive.world.seen.lock().unwrap().clone();
            return Ok(FinishedDrive {
                end,
                seen,
                begun: self.drive.world.notes(),
                armed: self.drive.world.armed.lock().unwrap().clone(),
                crash_points: self.crash_points,
                table: self.table,
                commit_order: self.commit_order,
            });
        }
        Err(format!("the run does not end: {:?} with {:?}", self.drive, self.table))
    }

    /// Checks that the run may be parked exactly if it waits only for time or for external events.
    fn check_wait(&self, stop: &Stop) -> Result<(), String> {
        let runs = !self.drive.world.gates.lock().unwrap().is_empty();
        let moves = runs || !self.drive.in_flight.is_empty() || !self.drive.commits.is_empty();
        match (stop.park_until(), stop.timer()) {
            _ if self.drive.foreign_wakes > 0 => Err("a wake counts as foreign".into()),
            (Some(_), _) if moves => Err("may be parked although a body or a commit is under way".into()),
            (None, Some(_)) if !moves => Err("may not be parked although it only waits for time".into()),
            (None, None) if !moves => Err(format!("stuck after {:?}", self.drive.events)),
            _ => Ok(()),
        }
    }

    fn act_at_random(&mut self, stop: &Stop, rng: &mut Rng) -> Result<(), String> {
        if rng.u8(..32) == 0 {
            self.drive.interrupt(if rng.bool() { Interruption::Canceled } else { Interruption::Deadline });
        }
        if rng.u8(..5) == 0 {
            self.unnoticed |= self.table.external.happen(rng);
        }
        // A notification may arrive late.
        if self.unnoticed && rng.u8(..3) == 0 {
            self.unnoticed = false;
            self.drive.cell.look_again();
            return Ok(());
        }
        let closed = self.drive.world.closed();
        let commits = self.drive.commits.len();
        let others = [!self.drive.in_flight.is_empty(), self.drive.is_woken(), stop.timer().is_some(), commits > 0];
        let choice = rng.usize(..closed.len() + 2 * others.len());
        match choice.checked_sub(closed.len()) {
            None => self.open(&closed[choice]),
            // One batch may commit several records.
            Some(0 | 1) if others[0] => {
                for _ in 0..rng.u8(1..=3) {
                    self.commit()?;
                }
            }
            Some(2 | 3) if others[1] => drop(self.drive.take_wakes()),
            Some(4 | 5) if others[2] => {
                let due = stop.timer().unwrap_or(self.now);
                self.now = self.now.max(due) + Duration::from_millis(rng.u64(..10));
                self.drive.set_now(self.now);
                self.drive.fire_timers();
            }
            // Transactions commit in any order, between the records. A few commits fail.
            Some(6 | 7) if others[3] => self.end_transaction(rng.usize(..commits), rng.u8(..5) > 0)?,
            Some(_) => {}
        }
        Ok(())
    }

    fn act_in_order(&mut self, commit_order: &[String]) -> Result<(), String> {
        if self.commit()? || self.drive.take_wakes() || self.drive.fire_timers() {
            return Ok(());
        }
        let rank = |label: &String| commit_order.iter().position(|other| other == label).unwrap_or(usize::MAX);
        let next = self.drive.world.closed().into_iter().min_by_key(rank);
        let interruption = commit_order.iter().position(|label| INTERRUPTIONS.contains(&label.as_str()));
        // A run that failed by itself and is being undone is told nothing.
        let may_be_told = self.drive.cell.interrupted().is_none() && !self.drive.cell.has_begun_undo();
        if let Some(interruption) = interruption.filter(|_| may_be_told)
            && next.as_ref().is_none_or(|next| interruption < rank(next))
        {
            let deadline = commit_order[interruption] == INTERRUPTIONS[1];
            self.drive.interrupt(if deadline { Interruption::Deadline } else { Interruption::Canceled });
            return Ok(());
        }
        self.open(&next.ok_or("nothing to do")?);
        Ok(())
    }

    fn open(&self, label: &str) {
        let value = self.drive.world.value(label);
        self.drive.world.open(label, value);
    }

    fn commit(&mut self) -> Result<bool, String> {
        let Some(row) = self.drive.in_flight.front() else { return Ok(false) };
        if row.status != AttemptStatus::Running && row.kind == StepKind::Step {
            self.commit_order.push(format!("{}#{}", row.step_key, row.attempt));
        }
        if row.kind == StepKind::Interruption {
            self.commit_order.push(row.output.clone().unwrap_or_default());
        }
        self.note_crash_point();
        self.drive.commit(&mut self.table)
    }

    fn end_transaction(&mut self, index: usize, commits: bool) -> Result<(), String> {
        self.note_crash_point();
        self.drive.end_transaction(index, commits, &mut self.table)
    }

    fn note_crash_point(&mut self) {
        let seen = self.drive.seen_for_good();
        self.crash_points.push(CrashPoint { table: self.table.clone(), seen, now: self.now });
    }
}

/// Checks a drive after a crash. It sees the same values again, in the same order, at the same
/// times and with the same random values, and it repeats no recorded body.
pub(crate) fn check_drive_after(
    point: &CrashPoint,
    before: &FinishedDrive,
    after: &FinishedDrive,
) -> Result<(), String> {
    let old = &before.seen[..point.seen];
    if !after.seen.starts_with(old) {
        let rows = &point.table.rows;
        return Err(format!("before the crash the run saw {old:?}, after it {:?}; recorded were {rows:?}", after.seen));
    }
    check_bodies(&point.table, &after.begun)
}

/// Checks that no recorded body began again.
pub(crate) fn check_bodies(table: &Table, begun: &[String]) -> Result<(), String> {
    let recorded = |label: &&String| {
        let (key, attempt) = label.rsplit_once('#').expect("key and attempt");
        table.rows.iter().any(|row| {
            row.step_key == key
                && (row.position.is_some()
                    || row.status != AttemptStatus::Running && row.attempt.to_string() == attempt)
        })
    };
    begun.iter().find(recorded).map_or(Ok(()), |label| Err(format!("the recorded body of {label} ran again")))
}

/// Checks that a failed run ran all its armed compensations in reverse order, and that no other run
/// ran any.
pub(crate) fn check_compensations(finished: &FinishedDrive) -> Result<(), String> {
    let expected: Vec<String> = match &finished.end {
        End::Diverged(_) => return Ok(()),
        End::Result(Ok(_)) => Vec::new(),
        End::Result(Err(_)) => finished.armed.iter().rev().map(|leaf| undo(*leaf)).collect(),
    };
    let outcome = |row: &&workflow_sdk::StepAttempt| row.kind == StepKind::Compensation && row.position.is_some();
    let mut rows: Vec<_> = finished.table.rows.iter().filter(outcome).collect();
    rows.sort_by_key(|row| row.position);
    let undone: Vec<&str> = rows.iter().map(|row| row.step_key.rsplit('/').next().unwrap_or_default()).collect();
    if undone != expected {
        return Err(format!("armed {:?}, undone {rows:?}", finished.armed));
    }
    Ok(())
}

/// Checks that a replay of the whole history has the same end and sees the same values, begins no
/// body and writes nothing.
pub(crate) fn check_full_replay(flow: &Flow, finished: &FinishedDrive, delivery: Delivery) -> Result<(), String> {
    let mut replay = begin(flow, &finished.table, START, World::default(), delivery);
    let end = match replay.advance() {
        Stop::Ended(result) => End::Result(result),
        Stop::Diverged(divergence) => End::Diverged(divergence),
        Stop::Continued(_) | Stop::Waits { .. } => {
            return Err(format!("the full replay does not end: {:?}", replay.events));
        }
    };
    check_compensations(finished)?;
    if end != finished.end {
        return Err(format!("the run ended with {:?}, its full replay with {end:?}", finished.end));
    }
    // A body may run beside the call that diverges, and begin again at each try of the diverged
    // run.
    if let End::Diverged(_) = end {
        return Ok(());
    }
    let seen = replay.world.seen.lock().unwrap().clone();
    if seen != finished.seen {
        return Err(format!("the run saw {:?}, its full replay {seen:?}", finished.seen));
    }
    let begun = replay.world.notes();
    if !begun.is_empty()
        || !replay.in_flight.is_empty()
        || !replay.cell.take_outbox().is_empty()
        || !replay.commits.is_empty()
    {
        return Err(format!("the full replay begins {begun:?}, writes {:?}", replay.in_flight));
    }
    Ok(())
}
