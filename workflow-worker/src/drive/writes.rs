//! The writes of a drive that have no answer yet.
//!
//! A drive never stands still until the executor's queue has room: a body that is not polled may
//! hold a transaction for which the executor waits, and then the queue would stay full for ever.

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::iter;
use std::task::{Context, Poll, ready};

use futures::FutureExt;
use futures::future::BoxFuture;
use workflow_engine::executor::{Executor, ExecutorStopped, PendingOutcome};
use workflow_engine::faults::failpoint;
use workflow_engine::model::{Claim, Effect};
use workflow_engine::observe::Event;
use workflow_engine::replay::{CallId, OutboxRow};
use workflow_engine::runtime::TransactionCommit;
use workflow_engine::store::{AttemptWrite, CrashesWrite, Outcome, Write};
use workflow_sdk::{Client, DatabaseError, DatabaseErrorKind, ErrorKind, RunId, StoredError, Timestamp};

use super::transaction::{CommitEnd, TransactionCommits};

/// The records, the crashes and the transactions of a drive that have no answer yet.
pub(super) struct UnansweredWrites {
    executor: Executor,
    /// The writes for which the executor's queue had no room, in their order.
    unsent: VecDeque<Write>,
    /// The oldest write that was unsent, while it waits for room, and which answer it has.
    sending: Option<(Answered, BoxFuture<'static, Result<PendingOutcome, ExecutorStopped>>)>,
    /// In the order in which the executor answers them, and which of them a retry follows.
    records: VecDeque<(PendingOutcome, IsRetried)>,
    crashes: Option<PendingOutcome>,
    transactions: TransactionCommits,
}

/// Whether a record is a failed attempt that another attempt follows.
type IsRetried = bool;

/// The kind of a write, by its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answered {
    Record(IsRetried),
    Crashes,
    /// The drive needs no answer.
    Not,
}

impl Answered {
    fn of(write: &Write) -> Self {
        match write {
            Write::Crashes(_) => Self::Crashes,
            Write::CallSeats(_) => Self::Not,
            Write::Attempt(write) => Self::Record(matches!(Event::of_attempt(write), Some(Event::StepRetried { .. }))),
            _ => Self::Record(false),
        }
    }
}

/// The answer to a write, as far as it concerns the drive.
#[derive(Debug)]
pub(super) enum Answer {
    /// The oldest record is committed.
    Committed {
        /// It is a failed attempt that another attempt follows.
        retried: IsRetried,
    },
    /// The oldest record was to start a child, but the key of the child belongs to this run.
    KeyTaken(RunId),
    /// The oldest record was to register a wait for an event, but another transaction emits the
    /// event.
    EventBusy,
    /// The oldest record was to end a wait for an event, but the event was delivered.
    EventDelivered,
    /// The oldest record asked for a seat, and its step waits.
    SeatWaits {
        /// When the step asks again by itself.
        asks_at: Option<Timestamp>,
    },
    /// The oldest record was to ask for a seat, but its limit is not declared.
    LimitUndeclared,
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
    pub(super) fn new(executor: Executor) -> Self {
        Self {
            executor,
            unsent: VecDeque::new(),
            sending: None,
            records: VecDeque::new(),
            crashes: None,
            transactions: TransactionCommits::default(),
        }
    }

    /// Sends a record to the executor, as soon as the queue has room. Records are sent in their
    /// order.
    ///
    /// # Errors
    /// [`ExecutorStopped`] if the executor has ended.
    pub(super) fn send_record(&mut self, claim: Claim, record: OutboxRow) -> Result<(), ExecutorStopped> {
        writes_of(claim, record).try_for_each(|write| self.send(write))
    }

    /// Sends the crashes of the run to the executor. They are sent once at most.
    ///
    /// # Errors
    /// [`ExecutorStopped`] if the executor has ended.
    pub(super) fn send_crashes(&mut self, write: CrashesWrite) -> Result<(), ExecutorStopped> {
        self.send(Write::Crashes(write))
    }

