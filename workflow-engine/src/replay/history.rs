use super::publish::{Recorded, RecordedStream};
use super::{Delivered, HistorySize, Interrupted};
use crate::faults::planted;
use crate::model::{AttemptStatus, StepAttempt, StepKind, StoredError, Timestamp};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// A run's history, by step key.
#[derive(Debug, Default)]
pub(super) struct History {
    steps: HashMap<String, RecordedStep>,
    /// The number of recorded steps for which no call has been active yet.
    steps_left: usize,
    /// The keys of the patches that the run has taken.
    pub(super) patches: HashSet<String>,
    /// How often the run has published, by key.
    pub(super) published: HashMap<String, i64>,
    /// The recorded end of each stream, by key.
    pub(super) emitted: HashMap<String, RecordedStream>,
    pub(super) size: HistorySize,
    /// The outcomes that no call has asked for yet, in the order of their positions.
    unasked: BTreeMap<i64, String>,
    /// The interruption, if the run was told to end.
    pub(super) interrupted: Option<Interrupted>,
    /// The position of the next outcome.
    pub(super) next_position: i64,
    /// The first missing position. A failure had this position until the run was retried. Later
    /// outcomes may belong to a path that the run does not take again.
    first_gap: i64,
    /// The latest time in the history.
    pub(super) latest: Option<Timestamp>,
}

/// The record of one step.
#[derive(Debug)]
pub(super) struct RecordedStep {
    pub(super) kind: StepKind,
    asked: bool,
    pub(super) outcome: Option<RecordedOutcome>,
    pub(super) last: LastAttempt,
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
    /// The end of a sleep, or the note of a wait, as JSON text.
    pub(super) output: Option<String>,
    /// The time and the error of a failure. `None`: the attempt has not failed.
    pub(super) failure: Option<(Timestamp, StoredError)>,
}

impl History {
    pub(super) fn new(rows: Vec<StepAttempt>, generation: i64) -> Self {
        let mut history = Self::default();
        for row in rows {
            history.latest = history.latest.max(row.completed_at).max(Some(row.started_at));
            history.size.add(&row);
            match row.kind {
                StepKind::Interruption => history.interrupted = Interrupted::recorded(&row),
                StepKind::Patch => drop(history.patches.insert(row.step_key)),
                StepKind::Published => history.add_published(&row, generation),
                StepKind::Emitted => history.add_emitted(&row, generation),
                _ => history.add(row),
            }
        }
        history.steps_left = history.steps.len();
        history.size.steps += history.emitted.values().map(|stream| stream.len(generation)).sum::<u64>();
        history.unasked = history
            .steps
            .iter()
            .filter_map(|(key, step)| step.outcome.as_ref().map(|outcome| (outcome.position, key.clone())))
            .collect();
        let interrupted = history.interrupted.map(|interrupted| interrupted.position);
        let positions: BTreeSet<i64> = history.unasked.keys().copied().chain(interrupted).collect();
        history.first_gap =
            positions.iter().zip(1..).find(|(at, place)| **at != *place).map_or(i64::MAX, |(_, gap)| gap);
        history.next_position = positions.last().filter(|_| !planted("stale-position")).map_or(1, |last| last + 1);
        history
    }

    /// Counts what this generation has published. Clients see the values of earlier generations,
    /// but a replay of this generation ignores them.
    fn add_published(&mut self, row: &StepAttempt, generation: i64) {
        if let Some(recorded) = Recorded::of(row).filter(|recorded| recorded.generation == generation) {
            self.published.insert(row.step_key.clone(), recorded.count);
        }
    }

    fn add_emitted(&mut self, row: &StepAttempt, generation: i64) {
        let stream = self.emitted.entry(row.step_key.clone()).or_default();
        stream.add(row, generation);
    }

    fn add(&mut self, row: StepAttempt) {
        let completed_at = row.completed_at.unwrap_or(row.started_at);
        let outcome = row.position.map(|position| RecordedOutcome {
            position,
            completed_at,
            outcome: match (&row.error, &row.output) {
                (Some(error), _) => Delivered::Failed(error.clone()),
                (None, output) => Delivered::Recorded(output.clone().unwrap_or_else(|| "null".into())),
            },
        });
        let last = LastAttempt {
            number: u32::try_from(row.attempt).unwrap_or(u32::MAX),
            started_at: row.started_at,
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
            }
            None => {
                self.steps.insert(row.step_key, RecordedStep { kind: row.kind, asked: false, outcome, last });
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
