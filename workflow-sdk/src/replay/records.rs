//! What goes to the database, and in which order.

use crate::model::{AttemptStatus, Effect, StepAttempt, StepKind, StoredError, Timestamp};

use super::call::Phase;
use super::{CallId, Delivered, Machine};

/// A row that is to be written.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) attempt: u32,
    pub(super) kind: StepKind,
    pub(super) started_at: Timestamp,
    /// `None`: it has not ended.
    pub(super) completed_at: Option<Timestamp>,
    pub(super) output: Option<String>,
    pub(super) error: Option<StoredError>,
    pub(super) effect: Effect,
}

/// A record on its way out.
#[derive(Debug)]
pub struct OutboxRow {
    /// The row.
    pub row: StepAttempt,
    /// What is committed with it.
    pub effect: Effect,
    pub(super) sent: Sent,
}

/// A record that is not committed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) call: CallId,
    pub(super) is_outcome: bool,
}

impl Record {
    /// An attempt, or a sleep, that has begun.
    pub(super) fn begun(attempt: u32, kind: StepKind, started_at: Timestamp) -> Self {
        Self { attempt, kind, started_at, completed_at: None, output: None, error: None, effect: Effect::None }
    }

    fn status(&self) -> AttemptStatus {
        match (self.completed_at, &self.error) {
            (None, _) => AttemptStatus::Running,
            (Some(_), Some(_)) => AttemptStatus::Failed,
            (Some(_), None) => AttemptStatus::Succeeded,
        }
    }
}

impl Machine {
    /// Writes something that is no outcome.
    pub(super) fn record(&mut self, id: CallId, record: Record) {
        let (row, effect) = self.row(id, record, None);
        self.outbox.push(OutboxRow { row, effect, sent: Sent { call: id, is_outcome: false } });
    }

    /// The outcome of a call is final: an error, or a value that the call has kept.
    pub(super) fn decide(&mut self, id: CallId, completed_at: Timestamp, record: Record) {
        let outcome = record.error.clone().map_or(Delivered::Kept, Delivered::Failed);
        self.decide_as(id, completed_at, record, outcome);
    }

    /// The outcome of a call is final: its record takes the run's next position.
    pub(super) fn decide_as(&mut self, id: CallId, completed_at: Timestamp, record: Record, outcome: Delivered) {
        let position = self.history.next_position;
        self.history.next_position += 1;
        self.trail.decided(id, position);
        let (row, effect) = self.row(id, Record { completed_at: Some(completed_at), ..record }, Some(position));
        self.outbox.push(OutboxRow { row, effect, sent: Sent { call: id, is_outcome: true } });
        self.calls[id.0].phase = Phase::Decided { outcome, completed_at };
    }

    fn row(&self, id: CallId, record: Record, position: Option<i64>) -> (StepAttempt, Effect) {
        let row = StepAttempt {
            step_key: self.calls[id.0].key.clone(),
            attempt: i64::from(record.attempt),
            kind: record.kind,
            status: record.status(),
            position,
            output: record.output,
            error: record.error,
            epoch: self.epoch,
            started_at: record.started_at,
            completed_at: record.completed_at,
        };
        (row, record.effect)
    }

    /// The records to be committed, in order. Each is answered by [`Machine::committed`], in the same order.
    pub fn take_outbox(&mut self) -> Vec<OutboxRow> {
        let rows = std::mem::take(&mut self.outbox);
        self.in_flight.extend(rows.iter().map(|row| row.sent));
        rows
    }

    /// The oldest record that was handed out is committed.
    pub fn committed(&mut self) {
        if let Some(sent) = self.in_flight.pop_front().filter(|sent| sent.is_outcome) {
            self.committed.push_back(sent.call);
        }
    }
}
