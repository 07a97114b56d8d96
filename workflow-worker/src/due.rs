//! The next run that becomes due without a commit of this process.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use workflow_engine::faults::planted;
use workflow_sdk::Timestamp;

use crate::queue_watch::GATE_INTERVAL;
use crate::shared::Shared;

/// How long the worker waits after the database failed to answer.
pub(crate) const FAILURE_DELAY: Duration = Duration::from_millis(500);

/// The shortest time between two queries for the next due run. A run that is claimed by the commit
/// that starts it needs no query, and a process may start hundreds of runs per second.
const QUERY_INTERVAL: Duration = Duration::from_millis(20);

/// Returns at the time of the next look, or after a hint that there may be something earlier, but
/// not before `soonest`.
pub(crate) async fn wait_for_look(hints: &mut watch::Receiver<u64>, at: Instant, soonest: Instant) {
    let hinted = async {
        // An error means that the executor has ended, and the worker ends with it.
        let _ = hints.changed().await;
        tokio::time::sleep_until(at.min(soonest)).await;
    };
    tokio::select! {
        biased;
        () = tokio::time::sleep_until(at) => {}
        () = hinted => {}
    }
}

/// Returns when a run may be due: after a notification, at the next due time, after the poll
/// interval, or when a queue that was full may have room. `query_from` is the time of the next
/// query.
pub(crate) async fn wait_for_due(shared: &Shared, query_from: &mut Instant) {
    if planted("hint-only-wake") {
        return shared.executor().notifier().due().await;
    }
    let pause = async {
        loop {
            tokio::time::sleep_until(*query_from).await;
            *query_from = Instant::now() + QUERY_INTERVAL;
            let (lanes, held_until) = shared.queues.open_lanes(&shared.lanes, Instant::now());
            let (due, wait) = match shared.client.store().next_due(&lanes).await {
                Ok(next) => {
                    shared.clock.set(next.now);
                    (next.at, poll_pause(shared, next.now, next.at))
                }
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "cannot look for due runs, trying again");
                    (None, FAILURE_DELAY)
                }
            };
            let wait = if shared.queues.has_full_gates() { wait.min(shared.pace(GATE_INTERVAL, wait)) } else { wait };
            let until = Instant::now() + wait;
            tokio::time::sleep_until(held_until.map_or(until, |held| held.min(until))).await;
            if due.is_some_and(|due| due <= shared.clock.now()) {
                return;
            }
        }
    };
    tokio::select! {
        biased;
        () = shared.executor().notifier().due() => {}
        () = shared.queues.changed() => {}
        () = pause => {}
    }
}

/// The time to the next due run, or the shortened poll interval if that is earlier.
fn poll_pause(shared: &Shared, now: Timestamp, due: Option<Timestamp>) -> Duration {
    let jittered = shared.options.poll_interval.mul_f64(1.0 - fastrand::f64() / 4.0);
    due.map_or(jittered, |due| due.since(now).min(jittered))
}
