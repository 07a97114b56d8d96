use std::sync::atomic::{AtomicI64, Ordering};

use tokio::time::Instant;
use workflow_sdk::Timestamp;

/// The database's clock, as this process knows it: read with each claim, carried on by the host's monotonic clock. So a
/// worker whose wall clock is wrong works like any other. It is behind the database's by the way of the last reading. Nobody needs it
/// before the first claim: what asks for it is a drive, or waits for the time that the database has just said.
#[derive(Debug)]
pub(crate) struct DatabaseClock {
    origin: Instant,
    /// Database time at `origin`, in microseconds.
    at_origin: AtomicI64,
}

impl DatabaseClock {
    /// One that has not been read yet.
    pub(crate) fn unread() -> Self {
        Self { origin: Instant::now(), at_origin: AtomicI64::new(0) }
    }

    /// The database has just said that it is `now`.
    pub(crate) fn set(&self, now: Timestamp) {
        self.at_origin.store(now.as_micros() - self.since_origin(Instant::now()), Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.at(Instant::now())
    }

    /// What it said, or says, at this instant of the host's clock.
    pub(crate) fn at(&self, instant: Instant) -> Timestamp {
        Timestamp::from_micros(self.at_origin.load(Ordering::Relaxed) + self.since_origin(instant))
    }

    fn since_origin(&self, instant: Instant) -> i64 {
        i64::try_from(instant.saturating_duration_since(self.origin).as_micros()).unwrap_or(i64::MAX)
    }
}