    /// Sends a write of the run to the executor, as soon as the queue has room.
    ///
    /// # Errors
    /// [`ExecutorStopped`] if the executor has ended.
    pub(super) fn send(&mut self, write: Write) -> Result<(), ExecutorStopped> {
        let room = if self.all_are_sent() { self.executor.try_reserve()? } else { None };
        let Some(room) = room else {
            self.unsent.push_back(write);
            return Ok(());
        };
        match Answered::of(&write) {
            Answered::Record(retried) => self.records.push_back((room.send(write), retried)),
            Answered::Crashes => self.crashes = Some(room.send(write)),
            Answered::Not => drop(room.send(write)),
        }
        Ok(())
    }

    fn all_are_sent(&self) -> bool {
        self.unsent.is_empty() && self.sending.is_none()
    }

    /// Waits until all writes are in the executor's queue. For a drive that has no bodies any more.
    ///
    /// # Errors
    /// [`ExecutorStopped`] if the executor has ended.
    pub(super) async fn sent(&mut self) -> Result<(), ExecutorStopped> {
        poll_fn(|context| self.poll_sending(context)).await
    }

    /// Begins to commit the transaction of a step.
    pub(super) fn begin_commit(&mut self, client: Client, claim: Claim, commit: TransactionCommit) {
        self.transactions.begin(client, claim, commit);
    }

    /// Whether every write has its answer.
    pub(super) fn is_empty(&self) -> bool {
        self.all_are_sent() && self.records.is_empty() && self.crashes.is_none() && self.transactions.is_empty()
    }

    /// Whether a record that was sent has no answer.
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

    /// Sends the unsent writes while the queue has room.
    fn poll_sending(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ExecutorStopped>> {
        loop {
            if let Some((answered, sending)) = &mut self.sending {
                let (answered, sent) = (*answered, ready!(sending.poll_unpin(context)));
                self.sending = None;
                match answered {
                    Answered::Record(retried) => self.records.push_back((sent?, retried)),
                    Answered::Crashes => self.crashes = Some(sent?),
                    Answered::Not => drop(sent?),
                }
            }
            let Some(write) = self.unsent.pop_front() else { return Poll::Ready(Ok(())) };
            let (executor, answered) = (self.executor.clone(), Answered::of(&write));
            self.sending = Some((answered, Box::pin(async move { executor.send(write).await })));
        }
    }

    fn poll_record(&mut self, context: &mut Context<'_>) -> Poll<Answer> {
        if !self.all_are_sent()
            && let Poll::Ready(Err(ExecutorStopped)) = self.poll_sending(context)
        {
            return Poll::Ready(Answer::Lost);
        }
        let Some((oldest, retried)) = self.records.front_mut() else { return Poll::Pending };
        // An error says that the executor has stopped.
        let outcome = ready!(oldest.poll_unpin(context)).ok();
        let retried = *retried;
        self.records.pop_front();
        Poll::Ready(record_answer(outcome, retried))
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

impl fmt::Debug for UnansweredWrites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnansweredWrites").field("unsent", &self.unsent.len()).finish_non_exhaustive()
    }
}

/// Returns the writes of a record, in their order.
pub(super) fn writes_of(claim: Claim, record: OutboxRow) -> impl Iterator<Item = Write> {
    let OutboxRow { row, effect, .. } = record;
    if row.position.is_some() {
        failpoint("record.before_commit");
    }
    // The call follows in the same batch where possible: it gives the returned seat to the next
    // step.
    let call = match &effect {
        Effect::LeaveSeat(line) => Some(Write::CallSeats((**line).clone())),
        _ => None,
    };
    iter::once(Write::Attempt(AttemptWrite { claim, row, effect })).chain(call)
}

fn record_answer(outcome: Option<Outcome>, retried: IsRetried) -> Answer {
    match outcome {
        Some(Outcome::Applied | Outcome::Duplicate) => Answer::Committed { retried },
        Some(Outcome::KeyTaken { id }) => Answer::KeyTaken(id),
        Some(Outcome::Busy) => Answer::EventBusy,
        Some(Outcome::Delivered) => Answer::EventDelivered,
        Some(Outcome::SeatWaits { asks_at }) => Answer::SeatWaits { asks_at },
        Some(Outcome::LimitUndeclared) => Answer::LimitUndeclared,
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
