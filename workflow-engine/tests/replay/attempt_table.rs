//! The table of attempts, in memory.

use std::collections::BTreeMap;
use workflow_engine::model::Effect;
use workflow_sdk::{AttemptStatus, StepAttempt, StepKind};

use crate::external_events::ExternalEvents;
use crate::harness::START;

/// The table of attempts, with the rules that the stores keep.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    pub(crate) rows: Vec<StepAttempt>,
    pub(crate) generation: i64,
    /// How often the run was retried.
    pub(crate) retries: u32,
    pub(crate) external: ExternalEvents,
}

impl Table {
    /// Commits a row and its effect, both or neither.
    pub(crate) fn commit_with(&mut self, row: StepAttempt, effect: Effect) -> Result<(), String> {
        self.external.apply(&row, effect)?;
        self.commit(row)
    }

    /// Commits a row. A key and an attempt have one row, a final row never changes, and a step and
    /// a position have one outcome.
    pub(crate) fn commit(&mut self, row: StepAttempt) -> Result<(), String> {
        let same_attempt = |old: &&mut StepAttempt| old.step_key == row.step_key && old.attempt == row.attempt;
        let outcome = |old: &StepAttempt| {
            old.position.is_some()
                && row.position.is_some()
                && (old.step_key == row.step_key || old.position == row.position)
        };
        if let Some(old) = self.rows.iter().find(|old| outcome(old)) {
            return Err(format!("{row:?} beside the outcome {old:?}"));
        }
        match self.rows.iter_mut().find(same_attempt) {
            Some(old) if old.status != AttemptStatus::Running => return Err(format!("{row:?} over the final {old:?}")),
            Some(old) => *old = row,
            None => self.rows.push(row),
        }
        Ok(())
    }

    /// Returns the history as a worker reads it: only the last item of a stream, without its
    /// output.
    pub(crate) fn history(&self) -> Vec<StepAttempt> {
        let mut last: BTreeMap<&str, i64> = BTreeMap::new();
        for row in self.rows.iter().filter(|row| row.kind == StepKind::Emitted) {
            let last = last.entry(&row.step_key).or_default();
            *last = row.attempt.max(*last);
        }
        let is_item = |row: &StepAttempt| row.kind == StepKind::Emitted && row.attempt > 0;
        let is_read = |row: &&StepAttempt| !is_item(row) || last.get(row.step_key.as_str()) == Some(&row.attempt);
        let read = self.rows.iter().filter(is_read).cloned();
        read.map(|row| if is_item(&row) { StepAttempt { output: None, ..row } } else { row }).collect()
    }

    /// Removes the history and begins the next generation.
    pub(crate) fn continue_as_new(&mut self) {
        self.rows.retain(|row| matches!(row.kind, StepKind::Published | StepKind::Emitted));
        self.generation += 1;
    }

    /// Lets the failures at and after this position be attempted again, as the stores do when a run
    /// is retried: the interruption is deleted, and open waits and sleeps end.
    pub(crate) fn retry(&mut self, from: i64) {
        self.retries += 1;
        self.rows.retain(|row| row.kind != StepKind::Interruption);
        for row in &mut self.rows {
            let is_wait = matches!(row.kind, StepKind::Sleep | StepKind::Signal | StepKind::Approval | StepKind::Event);
            match row.status {
                AttemptStatus::Failed if row.position >= Some(from) => row.position = None,
                AttemptStatus::Running if is_wait => {
                    (row.status, row.output) = (AttemptStatus::Succeeded, None);
                    row.completed_at = Some(row.started_at);
                }
                _ => {}
            }
        }
    }

    /// Returns the items of a stream, in order.
    pub(crate) fn items(&self, name: &str) -> Vec<String> {
        let key = StepKind::Emitted.key_of(name);
        let mut items: Vec<_> = self.rows.iter().filter(|row| row.step_key == key && row.attempt > 0).collect();
        items.sort_by_key(|row| row.attempt);
        items.iter().map(|row| row.output.clone().unwrap()).collect()
    }

    /// Returns the last published value of this name.
    pub(crate) fn published(&self, name: &str) -> Option<String> {
        let key = StepKind::Published.key_of(name);
        let row = self.rows.iter().find(|row| row.step_key == key)?;
        let value: serde_json::Value = serde_json::from_str(row.output.as_deref()?).unwrap();
        Some(value["value"].to_string())
    }

    /// Adds the outcome of a step, as an earlier drive would have recorded it.
    pub(crate) fn with_value(mut self, key: &str, position: i64, output: &str) -> Self {
        self.commit(row(key, 1, AttemptStatus::Succeeded, Some(position), Some(output))).unwrap();
        self
    }

    pub(crate) fn with(mut self, row: StepAttempt) -> Self {
        self.commit(row).unwrap();
        self
    }
}

pub(crate) fn row(
    key: &str,
    attempt: i64,
    status: AttemptStatus,
    position: Option<i64>,
    output: Option<&str>,
) -> StepAttempt {
    StepAttempt {
        step_key: key.into(),
        attempt,
        kind: StepKind::Step,
        status,
        position,
        output: output.map(Into::into),
        error: None,
        epoch: 1,
        started_at: START,
        completed_at: (status != AttemptStatus::Running).then_some(START),
    }
}
