//! Times that were measured, in order.

use std::time::Duration;

/// At least one time, sorted.
#[derive(Debug)]
pub(crate) struct Samples(Vec<Duration>);

impl Samples {
    /// Sorts them.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn new(mut times: Vec<Duration>) -> Result<Self, &'static str> {
        times.sort_unstable();
        if times.is_empty() { Err("nothing was measured: every size is to be 1 or more") } else { Ok(Self(times)) }
    }

    /// The smallest time that this share (0 to 1) of all times does not exceed.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        let rank = (self.0.len() as f64 * share).ceil() as usize;
        self.0[rank.clamp(1, self.0.len()) - 1]
    }

    pub(crate) fn median(&self) -> Duration {
        self.quantile(0.5)
    }

    /// In milliseconds.
    pub(crate) fn p50_ms(&self) -> f64 {
        self.median().as_secs_f64() * 1e3
    }

    /// In milliseconds.
    pub(crate) fn p99_ms(&self) -> f64 {
        self.quantile(0.99).as_secs_f64() * 1e3
    }
}
