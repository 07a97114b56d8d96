use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// Whether the worker has no permit left. Runs that wait in memory then park, so that due ones get their permits.
///
/// Not a channel of tokio's: that wakes those who watch in an order of its own, which no simulation could repeat.
#[derive(Debug)]
pub(crate) struct Pressure(Arc<Changes>);

#[derive(Debug, Default)]
struct Changes {
    /// Odd while there is pressure.
    count: AtomicU64,
    changed: Notify,
}

/// One who watches it.
#[derive(Debug)]
pub(crate) struct PressureWatch {
    changes: Arc<Changes>,
    seen: u64,
}

impl Pressure {
    pub(crate) fn new() -> Self {
        Self(Arc::default())
    }

    /// Only the claim loop calls it.
    pub(crate) fn set(&self, under_pressure: bool) {
        let count = self.0.count.load(Ordering::SeqCst);
        if (count % 2 == 1) != under_pressure {
            self.0.count.store(count + 1, Ordering::SeqCst);
            self.0.changed.notify_waiters();
        }
    }

    pub(crate) fn watch(&self) -> PressureWatch {
        PressureWatch { changes: Arc::clone(&self.0), seen: self.0.count.load(Ordering::SeqCst) }
    }
}

impl PressureWatch {
    /// Whether there is pressure now.
    pub(crate) fn look(&mut self) -> bool {
        self.seen = self.changes.count.load(Ordering::SeqCst);
        self.seen % 2 == 1
    }

    /// Returns when it has changed since the last look.
    pub(crate) async fn changed(&self) {
        loop {
            // Before the count is read: from here on no change is missed.
            let changed = self.changes.changed.notified();
            if self.changes.count.load(Ordering::SeqCst) != self.seen {
                return;
            }
            changed.await;
        }
    }
}
