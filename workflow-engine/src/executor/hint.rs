//! Sends hints to other processes after commits, at a bounded rate.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use crate::faults::failpoint_error;
use crate::store::{DatabaseError, Store};

/// Pause after a hint for one changed run. Each hint costs every other process a look.
const SHORTEST_PAUSE: Duration = Duration::from_millis(2);

/// Longest pause, which bounds a busy process to at most 20 hints per second. On PostgreSQL, the
/// commit of each hint takes a lock on the whole database.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Time between two checks whether the notifier still exists.
const LOOK: Duration = Duration::from_secs(1);

/// The changes of which other processes have no hint yet.
#[derive(Debug, Default)]
pub(super) struct HintRequest {
    /// Changes of runs since the last hint.
    changed: AtomicUsize,
    asked: Notify,
}

impl HintRequest {
    /// Asks for a hint after a commit that changed this many runs.
    pub(super) fn ask(&self, changed: usize) {
        self.changed.fetch_add(changed, Ordering::Relaxed);
        self.asked.notify_one();
    }
}

/// Sends the hints that are asked for, until the notifier is dropped.
pub(super) async fn send_hints(store: Weak<dyn Store>, hint: Arc<HintRequest>) {
    loop {
        // The notifier is the only other owner.
        if Arc::strong_count(&hint) == 1 {
            return;
        }
        if tokio::time::timeout(LOOK, hint.asked.notified()).await.is_err() {
            continue;
        }
        let changed = hint.changed.swap(0, Ordering::Relaxed);
        let Some(store) = store.upgrade() else { return };
        if let Err(error) = try_hint(store.as_ref()).await {
            tracing::debug!(%error, "a hint to other processes was not sent; they find the change by polling");
        }
        drop(store);
        tokio::time::sleep(pause_after(changed)).await;
    }
}

async fn try_hint(store: &dyn Store) -> Result<(), DatabaseError> {
    failpoint_error("executor.before_hint")?;
    store.hint().await
}

/// Returns the pause after a hint for this many changes. A process that starts a run now and then
/// sends its hint at once. A busy process sends few hints, because changes that come during a pause
/// make the next pause longer.
fn pause_after(changed: usize) -> Duration {
    SHORTEST_PAUSE.saturating_mul(u32::try_from(changed).unwrap_or(u32::MAX)).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_grows_with_the_number_of_changes() {
        assert_eq!(pause_after(0), SHORTEST_PAUSE);
        assert_eq!(pause_after(1), SHORTEST_PAUSE);
        assert_eq!(pause_after(10), Duration::from_millis(20));
        assert_eq!(pause_after(25), LONGEST_PAUSE);
        assert_eq!(pause_after(usize::MAX), LONGEST_PAUSE);
    }
}
