//! Durations in queries, in whole seconds.

use std::fmt;
use std::time::Duration;

use super::time::{Age, parse_age};

/// The test of a duration. Durations are whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DurationTest {
    /// `>`: longer than this.
    Longer(Duration),
    /// `>=`: this long or longer.
    AtLeast(Duration),
    /// `<`: shorter than this.
    Shorter(Duration),
    /// `<=`: this long or shorter.
    AtMost(Duration),
    /// `A..B`: as long as the first one or longer, and shorter than the second one.
    Between(Duration, Duration),
}

impl DurationTest {
    pub(super) fn parse(text: &str) -> Option<Self> {
        if let Some((from, below)) = text.split_once("..") {
            return Some(Self::Between(parse_age(from)?, parse_age(below)?));
        }
        // The longer operator first: the shorter one begins it.
        let length = |operator| text.strip_prefix(operator).map(parse_age);
        if let Some(length) = length(">=") {
            return length.map(Self::AtLeast);
        }
        if let Some(length) = length("<=") {
            return length.map(Self::AtMost);
        }
        if let Some(length) = length(">") {
            return length.map(Self::Longer);
        }
        length("<")?.map(Self::Shorter)
    }

    /// Returns the shortest duration that passes the test, and the shortest longer one that does
    /// not any more, to the microsecond.
    #[must_use]
    pub fn bounds(self) -> (Option<Duration>, Option<Duration>) {
        let next = |length: Duration| length + Duration::from_micros(1);
        match self {
            Self::Longer(length) => (Some(next(length)), None),
            Self::AtLeast(length) => (Some(length), None),
            Self::Shorter(length) => (None, Some(length)),
            Self::AtMost(length) => (None, Some(next(length))),
            Self::Between(from, below) => (Some(from), Some(below)),
        }
    }
}

impl fmt::Display for DurationTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Longer(length) => write!(f, ">{}", Age(*length)),
            Self::AtLeast(length) => write!(f, ">={}", Age(*length)),
            Self::Shorter(length) => write!(f, "<{}", Age(*length)),
            Self::AtMost(length) => write!(f, "<={}", Age(*length)),
            Self::Between(from, below) => write!(f, "{}..{}", Age(*from), Age(*below)),
        }
    }
}
