//! Counts of runs per lane and span of time.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Lane, Timestamp};

/// The length of a span of time for which runs are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum StatisticsSpan {
    /// A minute.
    Minute,
    /// An hour.
    Hour,
    /// A day, in UTC.
    Day,
}

impl StatisticsSpan {
    /// All spans, the shortest first.
    pub const ALL: [Self; 3] = [Self::Minute, Self::Hour, Self::Day];

    /// Returns the length.
    #[must_use]
    pub const fn length(self) -> Duration {
        Duration::from_secs(self.seconds())
    }

    /// Returns the length in seconds, as the databases store it.
    #[must_use]
    pub const fn seconds(self) -> u64 {
        match self {
            Self::Minute => 60,
            Self::Hour => 3600,
            Self::Day => 24 * 3600,
        }
    }

    /// Returns the span of a stored length.
    #[must_use]
    pub fn of_seconds(seconds: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|span| i64::try_from(span.seconds()) == Ok(seconds))
    }

    /// Returns the begin of the span in which this time lies.
    #[must_use]
    pub fn begin(self, at: Timestamp) -> Timestamp {
        let length = i64::try_from(self.length().as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(at.as_micros().div_euclid(length).saturating_mul(length))
    }

    /// Returns the longer span into which spans of this length are folded, and the age from which
    /// they are. `None`: they stay.
    #[must_use]
    pub const fn fold(self) -> Option<(Self, Duration)> {
        match self {
            Self::Minute => Some((Self::Hour, Duration::from_secs(2 * 3600))),
            Self::Hour => Some((Self::Day, Duration::from_secs(45 * 24 * 3600))),
            Self::Day => None,
        }
    }
}

/// The counts of the runs of a lane in a span of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunStatistics {
    /// Runs that were started.
    pub started: u64,
    /// Runs that a worker claimed for the first time.
    pub begun: u64,
    /// Runs that succeeded.
    pub succeeded: u64,
    /// Runs that failed.
    pub failed: u64,
    /// Runs that were canceled.
    pub canceled: u64,
    /// Attempts of runs and of steps that failed and were followed by another one.
    pub retries: u64,
    /// The sum over `begun` of the time from the start to the first claim, in microseconds.
    pub waited: u64,
    /// The sum over `durations` of the time from the first claim to the end, in microseconds.
    pub worked: u64,
    /// The times from the first claim to the end, of the runs that a worker ended.
    pub durations: Durations,
}

impl RunStatistics {
    /// Adds the counts of another lane, process or span.
    pub fn add(&mut self, other: &Self) {
        let Self { started, begun, succeeded, failed, canceled, retries, waited, worked, durations } = other;
        for (own, other) in [
            (&mut self.started, started),
            (&mut self.begun, begun),
            (&mut self.succeeded, succeeded),
            (&mut self.failed, failed),
            (&mut self.canceled, canceled),
            (&mut self.retries, retries),
            (&mut self.waited, waited),
            (&mut self.worked, worked),
        ] {
            *own = own.saturating_add(*other);
        }
        self.durations.add(durations);
    }
}

/// How many durations lie in which range. A range ends where the next one begins, at twice as many
/// milliseconds; the first one has the durations of less than a millisecond.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Durations(Vec<u64>);

impl Durations {
    /// The number of ranges. The last one has all durations from 12 days.
    pub const RANGES: usize = 32;

    /// Adds a duration.
    pub fn note(&mut self, duration: Duration) {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let index = (u64::BITS - millis.leading_zeros()) as usize;
        *self.range_mut(index.min(Self::RANGES - 1)) += 1;
    }

    /// Adds the durations of another histogram.
    pub fn add(&mut self, other: &Self) {
        for (index, count) in other.0.iter().enumerate().take(Self::RANGES) {
            let own = self.range_mut(index);
            *own = own.saturating_add(*count);
        }
    }

