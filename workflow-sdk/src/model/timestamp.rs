use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// An instant in microseconds since 1970-01-01 UTC: the form in which both databases keep time, so that a value read
/// back is the value that was written.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use workflow_sdk::Timestamp;
///
/// let start = Timestamp::from_micros(1_700_000_000_000_000);
/// let later = start + Duration::from_secs(90);
/// assert_eq!(later.since(start), Duration::from_secs(90));
/// assert_eq!(start.since(later), Duration::ZERO);
/// assert_eq!(Timestamp::from(SystemTime::from(start)), start);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Later than any wake time: the due time of a run that waits for something other than time. The last microsecond
    /// of the year 9999, the largest year that RFC 3339 can write.
    pub const FAR_FUTURE: Self = Self(253_402_300_799_999_999);

    /// From microseconds since 1970-01-01 UTC.
    #[must_use]
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since 1970-01-01 UTC.
    #[must_use]
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// How long ago `earlier` was; zero if it is not earlier.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl std::ops::Add<Duration> for Timestamp {
    type Output = Self;

    /// Stops at [`Timestamp::FAR_FUTURE`] rather than to overflow.
    fn add(self, duration: Duration) -> Self {
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(micros)).min(Self::FAR_FUTURE)
    }
}

impl std::ops::Sub<Duration> for Timestamp {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)))
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let micros = match time.duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_micros()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_micros()).map_or(i64::MIN, |micros| -micros),
        };
        Self(micros).min(Self::FAR_FUTURE)
    }
}

impl From<Timestamp> for SystemTime {
    fn from(timestamp: Timestamp) -> Self {
        let distance = Duration::from_micros(timestamp.0.unsigned_abs());
        if timestamp.0 >= 0 { UNIX_EPOCH + distance } else { UNIX_EPOCH - distance }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Timestamp({}us)", self.0)
    }
}
