//! The writes of a drive that have no answer yet.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::task::{Context, Poll, ready};

use futures::FutureExt;
use workflow_engine::executor::{PendingOutcome, SendPermit};
use workflow_engine::faults::failpoint;
use workflow_engine::model::Claim;
use workflow_engine::replay::{CallId, OutboxRow};
use workflow_engine::runtime::TransactionCommit;
use workflow_engine::store::{AttemptWrite, CrashesWrite, Outcome, Write};
use workflow_sdk::{Client, DatabaseError, DatabaseErrorKind, ErrorKind, RunId, StoredError};

use super::transaction::{CommitEnd, TransactionCommits};

/// The records, the crashes and the transactions of a drive that were sent and have no answer yet.
#[derive(Debug, Default)]
pub(super) struct UnansweredWrites {
    /// In the order in which the executor answers them.
    records: VecDeque<PendingOutcome>,
    crashes: Option<PendingOutcome>,
    transactions: TransactionCommits,
}

/// The answer to a write, as far as it concerns the drive.
#[derive(Debug)]
pub(super) enum Answer {
    /// The oldest record is committed.
    Committed,
    /// The oldest record was to start a child, but the key of the child belongs to this run.
    KeyTaken(RunId),
    /// The database refused the oldest record. It would refuse it again.
    Refused(StoredError),
    /// The oldest record was not written.
    NotWritten(DatabaseError),
    /// The crashes of the run are committed.
    CrashesWritten,
    /// The commit of a transactional step ended.
    TransactionEnded {
        /// The call of the step.
        call: CallId,
        /// The position of its outcome.
        position: i64,
        /// The error of a transaction that was not committed.
        result: Result<(), StoredError>,
    },
    /// The claim is lost, or the effect of a write is unknown. The drive must write nothing more.
    Lost,
}

impl UnansweredWrites {
    /// Sends a record to the executor. Records are sent in their order.
    pub(super) fn send_record(&mut self, room: SendPermit<'_>, claim: Claim, record: OutboxRow) {
        let OutboxRow { row, effect, .. } = record;
        if row.position.is_some() {
            failpoint("record.before_commit");
        }
        self.records.push_back(room.send(Write::Attempt(AttemptWrite { claim, row, effect })));
    }

    /// Sends the crashes of the run to the executor. They are sent once at most.
    pub(super) fn send_crashes(&mut self, room: SendPermit<'_>, write: CrashesWrite) {
        self.crashes = Some(room.send(Write::Crashes(write)));
    }

    /// Begins to commit the transaction of a step.
    pub(super) fn begin_commit(&mut self, client: Client, claim: Claim, commit: TransactionCommit) {
        self.transactions.begin(client, claim, commit);
    }

    /// Whether every write has its answer.
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty() && self.crashes.is_none() && self.transactions.is_empty()
    }

    pub(super) fn has_records(&self) -> bool {
        !self.records.is_empty()
    }

    /// Waits for the next answer. Never returns if there is no write without one. A future that is
    /// dropped loses no answer.
    pub(super) fn next_answer(&mut self) -> impl Future<Output = Answer> {
        poll_fn(|context| match self.poll_record(context) {
            Poll::Pending => match self.poll_crashes(context) {
                Poll::Pending => self.transactions.poll_next(context).map(transaction_answer),
                answer => answer,
            },
            answer => answer,
        })
    }

    /// Waits for the answer to the oldest record. Never returns if there is no record without one.
    /// A future that is dropped loses no answer.
    pub(super) fn next_record_answer(&mut self) -> impl Future<Output = Answer> {
        poll_fn(|context| self.poll_record(context))
    }

    fn poll_record(&mut self, context: &mut Context<'_>) -> Poll<Answer> {
        let Some(oldest) = self.records.front_mut() else { return Poll::Pending };
        // An error says that the executor has stopped.
        let outcome = ready!(oldest.poll_unpin(context)).ok();
        self.records.pop_front();
        Poll::Ready(record_answer(outcome))
    }

    fn poll_crashes(&mut self, context: &mut Context<'_>) -> Poll<Answer> {
        let Some(crashes) = &mut self.crashes else { return Poll::Pending };
        let outcome = ready!(crashes.poll_unpin(context)).ok();
        self.crashes = None;
        Poll::Ready(match outcome {
            Some(Outcome::Applied) => Answer::CrashesWritten,
            Some(Outcome::Refused(error)) => Answer::NotWritten(error),
            Some(_) | None => Answer::Lost,
        })
    }
}

fn record_answer(outcome: Option<Outcome>) -> Answer {
    match outcome {
        Some(Outcome::Applied | Outcome::Duplicate) => Answer::Committed,
        Some(Outcome::KeyTaken { id }) => Answer::KeyTaken(id),
        Some(Outcome::Refused(error)) if error.kind == DatabaseErrorKind::Invalid => {
            Answer::Refused(StoredError::from_error(ErrorKind::Refused, &error).fatal())
        }
        Some(Outcome::Refused(error)) => Answer::NotWritten(error),
        // The claim is lost; or the executor has stopped, so the effect of the write is unknown.
        Some(_) | None => Answer::Lost,
    }
}

fn transaction_answer(end: CommitEnd) -> Answer {
    match end {
        CommitEnd::Known { call, position, result } => Answer::TransactionEnded { call, position, result },
        CommitEnd::Lost => Answer::Lost,
    }
}
