use std::time::Duration;

use super::Timestamp;

/// The time at which an application wants something to happen. A delay is added to the database's
/// clock at the commit, so a skewed clock of the application does not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum StartTime {
    /// At the commit.
    #[default]
    Now,
    /// After this delay, measured from the commit.
    After(Duration),
    /// At this time.
    At(Timestamp),
}

impl StartTime {
    /// Returns the time that is meant, where `now` is the time of the commit.
    #[must_use]
    pub fn resolve(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Now => now,
            Self::After(delay) => now + delay,
            Self::At(at) => at,
        }
    }
}
