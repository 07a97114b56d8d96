//! The time of the last sign of life of something, readable from other threads.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The time of the last beat. It is the system's, so a stopped runtime does not stop it.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    /// Microseconds since [`ORIGIN`]; 0 for no beat.
    at: AtomicU64,
}

static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

impl Pulse {
    pub(crate) fn beat(&self) {
        self.at.store(now(), Ordering::Relaxed);
    }

    /// Forgets the last beat.
    pub(crate) fn stop(&self) {
        self.at.store(0, Ordering::Relaxed);
    }

    /// Returns the time since the last beat; `None` if there was none.
    pub(crate) fn age(&self) -> Option<Duration> {
        let at = self.at.load(Ordering::Relaxed);
        (at > 0).then(|| Duration::from_micros(now().saturating_sub(at)))
    }
}

/// At least 1, so that a beat differs from none.
fn now() -> u64 {
    u64::try_from(ORIGIN.elapsed().as_micros()).unwrap_or(u64::MAX).max(1)
}
