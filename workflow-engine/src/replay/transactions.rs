//! Outcomes of transactional steps. Each is committed by its own transaction instead of the outbox.

use crate::model::{StepAttempt, StoredError, Timestamp};

use super::call::{Attempt, Phase};
use super::records::{Receiver, Record};
use super::{CallId, Delivered, Machine};

/// The outcome of a transaction, to be committed by that transaction. Answered by
/// [`Machine::transaction_ended`].
#[derive(Debug)]
pub struct CommitRow {
    /// The call that the outcome belongs to.
    pub call: CallId,
    /// The position of the outcome. It is already taken, so a later decision has a later position.
    pub position: i64,
    /// The row.
    pub row: StepAttempt,
}

impl Machine {
    /// Notes that the transaction is open and its body runs. The timeout counts from now, without
    /// the wait for a connection.
    pub fn transaction_opened(&mut self, id: CallId, now: Timestamp) {
        let now = self.tick(now);
        let Phase::Running(attempt) = &mut self.calls[id.0].phase else { return };
        attempt.times_out_at = attempt.options.timeout.map(|timeout| now + timeout);
        let times_out_at = attempt.times_out_at;
        self.timers.extend(times_out_at.map(|at| (at, id)));
    }

    /// Takes the run's next position for the outcome of a transaction whose body has succeeded. Its
    /// transaction is to commit the outcome.
    pub(super) fn commit(&mut self, id: CallId, attempt: Attempt, completed_at: Timestamp, record: Record) {
        let position = self.take_position(Receiver::Call(id));
        let (row, _) = self.row(id, Record { completed_at: Some(completed_at), ..record }, Some(position));
        self.commits.push(CommitRow { call: id, position, row });
        self.calls[id.0].phase = Phase::Committing { attempt, completed_at };
    }

    /// Takes the outcomes to be committed by their transactions.
    pub fn take_commits(&mut self) -> Vec<CommitRow> {
        std::mem::take(&mut self.commits)
    }

    /// Notes that a transaction committed the outcome with this position, or failed to. If it
    /// failed, the position is given up and the attempt has failed.
    pub fn transaction_ended(&mut self, id: CallId, position: i64, result: Result<(), StoredError>, now: Timestamp) {
        let committing = match self.calls[id.0].phase {
            Phase::Committing { attempt, completed_at } => Some((attempt, completed_at)),
            // The call was dropped meanwhile, by an outcome with an earlier position. Every replay
            // will drop it too.
            _ => None,
        };
        match (result, committing) {
            (Ok(()), committing) => {
                self.position_committed(position);
                if let Some((_, completed_at)) = committing {
                    self.calls[id.0].phase = Phase::Decided { outcome: Delivered::Kept, completed_at };
                }
            }
            (Err(error), committing) => {
                self.give_position_up(position);
                if let Some((attempt, _)) = committing {
                    let completed_at = self.tick(now);
                    self.attempt_failed(id, attempt, error, completed_at);
                }
            }
        }
    }
}
