//! Whether a worker has a permit left.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// Whether the worker has no permit left. While it has none, runs that wait in memory park, so
/// that due runs get their permits.
///
/// A channel of tokio would wake its receivers in an order that a simulation could not repeat.
#[derive(Debug)]
pub(crate) struct Saturation(Arc<Changes>);

#[derive(Debug, Default)]
struct Changes {
    /// Odd while the worker is saturated.
    count: AtomicU64,
    changed: Notify,
}

/// Watches the saturation of a worker.
#[derive(Debug)]
pub(crate) struct SaturationWatch {
    changes: Arc<Changes>,
    seen: u64,
}

impl Saturation {
    pub(crate) fn new() -> Self {
        Self(Arc::default())
    }

    /// Only the claim loop calls it.
    pub(crate) fn set(&self, is_saturated: bool) {
        let count = self.0.count.load(Ordering::SeqCst);
        if (count % 2 == 1) != is_saturated {
            self.0.count.store(count + 1, Ordering::SeqCst);
            self.0.changed.notify_waiters();
        }
    }

    pub(crate) fn watch(&self) -> SaturationWatch {
        SaturationWatch { changes: Arc::clone(&self.0), seen: self.0.count.load(Ordering::SeqCst) }
    }
}

impl SaturationWatch {
    /// Returns whether the worker is saturated now, and marks that as seen.
    pub(crate) fn see(&mut self) -> bool {
        self.seen = self.changes.count.load(Ordering::SeqCst);
        self.seen % 2 == 1
    }

    /// Returns when the saturation has changed since it was last [seen](Self::see).
    pub(crate) async fn changed(&self) {
        loop {
            // Registered before the count is read, so that no change in between is missed.
            let changed = self.changes.changed.notified();
            if self.changes.count.load(Ordering::SeqCst) != self.seen {
                return;
            }
            changed.await;
        }
    }
}
