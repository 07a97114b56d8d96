use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use super::Timestamp;

/// Where a backend takes the time from: the one place at which tests move it.
///
/// By default PostgreSQL's own clock decides on PostgreSQL and the host's on SQLite, whose users all share one host.
#[derive(Clone, Debug, Default)]
pub struct Clock(Option<Arc<AtomicI64>>);

impl Clock {
    /// A clock that stands still at `now` until it is [advanced](Clock::advance). Its clones move with it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use workflow_sdk::{Timestamp, engine::Clock};
    ///
    /// let clock = Clock::manual(Timestamp::from_micros(0));
    /// clock.advance(Duration::from_secs(1));
    /// assert_eq!(clock.fixed(), Some(Timestamp::from_micros(1_000_000)));
    /// ```
    #[must_use]
    pub fn manual(now: Timestamp) -> Self {
        Self(Some(Arc::new(AtomicI64::new(now.as_micros()))))
    }

    /// Moves a manual clock forward. Without effect on another.
    pub fn advance(&self, by: Duration) {
        if let Some(micros) = &self.0 {
            micros.fetch_add(i64::try_from(by.as_micros()).unwrap_or(i64::MAX), Ordering::SeqCst);
        }
    }

    /// Moves a manual clock back, as the clock of a host is set right. Without effect on another.
    pub fn set_back(&self, by: Duration) {
        if let Some(micros) = &self.0 {
            micros.fetch_sub(i64::try_from(by.as_micros()).unwrap_or(i64::MAX), Ordering::SeqCst);
        }
    }

    /// The time of a manual clock; `None` where the database or host decides.
    #[must_use]
    pub fn fixed(&self) -> Option<Timestamp> {
        self.0.as_ref().map(|micros| Timestamp::from_micros(micros.load(Ordering::SeqCst)))
    }

    /// The time of a manual clock, or the host's.
    #[must_use]
    pub fn host_now(&self) -> Timestamp {
        self.fixed().unwrap_or_else(|| SystemTime::now().into())
    }
}
