use std::time::Duration;

use super::Timestamp;

/// An instant that an application asks for. A delay is added to the database's clock at the commit, so that a skewed
/// clock of the application does not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum StartTime {
    /// At once.
    #[default]
    Now,
    /// So long after the commit.
    After(Duration),
    /// At this instant.
    At(Timestamp),
}

impl StartTime {
    /// The instant, where `now` is the time of the commit.
    #[must_use]
    pub fn resolve(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Now => now,
            Self::After(delay) => now + delay,
            Self::At(at) => at,
        }
    }
}