    /// Returns how many durations were added.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Returns the duration below which this fraction of all durations lies, as a straight line
    /// through its range estimates it; `None` if there are none.
    ///
    /// ```
    /// use std::time::Duration;
    /// use workflow_engine::model::Durations;
    ///
    /// let mut durations = Durations::default();
    /// assert_eq!(durations.quantile(0.5), None);
    /// (0..100).for_each(|_| durations.note(Duration::from_millis(700)));
    /// assert_eq!(durations.quantile(0.5), Some(Duration::from_millis(768)));
    /// ```
    #[must_use]
    pub fn quantile(&self, fraction: f64) -> Option<Duration> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let wanted = fraction.clamp(0.0, 1.0) * count as f64;
        let mut below = 0.0;
        let mut quantile = Duration::ZERO;
        for (index, count) in self.0.iter().enumerate().filter(|(_, count)| **count > 0) {
            let (from, to) = range(index);
            let within = ((wanted - below) / *count as f64).clamp(0.0, 1.0);
            quantile = from + (to - from).mul_f64(within);
            below += *count as f64;
            if below >= wanted {
                break;
            }
        }
        Some(quantile)
    }

    fn range_mut(&mut self, index: usize) -> &mut u64 {
        if self.0.len() <= index {
            self.0.resize(index + 1, 0);
        }
        &mut self.0[index]
    }
}

/// Returns where the range of an index begins and ends.
fn range(index: usize) -> (Duration, Duration) {
    let end = |index: usize| Duration::from_millis(1 << index.min(Durations::RANGES));
    (if index == 0 { Duration::ZERO } else { end(index - 1) }, end(index))
}

/// A row of the statistics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatisticsRow {
    /// The length of its span.
    pub span: StatisticsSpan,
    /// When its span begins.
    pub begins_at: Timestamp,
    /// The process that counted. [`StatisticsRow::ALL_PROCESSES`] in a row that several processes
    /// add to.
    pub process: Uuid,
    /// The lane.
    pub lane: Lane,
    /// The counts.
    pub counts: RunStatistics,
}

impl StatisticsRow {
    /// Stands for the process in a row that is folded, or that counts runs which ended without a
    /// worker.
    pub const ALL_PROCESSES: Uuid = Uuid::nil();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_millis(millis: impl IntoIterator<Item = u64>) -> Durations {
        let mut durations = Durations::default();
        millis.into_iter().for_each(|millis| durations.note(Duration::from_millis(millis)));
        durations
    }

    #[test]
    fn a_duration_lies_in_its_range() {
        for (millis, index) in [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (1023, 10), (1024, 11), (u64::MAX, 31)] {
            let durations = of_millis([millis]);
            assert_eq!(durations.0.iter().position(|count| *count == 1), Some(index), "{millis}");
            let (from, to) = range(index);
            let duration = Duration::from_millis(millis);
            assert!(from <= duration && (duration < to || index == Durations::RANGES - 1), "{millis}");
        }
    }

    #[test]
    fn a_quantile_is_as_exact_as_its_range() {
        let durations = of_millis(1..=1000);
        for (fraction, exact) in [(0.5, 500.0), (0.95, 950.0), (0.99, 990.0)] {
            let found = durations.quantile(fraction).unwrap_or_default().as_secs_f64() * 1000.0;
            assert!((found / exact - 1.0).abs() < 0.1, "{fraction}: {found} instead of {exact}");
        }
        assert_eq!(durations.quantile(0.0), Some(Duration::from_millis(1)));
        assert_eq!(of_millis([0]).quantile(1.0), Some(Duration::from_millis(1)));
        assert!(of_millis([u64::MAX]).quantile(1.0) > Some(Duration::from_secs(24 * 24 * 3600)));
    }

    #[test]
    fn counts_of_two_processes_add_up() {
        let one = RunStatistics { started: 1, worked: 5, durations: of_millis([3]), ..RunStatistics::default() };
        let other = RunStatistics { started: 2, failed: 4, durations: of_millis([3, 900]), ..RunStatistics::default() };
        let (mut sum, mut turned) = (one.clone(), other.clone());
        sum.add(&other);
        turned.add(&one);
        assert_eq!(sum, turned);
        assert_eq!((sum.started, sum.failed, sum.worked, sum.durations.count()), (3, 4, 5, 3));
    }

    #[test]
    fn a_span_begins_at_a_whole_multiple_of_its_length() {
        let at = Timestamp::from_micros(1_800_000_000_123_456);
        assert_eq!(StatisticsSpan::Minute.begin(at).to_string(), "2027-01-15T08:00:00.000Z");
        assert_eq!(StatisticsSpan::Day.begin(at).to_string(), "2027-01-15T00:00:00.000Z");
        assert_eq!(StatisticsSpan::Hour.begin(Timestamp::from_micros(-1)), Timestamp::from_micros(-3_600_000_000));
        assert_eq!(StatisticsSpan::of_seconds(3600), Some(StatisticsSpan::Hour));
        assert_eq!(StatisticsSpan::of_seconds(7), None);
    }
}
