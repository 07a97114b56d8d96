//! Builds the records that go to the database, and keeps their order.

use crate::model::{AttemptStatus, Effect, StepAttempt, StepKind, StoredError, Timestamp};

use super::call::Phase;
use super::delivery::Undelivered;
use super::{CallId, Delivered, Machine};

/// A row that is to be written.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) attempt: u32,
    pub(super) kind: StepKind,
    pub(super) started_at: Timestamp,
    /// The time at which the attempt ended. `None`: it has not ended.
    pub(super) completed_at: Option<Timestamp>,
    pub(super) output: Option<String>,
    pub(super) error: Option<StoredError>,
    pub(super) effect: Effect,
}

/// The receiver of an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receiver {
    /// The call that the outcome belongs to.
    Call(CallId),
    /// Every call of the run: the outcome is an interruption.
    Run,
}

/// A row that does not belong to a call and is not an outcome.
#[derive(Debug)]
pub(super) struct Note {
    pub(super) kind: StepKind,
    pub(super) attempt: i64,
    /// The status of the row. A later row of equal key and attempt replaces a `Running` one.
    pub(super) status: AttemptStatus,
    pub(super) output: String,
    pub(super) at: Timestamp,
}

/// A record that is to be committed.
#[derive(Debug)]
pub struct OutboxRow {
    /// The row.
    pub row: StepAttempt,
    /// The change that is committed together with the row.
    pub effect: Effect,
    pub(super) sent: Sent,
}

/// The meaning of a record that was handed out and is not committed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sent {
    /// The record does not belong to a call.
    Free,
    /// The record belongs to this call and is not an outcome.
    Note(CallId),
    /// The outcome with this position, and its receiver.
    Outcome(i64, Receiver),
}

impl Record {
    /// Creates the row of an attempt, a sleep or a wait that has begun.
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
    /// Writes a row that is not an outcome.
    pub(super) fn record(&mut self, id: CallId, record: Record) {
        let (row, effect) = self.row(id, record, None);
        self.post(OutboxRow { row, effect, sent: Sent::Note(id) });
    }

    /// Makes the outcome of a call final: an error, or a value that the call has kept.
    pub(super) fn decide(&mut self, id: CallId, completed_at: Timestamp, record: Record) {
        let outcome = record.error.clone().map_or(Delivered::Kept, Delivered::Failed);
        self.decide_as(id, completed_at, record, outcome);
    }

    /// Makes the outcome of a call final. Its record takes the run's next position.
    pub(super) fn decide_as(&mut self, id: CallId, completed_at: Timestamp, record: Record, outcome: Delivered) {
        let receiver = Receiver::Call(id);
        let position = self.take_position(receiver);
        let (row, effect) = self.row(id, Record { completed_at: Some(completed_at), ..record }, Some(position));
        self.post(OutboxRow { row, effect, sent: Sent::Outcome(position, receiver) });
        self.calls[id.0].phase = Phase::Decided { outcome, completed_at };
    }

    /// Writes a row that does not belong to a call.
    pub(super) fn note(&mut self, step_key: &str, note: Note) {
        let row = StepAttempt {
            step_key: step_key.to_owned(),
            attempt: note.attempt,
            kind: note.kind,
            status: note.status,
            position: None,
            output: Some(note.output),
            error: None,
            epoch: self.epoch,
            started_at: note.at,
            completed_at: (note.status != AttemptStatus::Running).then_some(note.at),
        };
        self.post(OutboxRow { row, effect: Effect::None, sent: Sent::Free });
    }

    /// Adds a record to those that are to be committed.
    pub(super) fn post(&mut self, record: OutboxRow) {
        self.size.add(&record.row);
        // Mostly there is one record, and the space for four is more than an allocator keeps ready.
        if self.outbox.is_empty() {
            self.outbox.reserve_exact(1);
        }
        self.outbox.push(record);
    }

    /// Takes the next position for an outcome of this receiver.
    pub(super) fn take_position(&mut self, receiver: Receiver) -> i64 {
        let position = self.history.next_position;
        self.history.next_position += 1;
        self.undelivered.push_back(Undelivered { position, receiver, committed: false });
        position
    }

    /// Notes that the outcome with this position is committed.
    pub(super) fn position_committed(&mut self, position: i64) {
        if let Some(place) = self.undelivered_index(position) {
            self.undelivered[place].committed = true;
        }
    }

    /// Gives up a position that no outcome will have.
    pub(super) fn give_position_up(&mut self, position: i64) {
        if let Some(place) = self.undelivered_index(position) {
            self.undelivered.remove(place);
        }
    }

    pub(super) fn row(&self, id: CallId, record: Record, position: Option<i64>) -> (StepAttempt, Effect) {
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

    /// Returns whether there are records to be committed.
    #[must_use]
    pub fn has_records(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Takes the records to be committed, in order. Each of them is answered by
    /// [`Machine::committed`], in that order.
    pub fn take_outbox(&mut self) -> Vec<OutboxRow> {
        let rows = std::mem::take(&mut self.outbox);
        self.in_flight.extend(rows.iter().map(|row| row.sent));
        rows
    }

    /// Notes that the oldest record that was handed out is committed.
    pub fn committed(&mut self) {
        self.unconfirmed = self.unconfirmed.saturating_sub(1);
        if let Some(Sent::Outcome(position, _)) = self.in_flight.pop_front() {
            self.position_committed(position);
        }
    }
}
