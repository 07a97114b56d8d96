use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// A time in microseconds since 1970-01-01 UTC. Both databases store times in this form, so a value
/// that is read back equals the value that was written.
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
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The due time of a run that waits for something other than time; later than any wake time. It
    /// is the last microsecond of the year 9999, the last year that RFC 3339 can express.
    pub const FAR_FUTURE: Self = Self(253_402_300_799_999_999);

    /// Creates a timestamp from microseconds since 1970-01-01 UTC.
    #[must_use]
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Returns the microseconds since 1970-01-01 UTC.
    #[must_use]
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Returns the time from `earlier` to this timestamp, or zero if `earlier` is not earlier.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl std::ops::Add<Duration> for Timestamp {
    type Output = Self;

    /// Adds the duration, up to [`Timestamp::FAR_FUTURE`]. Does not overflow.
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

/// Writes the time as RFC 3339 does, in UTC and truncated to milliseconds:
/// `2027-01-15T08:00:00.123Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MICROS_PER_DAY: i64 = 86_400_000_000;
        let (days, micros) = (self.0.div_euclid(MICROS_PER_DAY), self.0.rem_euclid(MICROS_PER_DAY));
        let (year, month, day) = civil(days);
        let (seconds, millis) = (micros / 1_000_000, micros % 1_000_000 / 1000);
        let (hour, minute, second) = (seconds / 3600, seconds % 3600 / 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
    }
}

/// Returns the year, month and day of the date `days` after 1970-01-01. Years are counted from
/// March, so that the leap day comes last, in eras of 400 years, after which the calendar repeats.
fn civil(days: i64) -> (i64, i64, i64) {
    const DAYS_PER_ERA: i64 = 146_097;
    let days = days.saturating_add(719_468);
    let (era, day) = (days.div_euclid(DAYS_PER_ERA), days.rem_euclid(DAYS_PER_ERA));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day_of_month = day - (153 * month + 2) / 5 + 1;
    let january_or_february = month >= 10;
    let month = if january_or_february { month - 9 } else { month + 3 };
    (era * 400 + year + i64::from(january_or_february), month, day_of_month)
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Timestamp({}us)", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Timestamp;

    #[test]
    fn a_timestamp_reads_as_rfc_3339() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (951_782_399_000_000, "2000-02-28T23:59:59.000Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00.000Z"),
            (1_800_000_000_123_456, "2027-01-15T08:00:00.123Z"),
            (4_107_542_400_000_000, "2100-03-01T00:00:00.000Z"),
            (Timestamp::FAR_FUTURE.as_micros(), "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(Timestamp::from_micros(micros).to_string(), text);
        }
    }
}
