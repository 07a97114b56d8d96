use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::faults::planted;
use crate::model::{AttemptStatus, ErrorKind, StepAttempt, StepKind, StoredError, Timestamp};

use super::call::Delivered;
use super::interruption::Interrupted;
use super::patches::Patches;
use super::publish::Publications;
use super::size::HistorySize;

/// The rows of a run, sorted by the part of the machine that needs them.
#[derive(Debug)]
pub(super) struct RecordedRows {
    pub(super) history: History,
    pub(super) patches: Patches,
    pub(super) publications: Publications,
    /// The interruption, if the run was told to end.
    pub(super) interrupted: Option<Interrupted>,
    pub(super) size: HistorySize,
    /// The latest time in the rows.
    pub(super) latest: Option<Timestamp>,
    /// The position of the next outcome.
    pub(super) next_position: i64,
}

/// The recorded steps of a run, by step key.
#[derive(Debug, Default)]
pub(super) struct History {
    steps: HashMap<String, RecordedStep>,
    /// The number of recorded steps for which no call has been active yet.
    steps_left: usize,
    /// The outcomes that no call has asked for yet, in the order of their positions.
    unasked: BTreeMap<i64, String>,
    /// The first missing position. A failure had this position until the run was retried. Later
    /// outcomes may belong to a path that the run does not take again.
    first_gap: i64,
}

/// The record of one step.
#[derive(Debug)]
pub(super) struct RecordedStep {
    pub(super) kind: StepKind,
    asked: bool,
    pub(super) outcome: Option<RecordedOutcome>,
    pub(super) last: LastAttempt,
    /// The last attempt whose failure was the outcome until the run was retried; 0 if none was.
    pub(super) ended_round: u32,
}

#[derive(Debug)]
pub(super) struct RecordedOutcome {
    pub(super) position: i64,
    pub(super) outcome: Delivered,
    pub(super) completed_at: Timestamp,
}

/// The latest recorded attempt of a step.
#[derive(Debug)]
pub(super) struct LastAttempt {
    pub(super) number: u32,
    pub(super) started_at: Timestamp,
    /// Whether the attempt has ended, with or without an outcome.
    pub(super) has_ended: bool,
    /// The end of a sleep, or the note of a wait, as JSON text.
    pub(super) output: Option<String>,
    /// The time and the error of a failure. `None`: the attempt has not failed.
    pub(super) failure: Option<(Timestamp, StoredError)>,
}

impl LastAttempt {
    /// Returns the number of the attempt that a wait or a child continues or begins: a new one if
    /// this one has ended.
    pub(super) fn next(&self) -> u32 {
        self.number.saturating_add(u32::from(self.has_ended))
    }
}

impl RecordedRows {
    /// Sorts the rows of a run in this generation.
    pub(super) fn new(rows: Vec<StepAttempt>, generation: i64) -> Self {
        let mut sorted = Self {
            history: History::default(),
            patches: Patches::default(),
            publications: Publications::new(generation),
            interrupted: None,
            size: HistorySize::default(),
            latest: None,
            next_position: 1,
        };
        for row in rows {
            sorted.latest = sorted.latest.max(row.completed_at).max(Some(row.started_at));
            sorted.size.add(&row);
            match row.kind {
                StepKind::Interruption => sorted.interrupted = Interrupted::recorded(&row),
                StepKind::Patch => sorted.patches.add_recorded(row.step_key),
                StepKind::Published => sorted.publications.add_published(&row),
                StepKind::Emitted => sorted.publications.add_item(&row),
                _ => sorted.history.add(row),
            }
        }
        sorted.size.steps += sorted.publications.recorded_items();
        let last = sorted.history.complete(sorted.interrupted.map(|interrupted| interrupted.position()));
        sorted.next_position = last.filter(|_| !planted("stale-position")).map_or(1, |last| last + 1);
        sorted
    }
}

