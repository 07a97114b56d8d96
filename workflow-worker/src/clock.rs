use std::sync::atomic::{AtomicI64, Ordering};

use tokio::time::Instant;
use workflow_sdk::Timestamp;

/// The database's clock, as this process knows it.
///
/// The database returns its time with each claim, and the monotonic clock of the host counts on
/// from there. So a worker whose wall clock is wrong works correctly. The clock is behind the
/// database's clock by the time that the last answer took. It has no meaning before the first
/// answer. Only drives use it, and code that waits for a time which the database has just returned.
#[derive(Debug)]
pub(crate) struct DatabaseClock {
    origin: Instant,
    /// Database time at `origin`, in microseconds.
    at_origin: AtomicI64,
}

impl DatabaseClock {
    /// Returns a clock that is not set yet.
    pub(crate) fn unread() -> Self {
        Self { origin: Instant::now(), at_origin: AtomicI64::new(0) }
    }

    /// Sets the clock to the time that the database has just returned.
    pub(crate) fn set(&self, now: Timestamp) {
        self.set_at(Instant::now(), now);
    }

    /// Sets the clock by the time that the database said at this instant.
    pub(crate) fn set_at(&self, instant: Instant, said: Timestamp) {
        self.at_origin.store(said.as_micros() - self.since_origin(instant), Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.at(Instant::now())
    }

    /// Returns the database's time at this instant of the host's clock.
    pub(crate) fn at(&self, instant: Instant) -> Timestamp {
        Timestamp::from_micros(self.at_origin.load(Ordering::Relaxed) + self.since_origin(instant))
    }

    fn since_origin(&self, instant: Instant) -> i64 {
        i64::try_from(instant.saturating_duration_since(self.origin).as_micros()).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_old_answer_does_not_set_the_clock_back() {
        let clock = DatabaseClock::unread();
        let answered = Instant::now() + Duration::from_secs(10);
        let said = Timestamp::from_micros(1_700_000_000_000_000);
        clock.set_at(answered, said);
        assert_eq!(clock.at(answered + Duration::from_secs(3600)), said + Duration::from_secs(3600));
    }
}
