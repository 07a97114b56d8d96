//! The time of the last sign of life of something, readable from other threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The time during which the process was not stopped, as the lease thread counts it. After SIGSTOP
/// or a suspended machine, a runtime that polls looks the same as one that does not.
#[derive(Clone, Debug, Default)]
pub(crate) struct AwakeClock {
    /// Microseconds.
    now: Arc<AtomicU64>,
}

impl AwakeClock {
    /// Advances by the time between two ticks of the lease thread. A time longer than `most` counts
    /// as `most`: the thread cannot tell a stop of the process from its own delay.
    pub(crate) fn advance(&self, between: Duration, most: Duration) {
        let micros = u64::try_from(between.min(most).as_micros()).unwrap_or(u64::MAX);
        self.now.fetch_add(micros, Ordering::Relaxed);
    }
}

/// The time of the last beat.
#[derive(Debug)]
pub(crate) struct Pulse {
    clock: AwakeClock,
    /// Microseconds of the clock; [`NONE`] for no beat.
    at: AtomicU64,
}

const NONE: u64 = u64::MAX;

impl Pulse {
    /// Returns a pulse without a beat.
    pub(crate) fn new(clock: AwakeClock) -> Self {
        Self { clock, at: AtomicU64::new(NONE) }
    }

    pub(crate) fn beat(&self) {
        self.at.store(self.clock.now.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Forgets the last beat.
    pub(crate) fn stop(&self) {
        self.at.store(NONE, Ordering::Relaxed);
    }

    /// Returns the time since the last beat; `None` if there was none.
    pub(crate) fn age(&self) -> Option<Duration> {
        let at = self.at.load(Ordering::Relaxed);
        let now = self.clock.now.load(Ordering::Relaxed);
        (at != NONE).then(|| Duration::from_micros(now.saturating_sub(at)))
    }
}

#[cfg(test)]
#[path = "pulse_tests.rs"]
mod tests;
