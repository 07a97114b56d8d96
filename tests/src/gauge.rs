use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the bodies that run now, and how many ran at once at most.
#[derive(Debug, Default)]
pub struct Gauge {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Gauge {
    /// Counts a body from now until the drop of the returned value.
    pub fn enter(self: &Arc<Self>) -> Inside {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        Inside(Arc::clone(self))
    }

    /// Returns how many bodies ran at once at most.
    #[must_use]
    pub fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

/// A body that a [`Gauge`] counts.
#[derive(Debug)]
pub struct Inside(Arc<Gauge>);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}
