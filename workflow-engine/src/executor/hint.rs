use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use crate::faults::failpoint_error;
use crate::store::{DatabaseError, Store};

/// After a hint for one changed run: who is heard at once costs the others a look each.
const SHORTEST_PAUSE: Duration = Duration::from_millis(2);

/// At most 20 hints a second of a busy process: on PostgreSQL the commit of each takes a lock on the whole database.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// How often it is looked whether anybody is left who could ask for a hint.
const LOOK: Duration = Duration::from_secs(1);

/// What other processes are still to be told of.
#[derive(Debug, Default)]
pub(super) struct Hint {
    /// Changes of runs since the last hint was sent.
    changed: AtomicUsize,
    asked: Notify,
}

impl Hint {
    /// Asks for a hint: so many runs were changed by one commit.
    pub(super) fn ask(&self, changed: usize) {
        self.changed.fetch_add(changed, Ordering::Relaxed);
        self.asked.notify_one();
    }
}

/// Sends what is asked for, until nobody is left to ask.
pub(super) async fn send_hints(store: Weak<dyn Store>, hint: Arc<Hint>) {
    loop {
        // The only other holder is the hub: alone, there is nobody left to hint for.
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

/// How long no other hint follows one of so many changes: a run that is started now and then is heard of at once, while a
/// busy process makes its hints rare, for what comes during a pause makes the next one longer.
fn pause_after(changed: usize) -> Duration {
    SHORTEST_PAUSE.saturating_mul(u32::try_from(changed).unwrap_or(u32::MAX)).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lone_change_pauses_shortly_and_many_for_long() {
        assert_eq!(pause_after(0), SHORTEST_PAUSE);
        assert_eq!(pause_after(1), SHORTEST_PAUSE);
        assert_eq!(pause_after(10), Duration::from_millis(20));
        assert_eq!(pause_after(25), LONGEST_PAUSE);
        assert_eq!(pause_after(usize::MAX), LONGEST_PAUSE);
    }
}
