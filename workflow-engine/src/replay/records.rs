use std::collections::VecDeque;

use crate::model::{AttemptStatus, Effect, StepAttempt, StepKind, StoredError, Timestamp};

use super::call::CallId;
use super::deliveries::Receiver;
use super::size::HistorySize;

/// The rows of a run on their way to the database, in their order.
#[derive(Debug)]
pub(super) struct Records {
    epoch: i64,
    outbox: Vec<OutboxRow>,
    /// The records that were handed out and are not committed.
    in_flight: VecDeque<Sent>,
    /// The outcomes of transactions, each to be committed by its transaction.
    commits: Vec<CommitRow>,
    /// The number of records, counted from the oldest that is not committed, that must be
    /// committed before an outcome is delivered or a body begins.
    unconfirmed: usize,
    /// The size of the history, including records that are not committed yet.
    size: HistorySize,
}

/// A row of a call that is to be written.
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
    sent: Sent,
}

/// The outcome of a transaction, to be committed by that transaction. Answered by
/// [`Machine::transaction_ended`](super::Machine::transaction_ended).
#[derive(Debug)]
pub struct CommitRow {
    /// The call that the outcome belongs to.
    pub call: CallId,
    /// The position of the outcome. It is already taken, so a later decision has a later position.
    pub position: i64,
    /// The row.
    pub row: StepAttempt,
}

/// The meaning of a record that was handed out and is not committed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sent {
    /// The record does not belong to a call.
    Note,
    /// The record belongs to this call and is not an outcome.
    Progress(CallId),
    /// The record asks for a seat for this call.
    Seat(CallId),
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

impl Records {
    /// Creates the records of a run that is driven under the claim with this epoch, and whose
    /// history has this size.
    pub(super) fn new(epoch: i64, size: HistorySize) -> Self {
        let (outbox, in_flight, commits) = (Vec::new(), VecDeque::new(), Vec::new());
        Self { epoch, outbox, in_flight, commits, unconfirmed: 0, size }
    }

    /// Posts a row of a call that is not an outcome.
    pub(super) fn post_progress(&mut self, id: CallId, key: &str, record: Record) {
        let (row, effect) = self.row(key, record, None);
        self.post(OutboxRow { row, effect, sent: Sent::Progress(id) });
    }

    /// Posts the row of a call that asks for a seat.
    pub(super) fn post_seat(&mut self, id: CallId, key: &str, record: Record) {
        let (row, effect) = self.row(key, record, None);
        self.post(OutboxRow { row, effect, sent: Sent::Seat(id) });
    }

    /// Posts the outcome of a call.
    pub(super) fn post_outcome(&mut self, id: CallId, key: &str, record: Record, position: i64) {
        let (row, effect) = self.row(key, record, Some(position));
        self.post(OutboxRow { row, effect, sent: Sent::Outcome(position, Receiver::Call(id)) });
    }

    /// Posts a row that does not belong to a call.
    pub(super) fn post_note(&mut self, key: &str, note: Note) {
        let row = StepAttempt {
            step_key: key.to_owned(),
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
        self.post(OutboxRow { row, effect: Effect::None, sent: Sent::Note });
    }

    /// Posts an interruption.
    pub(super) fn post_interruption(&mut self, key: &str, output: &str, at: Timestamp, position: i64) {
        let row = StepAttempt {
            step_key: key.to_owned(),
            attempt: 1,
            kind: StepKind::Interruption,
            status: AttemptStatus::Succeeded,
            position: Some(position),
            output: Some(output.to_owned()),
            error: None,
            epoch: self.epoch,
            started_at: at,
            completed_at: Some(at),
        };
        self.outbox.push(OutboxRow { row, effect: Effect::None, sent: Sent::Outcome(position, Receiver::Run) });
    }

    /// Adds the outcome of a transaction, which its transaction is to commit.
    pub(super) fn add_commit(&mut self, id: CallId, key: &str, record: Record, position: i64) {
        let (row, _) = self.row(key, record, Some(position));
        self.commits.push(CommitRow { call: id, position, row });
    }

    fn post(&mut self, record: OutboxRow) {
        self.size.add(&record.row);
        // Mostly there is one record, and the space for four is more than an allocator keeps ready.
        if self.outbox.is_empty() {
            self.outbox.reserve_exact(1);
        }
        self.outbox.push(record);
    }

    fn row(&self, key: &str, record: Record, position: Option<i64>) -> (StepAttempt, Effect) {
        let row = StepAttempt {
            step_key: key.to_owned(),
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

    /// Requires that all records so far are committed before an outcome is delivered or a body
    /// begins.
    pub(super) fn require_confirmation(&mut self) {
        self.unconfirmed = self.in_flight.len() + self.outbox.len();
    }

    /// Returns whether a required record is not committed yet.
    pub(super) fn await_confirmation(&self) -> bool {
        self.unconfirmed > 0
    }

    /// Returns whether there are records to be committed.
    pub(super) fn has_outbox(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Returns the call and the position of an outcome that is to be committed, if it is the only
    /// record that is not committed and changes nothing else.
    pub(super) fn only_outcome(&self) -> Option<(CallId, i64)> {
        match &self.outbox[..] {
            [OutboxRow { sent: Sent::Outcome(position, Receiver::Call(id)), effect: Effect::None, .. }]
                if self.in_flight.is_empty() =>
            {
                Some((*id, *position))
            }
            _ => None,
        }
    }

    /// Returns whether every record that was handed out is committed.
    pub(super) fn none_is_in_flight(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Returns whether every record is committed.
    pub(super) fn are_committed(&self) -> bool {
        self.outbox.is_empty() && self.in_flight.is_empty()
    }

    /// Takes at most `at_most` of the records to be committed, in their order.
    pub(super) fn take_outbox(&mut self, at_most: usize) -> Vec<OutboxRow> {
        let rows = match at_most {
            at_most if at_most < self.outbox.len() => self.outbox.drain(..at_most).collect(),
            _ => std::mem::take(&mut self.outbox),
        };
        self.in_flight.extend(rows.iter().map(|row| row.sent));
        rows
    }

    /// Takes the outcomes to be committed by their transactions.
    pub(super) fn take_commits(&mut self) -> Vec<CommitRow> {
        std::mem::take(&mut self.commits)
    }

    /// Removes the oldest record that was handed out, because its fate is known.
    pub(super) fn answered(&mut self) -> Option<Sent> {
        self.unconfirmed = self.unconfirmed.saturating_sub(1);
        self.in_flight.pop_front()
    }

    /// Counts an item of a stream.
    pub(super) fn count_item(&mut self) {
        self.size.steps += 1;
    }

    /// Returns the size of the history, including records that are not committed yet.
    pub(super) fn size(&self) -> HistorySize {
        self.size
    }
}
