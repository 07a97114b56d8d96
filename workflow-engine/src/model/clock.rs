use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use super::Timestamp;

/// The source of a store's time: the one place at which tests can move time.
///
/// Default: PostgreSQL uses its own clock. SQLite uses the clock of its host, because all of its
/// users run on that host.
#[derive(Clone, Debug, Default)]
pub struct Clock(Source);

#[derive(Clone, Default)]
enum Source {
    /// The database or the host supplies the time.
    #[default]
    Ambient,
    /// Stands still until it is moved.
    Manual(Arc<AtomicI64>),
    /// A function that is called each time.
    Asked(Arc<dyn Fn() -> Timestamp + Send + Sync>),
}

impl Clock {
    /// Creates a clock that stands still at `now` until it is [advanced](Clock::advance). Its
    /// clones move with it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use workflow_engine::model::{Clock, Timestamp};
    ///
    /// let clock = Clock::manual(Timestamp::from_micros(0));
    /// clock.advance(Duration::from_secs(1));
    /// assert_eq!(clock.fixed(), Some(Timestamp::from_micros(1_000_000)));
    /// ```
    #[must_use]
    pub fn manual(now: Timestamp) -> Self {
        Self(Source::Manual(Arc::new(AtomicI64::new(now.as_micros()))))
    }

    /// Creates a clock that calls `now` each time. The times that `now` returns must never
    /// decrease.
    ///
    /// ```
    /// use workflow_engine::model::{Clock, Timestamp};
    ///
    /// let clock = Clock::from_fn(|| Timestamp::from_micros(7));
    /// assert_eq!(clock.fixed(), Some(Timestamp::from_micros(7)));
    /// ```
    #[must_use]
    pub fn from_fn(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Source::Asked(Arc::new(now)))
    }

    /// Moves a manual clock forward. Has no effect on any other clock.
    pub fn advance(&self, by: Duration) {
        if let Source::Manual(micros) = &self.0 {
            micros.fetch_add(i64::try_from(by.as_micros()).unwrap_or(i64::MAX), Ordering::SeqCst);
        }
    }

    /// Moves a manual clock back, as happens when the clock of a host is corrected. Has no effect
    /// on any other clock.
    pub fn set_back(&self, by: Duration) {
        if let Source::Manual(micros) = &self.0 {
            micros.fetch_sub(i64::try_from(by.as_micros()).unwrap_or(i64::MAX), Ordering::SeqCst);
        }
    }

    /// Returns the time of this clock, or `None` if the database or the host supplies the time.
    #[must_use]
    pub fn fixed(&self) -> Option<Timestamp> {
        match &self.0 {
            Source::Ambient => None,
            Source::Manual(micros) => Some(Timestamp::from_micros(micros.load(Ordering::SeqCst))),
            Source::Asked(now) => Some(now()),
        }
    }

    /// Returns the time of this clock, or the host's time if this clock has none.
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
