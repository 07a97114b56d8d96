//! When the next run is due that no commit of this process has made due.

use std::time::Duration;

use tokio::time::Instant;
use workflow_engine::faults::planted;
use workflow_sdk::Timestamp;

use crate::shared::Shared;

/// How long the worker waits after the database failed to answer.
pub(crate) const FAILURE_DELAY: Duration = Duration::from_millis(500);

/// At least this long between two looks for the next due run: one that is claimed by the commit that starts it needs none, and
/// a process may start hundreds in a second.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Waits until a run may be due by other means than a commit of this process.
pub(crate) async fn wait_for_due(shared: &Shared, look_from: &mut Instant) {
    if planted("hint-only-wake") {
        return shared.executor().notifier().due().await;
    }
    let pause = async {
        loop {
            tokio::time::sleep_until(*look_from).await;
            *look_from = Instant::now() + LOOK_INTERVAL;
            let (due, wait) = match shared.client.store().next_due(&shared.lanes).await {
                Ok(next) => {
                    shared.clock.set(next.now);
                    (next.at, poll_pause(shared, next.now, next.at))
                }
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "cannot look for due runs, trying again");
                    (None, FAILURE_DELAY)
                }
            };
            tokio::time::sleep(wait).await;
            if due.is_some_and(|due| due <= shared.clock.now()) {
                return;
            }
        }
    };
    tokio::select! {
        biased;
        () = shared.executor().notifier().due() => {}
        () = pause => {}
    }
}

/// The shorter of the time to the next due run and the poll interval, less up to a quarter of it.
fn poll_pause(shared: &Shared, now: Timestamp, due: Option<Timestamp>) -> Duration {
    let jittered = shared.options.poll_interval.mul_f64(1.0 - fastrand::f64() / 4.0);
    due.map_or(jittered, |due| due.since(now).min(jittered))
}
