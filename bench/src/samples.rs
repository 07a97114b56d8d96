//! Measured times and their percentiles.

use std::time::Duration;

/// One or more measured times, sorted.
#[derive(Debug)]
pub(crate) struct Samples(Vec<Duration>);

impl Samples {
    /// Sorts `times`.
    ///
    /// # Errors
    /// An error message if `times` is empty.
    pub(crate) fn new(mut times: Vec<Duration>) -> Result<Self, &'static str> {
        times.sort_unstable();
        if times.is_empty() { Err("nothing was measured: every size must be at least 1") } else { Ok(Self(times)) }
    }

    /// Returns the smallest time that at least `share` (0 to 1) of all times do not exceed.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        let rank = (self.0.len() as f64 * share).ceil() as usize;
        self.0[rank.clamp(1, self.0.len()) - 1]
    }

    pub(crate) fn median(&self) -> Duration {
        self.quantile(0.5)
    }

    /// Returns the median in milliseconds.
    pub(crate) fn p50_ms(&self) -> f64 {
        self.median().as_secs_f64() * 1e3
    }

    /// Returns the 95th percentile in milliseconds.
    pub(crate) fn p95_ms(&self) -> f64 {
        self.quantile(0.95).as_secs_f64() * 1e3
    }

    /// Returns the 99th percentile in milliseconds.
    pub(crate) fn p99_ms(&self) -> f64 {
        self.quantile(0.99).as_secs_f64() * 1e3
    }
}