impl History {
    /// Prepares the history after all rows were added. Returns the last position, where the run may
    /// have an interruption at position `interrupted`.
    fn complete(&mut self, interrupted: Option<i64>) -> Option<i64> {
        self.steps_left = self.steps.len();
        let outcome = |(key, step): (&String, &RecordedStep)| Some((step.outcome.as_ref()?.position, key.clone()));
        self.unasked = self.steps.iter().filter_map(outcome).collect();
        let positions: BTreeSet<i64> = self.unasked.keys().copied().chain(interrupted).collect();
        let gap = positions.iter().zip(1..).find(|(position, expected)| **position != *expected);
        self.first_gap = gap.map_or(i64::MAX, |(_, gap)| gap);
        positions.last().copied()
    }

    fn add(&mut self, row: StepAttempt) {
        let completed_at = row.completed_at.unwrap_or(row.started_at);
        let number = u32::try_from(row.attempt).unwrap_or(u32::MAX);
        let ended_round = if ends_round(&row) { number } else { 0 };
        let outcome = row.position.map(|position| RecordedOutcome {
            position,
            completed_at,
            outcome: match (&row.error, &row.output) {
                (Some(error), _) => Delivered::Failed(error.clone()),
                (None, output) => Delivered::Recorded(output.clone().unwrap_or_else(|| "null".into())),
            },
        });
        let last = LastAttempt {
            number,
            started_at: row.started_at,
            has_ended: row.status != AttemptStatus::Running,
            output: row.output,
            failure: match row.status {
                AttemptStatus::Failed => row.error.map(|error| (completed_at, error)),
                AttemptStatus::Running | AttemptStatus::Succeeded => None,
            },
        };
        match self.steps.get_mut(&row.step_key) {
            Some(step) => {
                if outcome.is_some() {
                    step.outcome = outcome;
                }
                if last.number >= step.last.number {
                    step.last = last;
                }
                step.ended_round = step.ended_round.max(ended_round);
            }
            None => {
                let step = RecordedStep { kind: row.kind, asked: false, outcome, last, ended_round };
                self.steps.insert(row.step_key, step);
            }
        }
    }

    pub(super) fn step(&self, key: &str) -> Option<&RecordedStep> {
        self.steps.get(key)
    }

    /// Notes that a call asks for this step. Returns the position of its recorded outcome.
    pub(super) fn ask(&mut self, key: &str) -> Option<i64> {
        let step = self.steps.get_mut(key)?;
        if !std::mem::replace(&mut step.asked, true) {
            self.steps_left -= 1;
        }
        let position = step.outcome.as_ref()?.position;
        self.unasked.remove(&position);
        Some(position)
    }

    /// Takes the outcome, which is not needed here after its delivery.
    pub(super) fn take_outcome(&mut self, key: &str) -> Option<RecordedOutcome> {
        self.steps.get_mut(key)?.outcome.take()
    }

    /// Returns the recorded outcomes, by position, that no call has asked for although code that
    /// fits the history would ask for them.
    pub(super) fn unasked(&self) -> impl Iterator<Item = (i64, &str)> {
        self.unasked.range(..self.first_gap).map(|(position, key)| (*position, key.as_str()))
    }

    /// Returns whether every recorded step, final or not, has had an active call.
    pub(super) fn all_active(&self) -> bool {
        self.steps_left == 0
    }

    pub(super) fn all_asked(&self) -> bool {
        self.unasked.is_empty()
    }
}

/// Returns whether the attempt failed without a plan for another one, and lost its position when
/// the run was retried. An attempt that ended because its step was dropped had no plan either.
fn ends_round(row: &StepAttempt) -> bool {
    let is_final = |error: &StoredError| error.next_attempt_at.is_none() && error.kind != ErrorKind::Canceled;
    row.status == AttemptStatus::Failed && row.position.is_none() && row.error.as_ref().is_some_and(is_final)
}
