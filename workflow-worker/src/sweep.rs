use std::sync::Arc;
use std::time::Duration;

use workflow_engine::faults::planted;
use workflow_engine::model::Lane;
use workflow_engine::store::{Outcome, Write};
use workflow_sdk::DatabaseError;

use crate::shared::Shared;

/// How often runs are failed whose deadline passed while no worker that knows them was there. A run that some worker knows
/// is failed by its claim, at the deadline.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(10);

/// When it is first looked for runs that no live worker serves: soon after a deployment that forgot them.
const UNSERVED_FIRST: Duration = Duration::from_secs(5);

/// How often after that: `explain` says of each run at once, the warning is for those who do not ask.
const UNSERVED_INTERVAL: Duration = Duration::from_secs(30);

/// How often both are done on a store in this process: on a paused clock months pass in a moment, in which the worker should
/// not look a million times.
const RARE_INTERVAL: Duration = Duration::from_secs(24 * 3600);

/// How long a run that was claimed before is left, after its deadline and the grace, to the workers that know it: one of them
/// may be about to come back.
const EXPIRY_PATIENCE: Duration = Duration::from_secs(300);

/// Runs failed at a time, so that the sweep never holds up the batch that it is part of.
const EXPIRY_LIMIT: u32 = 1000;

/// Fails runs past their deadline, until it is dropped.
pub(crate) async fn expire_runs(shared: Arc<Shared>) {
    if planted("hint-only-wake") {
        // What it writes would be a poll.
        return std::future::pending().await;
    }
    let patience = shared.options.cancel_grace.saturating_add(EXPIRY_PATIENCE);
    let interval = shared.pace(EXPIRY_INTERVAL, RARE_INTERVAL);
    loop {
        tokio::time::sleep(jittered(interval)).await;
        let expire = Write::Expire { limit: EXPIRY_LIMIT, patience };
        if let Ok(Outcome::Refused(error)) = shared.executor().commit(expire).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "deadlines not looked at, trying again");
        }
    }
}

/// Says of due runs of this worker's workflows, once for each version, that no live worker serves their version: they wait for
/// a worker that was forgotten, or that a deployment took away too early.
pub(crate) async fn warn_of_unserved(shared: Arc<Shared>) {
    let mut interval = UNSERVED_FIRST;
    loop {
        tokio::time::sleep(jittered(interval)).await;
        interval = shared.pace(UNSERVED_INTERVAL, RARE_INTERVAL);
        if let Err(error) = look_for_unserved(&shared).await {
            tracing::debug!(error = &error as &dyn std::error::Error, "unserved versions not looked for, trying again");
        }
    }
}

/// Less up to a quarter of it, so that workers do not look all at once.
fn jittered(interval: Duration) -> Duration {
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
