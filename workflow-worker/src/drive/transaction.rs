//! The commits of transactional steps, which do not go through the executor.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use workflow_engine::faults::{failpoint, failpoint_error};
use workflow_engine::model::{Claim, Effect};
use workflow_engine::replay::CallId;
use workflow_engine::runtime::TransactionCommit;
use workflow_engine::store::{AttemptWrite, StepCommit, Store};
use workflow_sdk::{DatabaseError, ErrorKind, StoredError};

/// How long a commit whose answer was lost is asked after: as long as the executor tries to write.
const PATIENCE: Duration = Duration::from_secs(30);

/// Between two questions.
const PAUSE: Duration = Duration::from_millis(200);

/// What became of a commit.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The outcome is in the database, with all that the body did. Or nothing of it is: then the attempt has failed.
    Known(Result<(), StoredError>),
    /// The claim is lost, or it cannot be known what became of it.
    Lost,
}

/// The commits of one drive that are on their way. They go on if the drive ends before them: each takes the fence, so it
/// comes before what the drive writes last, or it is refused. `None`: there were none yet, as in most drives.
#[derive(Debug, Default)]
pub(crate) struct Commits(Option<JoinSet<(CallId, i64, Ended)>>);

impl Commits {
    /// Sends one off.
    pub(crate) fn begin(&mut self, store: Arc<dyn Store>, claim: Claim, commit: TransactionCommit) {
        let TransactionCommit { call, position, row, transaction } = commit;
        let write = AttemptWrite { claim, row, effect: Effect::None };
        self.0.get_or_insert_default().spawn(async move {
            failpoint("transaction.body_ended");
            let ended = match transaction.commit(write.clone()).await {
                StepCommit::Committed => match failpoint_error("transaction.after_commit") {
                    Ok(()) => Ended::Known(Ok(())),
                    Err(fault) => look(store.as_ref(), &write, fault.into()).await,
                },
                StepCommit::Lost => Ended::Lost,
                StepCommit::RolledBack(error) => Ended::Known(Err(not_committed(&error))),
                StepCommit::Broken(error) => Ended::Known(Err(broken(&error))),
                StepCommit::Unknown(error) => look(store.as_ref(), &write, error).await,
            };
            (call, position, ended)
        });
    }

    /// Whether none is on its way.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(JoinSet::is_empty)
    }

    /// The next that has ended; for ever, if none is on its way.
    pub(crate) async fn next(&mut self) -> (Option<(CallId, i64)>, Ended) {
        let Some(commits) = &mut self.0 else { return std::future::pending().await };
        match commits.join_next().await {
            Some(Ok((call, position, ended))) => (Some((call, position)), ended),
            // It panicked in the driver: nobody knows what it had done.
            Some(Err(_)) => (None, Ended::Lost),
            None => std::future::pending().await,
        }
    }
}

impl Drop for Commits {
    fn drop(&mut self) {
        if let Some(commits) = &mut self.0 {
            commits.detach_all();
        }
    }
}

/// After a commit whose answer was lost. It must not be done again on a guess: the row that was to be committed with the
/// author's rows says what became of both. Where nobody answers, the claim is given up, and the next one reads the history.
async fn look(store: &dyn Store, write: &AttemptWrite, error: DatabaseError) -> Ended {
    let step = &write.row.step_key;
    tracing::warn!(%step, error = &error as &dyn std::error::Error, "the answer to a commit was lost, looking for its row");
    let begun = Instant::now();
    loop {
        match store.recorded(write.claim.run_id, step, write.row.attempt).await {
            Ok(Some(row)) if row.position == write.row.position && row.epoch == write.claim.epoch => {
                return Ended::Known(Ok(()));
            }
            // An outcome that this drive does not know of: it must not go on.
            Ok(Some(row)) if row.position.is_some() => return Ended::Lost,
            Ok(_) => return Ended::Known(Err(not_committed(&error))),
            Err(error) if error.kind.is_transient() && begun.elapsed() < PATIENCE => tokio::time::sleep(PAUSE).await,
            Err(error) => {
                tracing::error!(
                    %step,
                    error = &error as &dyn std::error::Error,
                    "nobody knows whether a transaction was committed; the run is given up until its lease ends"
                );
                return Ended::Lost;
            }
        }
    }
}

fn not_committed(error: &DatabaseError) -> StoredError {
    let mut stored = StoredError::from_error(ErrorKind::Application, error);
    stored.message = format!("the transaction was not committed ({})", stored.message);
    stored
}

fn broken(error: &DatabaseError) -> StoredError {
    let mut stored = StoredError::from_error(ErrorKind::Refused, error);
    stored.message =
        "the transaction was over before its body ended: the body ended it by a COMMIT or ROLLBACK of its own, or \
         went on after a statement that failed; leave both to the engine, and return the error"
            .into();
    stored.fatal()
}
