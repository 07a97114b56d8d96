//! Forwards the notifications of this process and of others to the drives that they concern.
//!
//! A notification may be missed. The next renewal of the lease reports the same changes.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast::error::RecvError;
use workflow_engine::executor::Cancel;

use crate::claim_state::Directive;
use crate::shared::Shared;

/// The shortest time between two queries for the runs that wait for external events. Other
/// processes send at most 20 hints per second each.
const QUERY_INTERVAL: Duration = Duration::from_millis(50);

/// Wakes drives whose runs have external events, until the future is dropped: at once for commits
/// of this process, and after a hint for commits of others.
pub(crate) async fn forward_wakes(shared: Arc<Shared>) {
    let notifier = Arc::clone(shared.executor().notifier());
    let (mut wakes, mut changes) = (notifier.wakes(), notifier.changes());
    loop {
        tokio::select! {
            biased;
            woken = wakes.recv() => match woken {
                Ok(run) => shared.claims.wake_run(run),
                Err(RecvError::Lagged(_)) => query_wakes(&shared).await,
                Err(RecvError::Closed) => return,
            },
            changed = changes.changed() => {
                if changed.is_err() {
                    return;
                }
                query_wakes(&shared).await;
                tokio::time::sleep(QUERY_INTERVAL).await;
            }
        }
    }
}

/// Reads the `wakes` of all runs of this worker that wait for external events, with one query.
async fn query_wakes(shared: &Shared) {
    let waiting = shared.claims.waiting_runs();
    if waiting.is_empty() {
        return;
    }
    match shared.client.store().wakes(&waiting).await {
        Ok(wakes) => wakes.into_iter().for_each(|(run, wakes)| shared.claims.update_wakes(run, wakes)),
        Err(error) => {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "cannot look for woken runs; the next renewal of the lease will"
            );
        }
    }
}

/// Forwards pauses that this process committed, until the future is dropped.
pub(crate) async fn forward_pauses(shared: Arc<Shared>) {
    let mut pauses = shared.executor().notifier().pauses();
    loop {
        match pauses.recv().await {
            // As when the worker stops: running bodies may end, the rest waits in the database.
            Ok(run) => shared.claims.direct_run(run, Directive::Drain),
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

/// Forwards cancels and terminations that this process committed, until the future is dropped.
pub(crate) async fn forward_cancels(shared: Arc<Shared>) {
    let mut cancels = shared.executor().notifier().cancels();
    loop {
        match cancels.recv().await {
            Ok(Cancel::Requested(run)) => shared.claims.request_cancel_of_run(run),
            Ok(Cancel::Terminated(run)) => shared.claims.direct_run(run, Directive::Lost),
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

/// Gives the runs of this worker back whenever a run of the process must be driven alone, as soon
/// as their running bodies have ended. Returns when the future is dropped.
pub(crate) async fn make_way(shared: Arc<Shared>) {
    loop {
        let suspect = shared.quarantine.closed().await;
        shared.claims.direct_others(suspect, Directive::Drain);
        shared.quarantine.open_after(suspect).await;
    }
}
