//! A batch that the store is committing.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::poll;
use tokio::time::Instant;

use crate::faults::{failpoint_error, planted};
use crate::store::{DatabaseError, Outcome, Store, Write};

use super::batch::Batch;
use super::failure::Failures;
use super::request::{GroupId, Reply};

/// A batch with its call of [`Store::commit`].
pub(super) struct InFlight {
    /// Shared with the call. Dropping the call gives the batch back.
    writes: Arc<Vec<Write>>,
    replies: Vec<Reply>,
    failures: Failures,
    begun: Instant,
    commit: Commit,
}

enum Commit {
    UnderWay(BoxFuture<'static, Answer>),
    Answered(Answer),
}

/// The answer of the store to a batch.
type Answer = Result<Vec<Outcome>, DatabaseError>;

/// A batch that is committed, with the outcome of each write at the same index.
pub(super) struct Completed {
    pub(super) writes: Arc<Vec<Write>>,
    pub(super) replies: Vec<Reply>,
    pub(super) outcomes: Vec<Outcome>,
    /// A time before the database was asked.
    pub(super) begun: Instant,
    /// The time from then to the answer.
    pub(super) duration: Duration,
}

impl Completed {
    /// Returns the groups in which the store has refused a write, with the errors.
    pub(super) fn refused_groups(&self) -> impl Iterator<Item = (GroupId, &DatabaseError)> {
        self.replies.iter().zip(&self.outcomes).filter_map(|(reply, outcome)| match outcome {
            Outcome::Refused(error) => Some((reply.group()?, error)),
            _ => None,
        })
    }
}

impl InFlight {
    /// Hands a batch to the store. When this returns, the store either has sent the batch to the
    /// database or has lined it up behind the batch that is being committed.
    pub(super) async fn send(store: Arc<dyn Store>, mut batch: Batch) -> Self {
        if planted("reply-before-commit") {
            batch.answer_unwritten();
        }
        let Batch { writes, replies, failures } = batch;
        let writes = Arc::new(writes);
        let begun = Instant::now();
        let mut call = commit(store, Arc::clone(&writes)).boxed();
        // A future does nothing before its first poll.
        let commit = match poll!(&mut call) {
            Poll::Ready(answer) => Commit::Answered(answer),
            Poll::Pending => Commit::UnderWay(call),
        };
        Self { writes, replies, failures, begun, commit }
    }

    /// Returns the group of the last write, if it has one.
    pub(super) fn last_group(&self) -> Option<GroupId> {
        self.replies.last().and_then(Reply::group)
    }

    /// Drives the call until the store has answered, and keeps the answer.
    ///
    /// # Cancel safety
    /// The call goes on with the next `drive` or `finish`.
    pub(super) async fn drive(&mut self) {
        if let Commit::UnderWay(call) = &mut self.commit {
            self.commit = Commit::Answered(call.await);
        }
    }

    /// Waits for the answer of the store. Returns the batch with the error if it was not committed,
    /// or if that is unknown.
    pub(super) async fn finish(self) -> Result<Completed, (Batch, DatabaseError)> {
        let Self { writes, replies, failures, begun, commit } = self;
        let answer = match commit {
            Commit::UnderWay(call) => call.await,
            Commit::Answered(answer) => answer,
        };
        match answer {
            Ok(outcomes) => Ok(Completed { writes, replies, outcomes, begun, duration: begun.elapsed() }),
            Err(error) => Err((Batch { writes: Arc::unwrap_or_clone(writes), replies, failures }, error)),
        }
    }

    /// Drops the call and returns its batch.
    pub(super) fn call_back(self) -> Batch {
        let Self { writes, replies, failures, begun: _, commit } = self;
        drop(commit);
        Batch { writes: Arc::unwrap_or_clone(writes), replies, failures }
    }
}

async fn commit(store: Arc<dyn Store>, writes: Arc<Vec<Write>>) -> Answer {
    failpoint_error("executor.before_commit")?;
    let outcomes = store.commit(&writes).await?;
    failpoint_error("executor.after_commit")?;
    Ok(outcomes)
}
