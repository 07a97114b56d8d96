//! Dry-replays one run of the database against the registered code.

use workflow_sdk::internal::{dry_replay, run_history};
use workflow_sdk::{DatabaseError, DatabaseErrorKind, Lane, Misfit, Replayed, RunId, StoredError};

use crate::drive::unreadable;
use crate::{Worker, WorkerError};

/// The reason why a run does not fit the code, or could not be replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayRunError {
    /// There is no run with this id.
    #[error("there is no run {run_id}; an ended run may have been deleted")]
    UnknownRun {
        /// The id.
        run_id: RunId,
    },
    /// The workflow of the run is not registered under this name and version.
    #[error(
        "the run belongs to workflow {workflow:?} version {version:?}, which is not registered; \
         replay it with a program that registers this version"
    )]
    Unregistered {
        /// The workflow.
        workflow: String,
        /// Its version.
        version: String,
    },
    /// The history of the run does not fit the code.
    #[error("{0}")]
    Misfit(Misfit),
    /// The history of the run cannot be read by this program. The error says why.
    #[error("{0}")]
    Unreadable(StoredError),
    /// The registered workflows are refused, or the database cannot be read.
    #[error(transparent)]
    Worker(#[from] WorkerError),
}

impl From<DatabaseError> for ReplayRunError {
    fn from(error: DatabaseError) -> Self {
        match error.kind {
            DatabaseErrorKind::Corrupt | DatabaseErrorKind::Codec => Self::Unreadable(unreadable(&error)),
            _ => Self::Worker(error.into()),
        }
    }
}

impl<S> Worker<S> {
    /// Replays one run of the database against the registered workflows, and returns how it fits
    /// them. The run may have ended: its end is then compared, too.
    ///
    /// It claims nothing, writes nothing and begins no body, as [`Worker::preflight`]. The code of
    /// the workflow outside of its steps does run.
    ///
    /// # Errors
    /// [`ReplayRunError::Misfit`] if the run would diverge or fail under this code, or if the code
    /// ends it in another way. The other variants say why nothing was replayed.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect, because it only reads.
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    /// use workflow_worker::Worker;
    ///
    /// #[workflow]
    /// async fn greet(ctx: &Ctx, name: String) -> Result<String> {
    ///     ctx.step("greet", async || ok(format!("hello, {name}"))).await
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = Client::connect("sqlite::memory:").await?;
    /// let run = client.start(greet, "Ada".to_string()).await?;
    /// let replayed = Worker::new(client, ()).register(greet).replay(run.id()).await?;
    /// assert!(matches!(replayed, workflow_sdk::Replayed::Waits(_)));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn replay(&self, run: RunId) -> Result<Replayed, ReplayRunError> {
        self.registry.check()?;
        let history = run_history(self.client.store().as_ref(), run).await?;
        let history = history.ok_or(ReplayRunError::UnknownRun { run_id: run })?;
        let (workflow, version) = (history.run.workflow.clone(), history.run.version.clone());
        let lane = Lane { queue: history.run.queue.clone(), workflow, version };
        let Some(entry) = self.registry.entry(&lane) else {
            return Err(ReplayRunError::Unregistered { workflow: lane.workflow, version: lane.version });
        };
        dry_replay(entry, &history, self.client.payload_limit()).map_err(ReplayRunError::Misfit)
    }
}
