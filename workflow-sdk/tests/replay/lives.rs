//! Random lives of random programs, and what must hold of them.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use workflow_sdk::engine::{Divergence, Interruption};
use workflow_sdk::{AttemptStatus, StepKind, StoredError, Timestamp};

use crate::harness::{Delivery, Flow, Life, START, Seen, Stop, Table, World};
use crate::program::undo;

/// The outputs of rows of interruptions.
const INTERRUPTIONS: [&str; 2] = ["\"canceled\"", "\"deadline\""];

/// Moves after which a life that has not ended never will.
const MOST_MOVES: usize = 20_000;

/// How a run ended: its output, or that the code does not fit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum End {
    Result(Result<String, StoredError>),
    Diverged(Divergence),
}

/// The calls that were new to one life are recorded for the next, so where a divergence shows them it may show fewer.
fn same_end(one: &End, other: &End) -> bool {
    match (one, other) {
        (End::Diverged(one), End::Diverged(other)) => {
            one.recorded() == other.recorded() && one.before() == other.before()
        }
        _ => one == other,
    }
}

/// A life from some history to its end.
#[derive(Debug)]
pub(crate) struct Lived {
    pub(crate) end: End,
    pub(crate) seen: Vec<Seen>,
    pub(crate) begun: Vec<String>,
    /// Leaves whose compensations were armed, in order.
    armed: Vec<usize>,
    pub(crate) crash_points: Vec<CrashPoint>,
    /// What it left behind.
    pub(crate) table: Table,
    /// Labels of final attempts, in the order of their commits.
    commit_order: Vec<String>,
}

impl Lived {
    /// A signal that was taken has reached the workflow: none is lost to a wait that was dropped.
    fn checked(self) -> Result<Self, String> {
        if let End::Result(_) = self.end {
            self.table.outside.check(&self.table.rows, &self.seen)?;
        }
        Ok(self)
    }
}

/// A process that dies after a commit and before the next one leaves this.
#[derive(Debug)]
pub(crate) struct CrashPoint {
    pub(crate) table: Table,
    /// How much the workflow had seen at most.
    pub(crate) seen: usize,
    pub(crate) now: Timestamp,
}

/// Lives on from this history, with bodies, commits and timers in a random order.
pub(crate) fn live(
    flow: &Flow,
    table: &Table,
    now: Timestamp,
    delivery: Delivery,
    rng: &mut Rng,
) -> Result<Lived, String> {
    let world = World { life: rng.u64(..), ..World::default() };
    let life = begin(flow, table, now, world, delivery);
    Living::new(life, table, now).go_on(|living, stop| living.act_at_random(stop, rng))?.checked()
}

/// Lives on from this history in the same order, and with the same values, as another life did.
pub(crate) fn live_like(flow: &Flow, point: &CrashPoint, other: &Lived, delivery: Delivery) -> Result<Lived, String> {
    let world = World { values: values(&other.table), ..World::default() };
    let life = begin(flow, &point.table, point.now, world, delivery);
    Living::new(life, &point.table, point.now).go_on(|living, _| living.act_like(&other.commit_order))
}

fn begin(flow: &Flow, table: &Table, now: Timestamp, world: World, delivery: Delivery) -> Life {
    let mut life = Life::begin_at(table, flow, now, world);
    life.delivery = delivery;
    life
}

/// The values that recorded bodies gave, in messages of errors too.
fn values(table: &Table) -> BTreeMap<String, u64> {
    let value = |row: &workflow_sdk::StepAttempt| match (&row.output, &row.error) {
        (Some(output), _) => output.parse().ok(),
        (None, Some(error)) => error.message.rsplit(' ').next()?.parse().ok(),
        (None, None) => None,
    };
    table.rows.iter().filter_map(|row| Some((format!("{}#{}", row.step_key, row.attempt), value(row)?))).collect()
}

struct Living {
    life: Life,
    table: Table,
    now: Timestamp,
    crash_points: Vec<CrashPoint>,
    commit_order: Vec<String>,
    /// Something has happened outside that the run was not told of.
    unheard: bool,
}

impl Living {
    fn new(life: Life, table: &Table, now: Timestamp) -> Self {
        Self { life, table: table.clone(), now, crash_points: Vec::new(), commit_order: Vec::new(), unheard: false }
    }

