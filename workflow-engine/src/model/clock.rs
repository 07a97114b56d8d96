use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use super::Timestamp;

/// Where a store takes the time from: the one place at which tests move it.
///
/// By default PostgreSQL's own clock decides on PostgreSQL and the host's on SQLite, whose users all share one host.
#[derive(Clone, Debug, Default)]
pub struct Clock(Source);

#[derive(Clone, Default)]
enum Source {
    /// The database or host decides.
    #[default]
    Ambient,
    /// Stands still until it is moved.
    Manual(Arc<AtomicI64>),
    /// Asked each time.
    Asked(Arc<dyn Fn() -> Timestamp + Send + Sync>),
}

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
        Self(Source::Manual(Arc::new(AtomicI64::new(now.as_micros()))))
    }

    /// A clock that says what `now` does each time, which must never go back.
    ///
    /// ```
    /// use workflow_sdk::{Timestamp, engine::Clock};
    ///
    /// let clock = Clock::from_fn(|| Timestamp::from_micros(7));
    /// assert_eq!(clock.fixed(), Some(Timestamp::from_micros(7)));
    /// ```
    #[must_use]
    pub fn from_fn(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Source::Asked(Arc::new(now)))
    }

    /// Moves a manual clock forward. Without effect on another.
    pub fn advance(&self, by: Duration) {
        if let Source::Manual(micros) = &self.0 {
            micros.fetch_add(i64::try_from(by.as_micros()).unwrap_or(i64::MAX), Ordering::SeqCst);
        }
    }

    /// Moves a manual clock back, as the clock of a host is set right. Without effect on another.
    pub fn set_back(&self, by: Duration) {
        if let Source::Manual(micros) = &self.0 {
            micros.fetch_sub(i64::try_from(by.as_micros()).unwrap_or(i64::MAX), Ordering::SeqCst);
        }
    }

    /// The time of this clock; `None` where the database or host decides.
    #[must_use]
    pub fn fixed(&self) -> Option<Timestamp> {
        match &self.0 {
            Source::Ambient => None,
            Source::Manual(micros) => Some(Timestamp::from_micros(micros.load(Ordering::SeqCst))),
            Source::Asked(now) => Some(now()),
        }
    }

    /// The time of this clock, or the host's.
    #[must_use]
    pub fn host_now(&self) -> Timestamp {
        self.fixed().unwrap_or_else(|| SystemTime::now().into())
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ambient => f.write_str("Ambient"),
            Self::Manual(micros) => f.debug_tuple("Manual").field(micros).finish(),
            Self::Asked(_) => f.write_str("Asked"),
        }
    }
}
