//! Applies the declared retention once, now.

use std::collections::{BTreeMap, HashSet};

use workflow_engine::model::{Retention, RunId, RunStatus, WorkerId};
use workflow_engine::store::list_runs;
use workflow_sdk::{Client, DatabaseError};

use crate::retention::{Sweep, candidates, declared_by_living, old_runs};
use crate::{Worker, WorkerError};

/// The old runs that a call of [`prune`] has found, and its deletions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pruned {
    /// The old runs of each workflow and outcome.
    pub old: BTreeMap<(String, RunStatus), u64>,
    /// How many of them were deleted. 0 after a count alone.
    pub deleted: u64,
    /// How many of them were kept, because a parent still needs them or because they were tried
    /// again.
    pub kept: u64,
}

/// Why nothing was deleted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PruneError {
    /// No workflow has a retention, so every run stays.
    #[error("no retention is declared: neither by a living worker nor by this program; declare one by Worker::retain")]
    NoRetention,
    /// A worker of a later release keeps runs in a way that this program does not understand.
    #[error(
        "worker {worker} keeps runs in a way that this program does not understand; use the release of that worker"
    )]
    NotUnderstood {
        /// The worker.
        worker: WorkerId,
    },
    /// The declared retention of this program is refused.
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// The database failed. What was deleted before stays deleted.
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

impl<S> Worker<S> {
    /// Applies the retention once, now: see [`prune`]. What this worker declares counts as if it
    /// lived.
    ///
    /// # Errors
    /// See [`prune`]; also [`PruneError::Worker`].
    pub async fn prune(&self, counts_only: bool) -> Result<Pruned, PruneError> {
        let own = self.retention.clone().resolve(&self.registry)?;
        prune_by(&self.client, Some(own), counts_only).await
    }
}

/// Deletes the ended runs that are older than the living workers keep them, at the pace at which a
/// worker does so in the background. With `counts_only` it deletes nothing.
///
/// # Errors
/// [`PruneError::NoRetention`] if no living worker declares one. [`PruneError::NotUnderstood`] if
/// one declares what this program does not understand. [`PruneError::Database`].
///
/// # Cancel safety
/// If the future is dropped, some runs are deleted and the others are not. Calling it again is
/// safe.
///
/// ```
/// use workflow_sdk::prelude::*;
/// use workflow_worker::{PruneError, prune};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("sqlite::memory:").await?;
/// let refused = prune(&client, true).await.unwrap_err();
/// assert!(matches!(refused, PruneError::NoRetention), "no worker lives");
/// # Ok(())
/// # }
/// ```
pub async fn prune(client: &Client, counts_only: bool) -> Result<Pruned, PruneError> {
    prune_by(client, None, counts_only).await
}

async fn prune_by(client: &Client, own: Option<Retention>, counts_only: bool) -> Result<Pruned, PruneError> {
    let mut pruned = Pruned::default();
    let mut sweep = Sweep::new(client);
    let mut from = None;
    loop {
        // Read for each page, because a worker that keeps runs for longer may have started.
        let retention = in_force(client, own.as_ref()).await?;
        from = count_page(client, &retention, from, &mut pruned, (!counts_only).then_some(&mut sweep)).await?;
        if from.is_none() {
            break;
        }
    }
    (pruned.deleted, pruned.kept) = sweep.counts();
    Ok(pruned)
}

/// Returns the retention that holds now.
async fn in_force(client: &Client, own: Option<&Retention>) -> Result<Retention, PruneError> {
    let workers = client.store().workers().await?;
    let declared = declared_by_living(&workers).map_err(|worker| PruneError::NotUnderstood { worker })?;
    let own = own.filter(|own| !own.is_empty());
    let retention = Retention::merged(declared.into_iter().chain(own));
    if retention.is_empty() { Err(PruneError::NoRetention) } else { Ok(retention) }
}

/// Counts the old runs of the next page behind `from`, and deletes them unless no `sweep` is given.
/// Returns where the next page begins.
async fn count_page(
    client: &Client,
    retention: &Retention,
    from: Option<RunId>,
    pruned: &mut Pruned,
    sweep: Option<&mut Sweep<'_>>,
) -> Result<Option<RunId>, DatabaseError> {
    let now = client.store().now().await?;
    let Some(list) = candidates(retention, from, now) else { return Ok(None) };
    let page = list_runs(&**client.store(), &list).await?;
    let old = old_runs(&page.runs, retention, now);
    let ids: HashSet<RunId> = old.iter().map(|(id, _)| *id).collect();
    for run in page.runs.iter().filter(|run| ids.contains(&run.id)) {
        *pruned.old.entry((run.lane.workflow.clone(), run.status)).or_default() += 1;
    }
    if let Some(sweep) = sweep {
        sweep.delete(&old).await?;
    }
    Ok(page.next)
}
