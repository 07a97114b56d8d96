//! Looks for runs that no worker will claim, expired and unserved ones, and folds old statistics.

use std::sync::Arc;
use std::time::Duration;

use workflow_engine::faults::planted;
use workflow_engine::model::Lane;
use workflow_engine::store::{Outcome, StatisticsWrite, Write};
use workflow_sdk::DatabaseError;

use crate::WorkerOptions;
use crate::shared::Shared;

/// How often a worker fails runs whose deadline passed while no worker served them, and ends the
/// pauses of those that a worker has to undo. A run that a worker serves fails by its claim.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(10);

/// When a worker first looks for runs that no live worker serves. It is soon after the start, so
/// that a deployment that forgot a version shows early.
const UNSERVED_FIRST: Duration = Duration::from_secs(5);

/// How often a worker looks for unserved runs after that. `explain` shows the reason for a single
/// run at once.
const UNSERVED_INTERVAL: Duration = Duration::from_secs(30);

/// How often a worker does both on a store in this process. On a paused clock, years pass in a
/// moment, during which the worker should not look a million times.
const RARE_INTERVAL: Duration = WorkerOptions::LONGEST_TIME;

/// How long, after its deadline and the grace, a run that was claimed before waits for a worker
/// that serves it. One may be about to come back.
const EXPIRY_PATIENCE: Duration = Duration::from_secs(300);

/// The most runs that one write fails, so that it does not delay the batch that it is part of.
const EXPIRY_LIMIT: u32 = 1000;

/// When a worker first folds old statistics: a process that starts has more urgent work.
const FOLD_FIRST: Duration = Duration::from_secs(30);

/// How often it folds after that.
const FOLD_INTERVAL: Duration = Duration::from_secs(600);

/// The delay before it folds more rows, if there are more.
const FOLD_AGAIN: Duration = Duration::from_secs(1);

/// The most rows that one write folds, so that it does not delay the batch that it is part of.
const FOLD_LIMIT: u32 = 500;

/// Fails runs past their deadline, until the future is dropped.
pub(crate) async fn expire_runs(shared: Arc<Shared>) {
    if planted("hint-only-wake") {
        // Its writes would be polls, which would hide the planted bug.
        return std::future::pending().await;
    }
    let patience = shared.options.cancel_grace.saturating_add(EXPIRY_PATIENCE);
    let interval = shared.pace(EXPIRY_INTERVAL, RARE_INTERVAL);
    loop {
        tokio::time::sleep(jittered(interval)).await;
        let expire = Write::Expire { limit: EXPIRY_LIMIT, patience };
        if let Ok(Outcome::Refused(error)) = shared.executor().commit(expire).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "cannot look for passed deadlines, trying again");
        }
    }
}

/// Folds old statistics, until the future is dropped. A store in this process counts nothing.
pub(crate) async fn fold_counts(shared: Arc<Shared>) {
    if shared.client.store().in_process() || planted("hint-only-wake") {
        // Its writes would be polls, which would hide the planted bug.
        return std::future::pending().await;
    }
    let mut interval = FOLD_FIRST;
    loop {
        tokio::time::sleep(jittered(interval)).await;
        let fold = Write::Statistics(Box::new(StatisticsWrite::Fold { limit: FOLD_LIMIT }));
        let outcome = shared.executor().commit(fold).await;
        if let Ok(Outcome::Refused(error)) = &outcome {
            tracing::warn!(error = error as &dyn std::error::Error, "cannot fold old statistics, trying again");
        }
        interval = match outcome {
            // There may be more.
            Ok(Outcome::Changed(folded)) if folded >= u64::from(FOLD_LIMIT) => FOLD_AGAIN,
            _ => FOLD_INTERVAL,
        };
    }
}

/// Warns, once per version, of due runs of this worker's workflows whose version no live worker
/// serves. They wait for a worker that was forgotten, or that a deployment stopped too early.
pub(crate) async fn warn_of_unserved(shared: Arc<Shared>) {
    let mut interval = UNSERVED_FIRST;
    loop {
        tokio::time::sleep(jittered(interval)).await;
        interval = shared.pace(UNSERVED_INTERVAL, RARE_INTERVAL);
        if let Err(error) = look_for_unserved(&shared).await {
            tracing::debug!(
                error = &error as &dyn std::error::Error,
                "cannot look for unserved versions, trying again"
            );
        }
    }
}

/// Shortens the interval by up to a quarter, so that workers do not look in step.
pub(crate) fn jittered(interval: Duration) -> Duration {
    interval.mul_f64(1.0 - fastrand::f64() / 4.0)
}

async fn look_for_unserved(shared: &Shared) -> Result<(), DatabaseError> {
    let store = shared.client.store();
    let mut due = store.due_lanes(&shared.lanes).await?;
    due.retain(|lane| !shared.lanes.contains(lane));
    if due.is_empty() {
        return Ok(());
    }
    let workers = store.workers().await?;
    let serves = |lane: &Lane| workers.iter().any(|worker| worker.live && worker.lanes.contains(lane));
    for Lane { queue, workflow, version } in due.iter().filter(|lane| !serves(lane)) {
        if shared.first_warning(&format!("{workflow} version {version}")) {
            tracing::warn!(
                workflow,
                version,
                queue,
                "runs are due that no worker serves: start a worker that registers this version, or cancel or fork them"
            );
        }
    }
    Ok(())
}