    fn go_on(mut self, mut act: impl FnMut(&mut Self, &Stop) -> Result<(), String>) -> Result<Lived, String> {
        for _ in 0..MOST_MOVES {
            let stop = self.life.settle();
            let end = match stop {
                Stop::Ended(result) => End::Result(result),
                Stop::Diverged(divergence) => End::Diverged(divergence),
                Stop::Continued(input) => return Err(format!("continues as new with {input}")),
                Stop::Waits { .. } if self.life.look_outside(&self.table) => continue,
                Stop::Waits { .. } => {
                    self.check_wait(&stop)?;
                    act(&mut self, &stop)?;
                    continue;
                }
            };
            // What was sent before the end is committed before the end is.
            while self.commit()? {}
            // A transaction goes on by itself: it is committed, or it finds that the run has ended.
            while let Some(last) = self.life.commits.len().checked_sub(1) {
                self.end_transaction(last, last % 2 == 0)?;
            }
            self.note_crash_point();
            let seen = self.life.world.seen.lock().unwrap().clone();
            return Ok(Lived {
                end,
                seen,
                begun: self.life.world.notes(),
                armed: self.life.world.armed.lock().unwrap().clone(),
                crash_points: self.crash_points,
                table: self.table,
                commit_order: self.commit_order,
            });
        }
        Err(format!("it does not end: {:?} with {:?}", self.life, self.table))
    }

    /// The run may be parked exactly when nothing but time can move it.
    fn check_wait(&self, stop: &Stop) -> Result<(), String> {
        let runs = !self.life.world.gates.lock().unwrap().is_empty();
        let moves = runs || !self.life.in_flight.is_empty() || !self.life.commits.is_empty();
        match (stop.park_until(), stop.timer()) {
            _ if self.life.foreign_wakes > 0 => Err("a wake counted as foreign".into()),
            (Some(_), _) if moves => Err("may be parked although something is under way".into()),
            (None, Some(_)) if !moves => Err("may not be parked although it only waits for time".into()),
            (None, None) if !moves => Err(format!("stuck after {:?}", self.life.events)),
            _ => Ok(()),
        }
    }

    fn act_at_random(&mut self, stop: &Stop, rng: &mut Rng) -> Result<(), String> {
        if rng.u8(..32) == 0 {
            self.life.interrupt(if rng.bool() { Interruption::Canceled } else { Interruption::Deadline });
        }
        if rng.u8(..5) == 0 {
            self.unheard |= self.table.outside.happen(rng);
        }
        // A hint may come late.
        if self.unheard && rng.u8(..3) == 0 {
            self.unheard = false;
            self.life.cell.look_again();
            return Ok(());
        }
        let closed = self.life.world.closed();
        let commits = self.life.commits.len();
        let others = [!self.life.in_flight.is_empty(), self.life.is_woken(), stop.timer().is_some(), commits > 0];
        let choice = rng.usize(..closed.len() + 2 * others.len());
        match choice.checked_sub(closed.len()) {
            None => self.open(&closed[choice]),
            // One batch may commit several.
            Some(0 | 1) if others[0] => {
                for _ in 0..rng.u8(1..=3) {
                    self.commit()?;
                }
            }
            Some(2 | 3) if others[1] => drop(self.life.look()),
            Some(4 | 5) if others[2] => {
                let due = stop.timer().unwrap_or(self.now);
                self.now = self.now.max(due) + Duration::from_millis(rng.u64(..10));
                self.life.set_now(self.now);
                self.life.fire_timers();
            }
            // Transactions commit in any order, beside and between the records; a few do not.
            Some(6 | 7) if others[3] => self.end_transaction(rng.usize(..commits), rng.u8(..5) > 0)?,
            Some(_) => {}
        }
        Ok(())
    }

    fn act_like(&mut self, commit_order: &[String]) -> Result<(), String> {
        if self.commit()? || self.life.look() || self.life.fire_timers() {
            return Ok(());
        }
        let rank = |label: &String| commit_order.iter().position(|other| other == label).unwrap_or(usize::MAX);
        let next = self.life.world.closed().into_iter().min_by_key(rank);
        let interruption = commit_order.iter().position(|label| INTERRUPTIONS.contains(&label.as_str()));
        if let Some(interruption) = interruption.filter(|_| self.life.cell.interrupted().is_none())
            && next.as_ref().is_none_or(|next| interruption < rank(next))
        {
            let deadline = commit_order[interruption] == INTERRUPTIONS[1];
            self.life.interrupt(if deadline { Interruption::Deadline } else { Interruption::Canceled });
            return Ok(());
        }
        self.open(&next.ok_or("nothing to do")?);
        Ok(())
    }

