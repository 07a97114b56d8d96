//! The commits of transactional steps, which do not go through the executor.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use workflow_engine::faults::{failpoint, failpoint_error};
use workflow_engine::model::{Claim, Effect};
use workflow_engine::observe::Event;
use workflow_engine::replay::CallId;
use workflow_engine::runtime::TransactionCommit;
use workflow_engine::store::{AttemptWrite, StepCommit, Store};
use workflow_sdk::{Client, DatabaseError, ErrorKind, StoredError};

/// How long the drive looks for the row of a commit whose answer was lost. The executor retries its
/// writes for the same time.
const PATIENCE: Duration = Duration::from_secs(30);

/// The delay between two looks for the row.
const LOOK_DELAY: Duration = Duration::from_millis(200);

/// How a commit ended.
#[derive(Debug)]
pub(super) enum CommitEnd {
    /// With `Ok`, the outcome and the rows of the body are in the database. With an error, neither
    /// is, and the attempt has failed.
    Known {
        /// The call of the step.
        call: CallId,
        /// The position of its outcome.
        position: i64,
        /// Whether the transaction was committed.
        result: Result<(), StoredError>,
    },
    /// The claim is lost, or it is unknown whether the transaction was committed.
    Lost,
}

/// The commits of one drive that have not ended.
///
/// They go on if the drive ends first. Each takes the fence, so it is committed before the last
/// write of the drive, or it is refused. `None` until the first commit, because most drives have
/// none.
#[derive(Debug, Default)]
pub(super) struct TransactionCommits(Option<JoinSet<CommitEnd>>);

impl TransactionCommits {
    pub(super) fn begin(&mut self, client: Client, claim: Claim, commit: TransactionCommit) {
        self.0.get_or_insert_default().spawn(end_of(client, claim, commit));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(JoinSet::is_empty)
    }

    /// Polls for the next commit that ends. Pending if there is none.
    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<CommitEnd> {
        let Some(commits) = &mut self.0 else { return Poll::Pending };
        match ready!(commits.poll_join_next(context)) {
            Some(Ok(end)) => Poll::Ready(end),
            // The driver panicked, so the effect of the commit is unknown.
            Some(Err(_)) => Poll::Ready(CommitEnd::Lost),
            None => Poll::Pending,
        }
    }
}

impl Drop for TransactionCommits {
    fn drop(&mut self) {
        if let Some(commits) = &mut self.0 {
            commits.detach_all();
        }
    }
}

async fn end_of(client: Client, claim: Claim, commit: TransactionCommit) -> CommitEnd {
    let TransactionCommit { call, position, row, transaction } = commit;
    let write = AttemptWrite { claim, row, effect: Effect::None };
    failpoint("transaction.body_ended");
    let store = client.store();
    let result = match transaction.commit(write.clone()).await {
        StepCommit::Committed => match failpoint_error("transaction.after_commit") {
            Ok(()) => Some(Ok(())),
            Err(fault) => find_out(store.as_ref(), &write, fault.into()).await,
        },
        StepCommit::Lost => None,
        StepCommit::RolledBack(error) => Some(Err(not_committed(&error))),
        StepCommit::Broken(error) => Some(Err(ended_too_early(&error))),
        StepCommit::Unknown(error) => find_out(store.as_ref(), &write, error).await,
    };
    if let (Some(Ok(())), Some(event)) = (&result, Event::of_attempt(&write)) {
        client.observers().event(&event);
    }
    result.map_or(CommitEnd::Lost, |result| CommitEnd::Known { call, position, result })
}

/// Finds out whether a commit whose answer was lost took place; `None` if that stays unknown or the
/// drive must not go on.
///
/// The commit must not be repeated on a guess. The row of the outcome was to be committed with the
/// author's rows, so it shows the fate of both. If the database does not answer, the claim is given
/// up, and the next claim of the run reads the history.
async fn find_out(store: &dyn Store, write: &AttemptWrite, error: DatabaseError) -> Option<Result<(), StoredError>> {
    let step = &write.row.step_key;
    tracing::warn!(%step, error = &error as &dyn std::error::Error, "the answer to a commit was lost, looking for its row");
    let begun = Instant::now();
    loop {
        match store.recorded(write.claim.run_id, step, write.row.attempt).await {
            Ok(Some(row)) if row.position == write.row.position && row.epoch == write.claim.epoch => {
                return Some(Ok(()));
            }
            // Another claim has recorded an outcome that this drive does not know.
            Ok(Some(row)) if row.position.is_some() => return None,
            Ok(_) => return Some(Err(not_committed(&error))),
            Err(error) if error.kind.is_transient() && begun.elapsed() < PATIENCE => {
                tokio::time::sleep(LOOK_DELAY).await;
            }
            Err(error) => {
                tracing::error!(
                    %step,
                    error = &error as &dyn std::error::Error,
                    "it is unknown whether a transaction was committed; the run is given up until its lease ends"
                );
                return None;
            }
        }
    }
}

fn not_committed(error: &DatabaseError) -> StoredError {
    let mut stored = StoredError::from_error(ErrorKind::Application, error);
    stored.message = format!("the transaction was not committed ({})", stored.message);
    stored
}

fn ended_too_early(error: &DatabaseError) -> StoredError {
    let mut stored = StoredError::from_error(ErrorKind::Refused, error);
    stored.message =
        "the transaction was over before its body ended: the body ended it by a COMMIT or ROLLBACK of its own, or \
         went on after a statement that failed; leave both to the engine, and return the error"
            .into();
    stored.fatal()
}
