//! Sends hints to other processes after commits, at a bounded rate.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::faults::failpoint_error;
use crate::store::{DatabaseError, Store};

/// The cost of a hint for one changed run. Each hint costs every other process a look.
const LOWEST_COST: Duration = Duration::from_millis(1);

/// The highest cost of a hint, which bounds a busy process to at most 20 hints per second. On
/// PostgreSQL, the commit of each hint takes a lock on the whole database.
const HIGHEST_COST: Duration = Duration::from_millis(50);

/// The cost that a process may owe. So a process that was quiet sends its next hints at once.
const CREDIT: Duration = Duration::from_millis(10);

/// Time between two checks whether the notifier still exists.
const LOOK: Duration = Duration::from_secs(1);

/// The changes for which other processes have no hint yet.
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

/// Decides how long a process waits after a hint. Each hint has a cost, a time that passes before
/// the next one; but [`CREDIT`] of it may be owed. So a process that starts a run now and then
/// never waits, and a busy one sends few hints: changes that come during a pause make the next hint
/// dearer.
#[derive(Debug)]
struct HintPauses {
    /// When all hints so far are paid for.
    paid_at: Instant,
}

/// Sends the hints that are asked for, until the notifier is dropped.
pub(super) async fn send_hints(store: Weak<dyn Store>, hint: Arc<HintRequest>) {
    let mut pauses = HintPauses { paid_at: Instant::now() };
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
        let pause = pauses.after(changed, Instant::now());
        // A timer would round an empty pause up.
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
    }
}

pub(super) async fn try_hint(store: &dyn Store) -> Result<(), DatabaseError> {
    failpoint_error("executor.before_hint")?;
    store.hint().await
}

impl HintPauses {
    /// Returns the pause after a hint for this many changes, which was sent at this time.
    fn after(&mut self, changed: usize, now: Instant) -> Duration {
        self.paid_at = self.paid_at.max(now) + cost_of(changed);
        self.paid_at.duration_since(now).saturating_sub(CREDIT)
    }
}

fn cost_of(changed: usize) -> Duration {
    LOWEST_COST.saturating_mul(u32::try_from(changed).unwrap_or(u32::MAX)).clamp(LOWEST_COST, HIGHEST_COST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quiet() -> (HintPauses, Instant) {
        let now = Instant::now();
        (HintPauses { paid_at: now }, now)
    }

    #[test]
    fn the_cost_grows_with_the_number_of_changes() {
        assert_eq!(cost_of(0), LOWEST_COST);
        assert_eq!(cost_of(1), LOWEST_COST);
        assert_eq!(cost_of(20), Duration::from_millis(20));
        assert_eq!(cost_of(50), HIGHEST_COST);
        assert_eq!(cost_of(usize::MAX), HIGHEST_COST);
    }

    #[test]
    fn single_changes_one_after_the_other_have_no_pause() {
        let (mut pauses, begun) = quiet();
        for number in 0..1000 {
            assert_eq!(pauses.after(1, begun + LOWEST_COST * number), Duration::ZERO, "hint {number}");
        }
    }

    #[test]
    fn a_burst_uses_the_credit_up_and_a_rest_restores_it() {
        let (mut pauses, begun) = quiet();
        for now in [begun, begun + CREDIT, begun + HIGHEST_COST] {
            let at_once = (0..100).take_while(|_| pauses.after(1, now).is_zero()).count();
            assert_eq!(at_once, 10);
            // The hint that found no credit left has its own cost.
            pauses.paid_at = now + CREDIT;
        }
    }

    #[test]
    fn a_busy_process_sends_few_hints() {
        let (mut pauses, begun) = quiet();
        assert_eq!(pauses.after(1000, begun), HIGHEST_COST - CREDIT);
        let mut now = begun + HIGHEST_COST - CREDIT;
        for _ in 0..20 {
            let pause = pauses.after(1000, now);
            assert_eq!(pause, HIGHEST_COST, "the credit is used up");
            now += pause;
        }
    }
}