    fn open(&self, label: &str) {
        let value = self.life.world.value(label);
        self.life.world.open(label, value);
    }

    fn commit(&mut self) -> Result<bool, String> {
        let Some(row) = self.life.in_flight.front() else { return Ok(false) };
        if row.status != AttemptStatus::Running && row.kind == StepKind::Step {
            self.commit_order.push(format!("{}#{}", row.step_key, row.attempt));
        }
        if row.kind == StepKind::Interruption {
            self.commit_order.push(row.output.clone().unwrap_or_default());
        }
        self.note_crash_point();
        self.life.commit(&mut self.table)
    }

    fn end_transaction(&mut self, index: usize, commits: bool) -> Result<(), String> {
        self.note_crash_point();
        self.life.end_transaction(index, commits, &mut self.table)
    }

    fn note_crash_point(&mut self) {
        let seen = self.life.world.seen.lock().unwrap().len();
        self.crash_points.push(CrashPoint { table: self.table.clone(), seen, now: self.now });
    }
}

/// After a crash: what was seen is seen again, in the same order, at the same times, with the same draws; what is recorded
/// is not done again.
pub(crate) fn check_life_after(point: &CrashPoint, before: &Lived, after: &Lived) -> Result<(), String> {
    let old = &before.seen[..point.seen];
    if !after.seen.starts_with(old) {
        let rows = &point.table.rows;
        return Err(format!(
            "it had seen {old:?}, and after the crash it saw {:?}; recorded were {rows:?}",
            after.seen
        ));
    }
    check_bodies(&point.table, &after.begun)
}

/// No body begins of what is recorded.
pub(crate) fn check_bodies(table: &Table, begun: &[String]) -> Result<(), String> {
    let recorded = |label: &&String| {
        let (key, attempt) = label.rsplit_once('#').expect("key and attempt");
        table.rows.iter().any(|row| {
            row.step_key == key
                && (row.position.is_some()
                    || row.status != AttemptStatus::Running && row.attempt.to_string() == attempt)
        })
    };
    begun
        .iter()
        .find(recorded)
        .map_or(Ok(()), |label| Err(format!("the body of {label}, which is recorded, ran again")))
}

/// A run that failed has undone all that it armed, the last first; another nothing.
pub(crate) fn check_compensations(lived: &Lived) -> Result<(), String> {
    let expected: Vec<String> = match &lived.end {
        End::Diverged(_) => return Ok(()),
        End::Result(Ok(_)) => Vec::new(),
        End::Result(Err(_)) => lived.armed.iter().rev().map(|leaf| undo(*leaf)).collect(),
    };
    let outcome = |row: &&workflow_sdk::StepAttempt| row.kind == StepKind::Compensation && row.position.is_some();
    let mut rows: Vec<_> = lived.table.rows.iter().filter(outcome).collect();
    rows.sort_by_key(|row| row.position);
    let undone: Vec<&str> = rows.iter().map(|row| row.step_key.rsplit('/').next().unwrap_or_default()).collect();
    if undone != expected {
        return Err(format!("armed {:?}, undone {rows:?}", lived.armed));
    }
    Ok(())
}

/// The whole history gives the same end and the same sights, begins nothing and writes nothing.
pub(crate) fn check_full_replay(flow: &Flow, lived: &Lived, delivery: Delivery) -> Result<(), String> {
    let mut replay = begin(flow, &lived.table, START, World::default(), delivery);
    let end = match replay.settle() {
        Stop::Ended(result) => End::Result(result),
        Stop::Diverged(divergence) => End::Diverged(divergence),
        Stop::Continued(_) | Stop::Waits { .. } => {
            return Err(format!("the full replay does not end: {:?}", replay.events));
        }
    };
    check_compensations(lived)?;
    if !same_end(&end, &lived.end) {
        return Err(format!("the run ended with {:?}, its full replay with {end:?}", lived.end));
    }
    // A body may run beside the call that diverges, and begin again whenever the run is tried again.
    if let End::Diverged(_) = end {
        return Ok(());
    }
    let seen = replay.world.seen.lock().unwrap().clone();
    if seen != lived.seen {
        return Err(format!("the run saw {:?}, its full replay {seen:?}", lived.seen));
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
