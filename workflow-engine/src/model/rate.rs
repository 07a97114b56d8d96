use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Timestamp;

/// How many runs of a queue, or behind each of its gates, may begin in a period; or how many bodies
/// of steps under each key of a [limit](crate::model::LimitRule).
///
/// Begins are spaced evenly: with `Rate::per_minute(60)` one run begins per second. A
/// [burst](Rate::burst) of `b` lets that many begin at once after a rest, so any period sees at
/// most `runs + b - 1` begins. Begins count and not starts, so no flood follows after a time
/// without workers. The algorithm is the generic cell rate algorithm (ITU-T I.371).
///
/// Of a run only the first claim counts: a run that goes on after a sleep, a signal or the death of
/// its worker takes nothing of the rate. Of a step each attempt counts, because each one calls the
/// service anew.
///
/// ```
/// use std::time::Duration;
/// use workflow_engine::model::Rate;
///
/// let of_provider = Rate::per_minute(600).burst(20);
/// assert_eq!(of_provider.to_string(), "600 per 60 s, burst 20");
/// assert_eq!(Rate::per(Duration::from_secs(3600), 5).to_string(), "5 per 3600 s");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Rate {
    runs: u32,
    /// In microseconds.
    period: u64,
    burst: u32,
}

/// The longest period of a rate: 366 days.
const LONGEST_PERIOD: Duration = Duration::from_secs(366 * 86_400);

/// A rate that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidRate(String);

impl fmt::Display for InvalidRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidRate {}

impl Rate {
    /// Returns a rate of at most this number of begins per second. See [`Rate::per`].
    #[must_use]
    pub const fn per_second(runs: u32) -> Self {
        Self::per(Duration::from_secs(1), runs)
    }

    /// Returns a rate of at most this number of begins per minute. See [`Rate::per`].
    #[must_use]
    pub const fn per_minute(runs: u32) -> Self {
        Self::per(Duration::from_secs(60), runs)
    }

    /// Returns a rate of at most this number of begins in this period. Range: 1 to 1,000,000 begins
    /// per second, and a period of at least 1 ms and at most 366 days; queues and limits refuse
    /// others. To let nothing begin, limit the concurrency to 0.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "a period that is cut is above the longest one")]
    pub const fn per(period: Duration, runs: u32) -> Self {
        let micros = if period.as_secs() > LONGEST_PERIOD.as_secs() { u64::MAX } else { period.as_micros() as u64 };
        Self { runs, period: micros, burst: 1 }
    }

    /// Sets how many runs may begin at once after a rest. Default: 1. Range: at least 1.
    #[must_use]
    pub const fn burst(self, runs: u32) -> Self {
        Self { burst: runs, ..self }
    }

    /// Returns the number of begins, the period and the burst.
    #[doc(hidden)]
    #[must_use]
    pub const fn parts(self) -> (u32, Duration, u32) {
        (self.runs, Duration::from_micros(self.period), self.burst)
    }

    /// Checks the ranges.
    ///
    /// # Errors
    /// [`InvalidRate`], which says what is out of range.
    pub fn check(self) -> Result<(), InvalidRate> {
        let invalid = |why: String| Err(InvalidRate(format!("the rate of {self} cannot be used: {why}")));
        match self {
            Self { runs: 0, .. } => invalid("it lets nothing begin; limit the concurrency to 0 to do that".into()),
            Self { burst: 0, .. } => invalid("its burst must be at least 1".into()),
            Self { period, .. } if !(1_000..=LONGEST_PERIOD.as_micros()).contains(&u128::from(period)) => {
                invalid("its period must be 1 ms to 366 days".into())
            }
            Self { runs, period, .. } if u64::from(runs) > period => {
                invalid("it must be at most 1,000,000 per second".into())
            }
            _ => Ok(()),
        }
    }

    /// Returns how many runs may begin now, if the rate is used up until then.
    #[doc(hidden)]
    #[must_use]
    pub fn free(self, used_until: Timestamp, now: Timestamp) -> u32 {
        let ahead = u64::try_from(used_until.as_micros().saturating_sub(now.as_micros())).unwrap_or(0);
        let used = ahead.div_ceil(self.interval());
        self.burst.saturating_sub(u32::try_from(used).unwrap_or(u32::MAX))
    }

    /// Returns until when the rate is used up after this number of runs has begun now.
    #[doc(hidden)]
    #[must_use]
    pub fn used_after(self, used_until: Timestamp, now: Timestamp, runs: u32) -> Timestamp {
        let micros = self.interval().saturating_mul(u64::from(runs));
        used_until.max(now) + Duration::from_micros(micros)
    }

    /// Returns when the next run may begin.
    #[doc(hidden)]
    #[must_use]
    pub fn next_at(self, used_until: Timestamp) -> Timestamp {
        let burst = self.interval().saturating_mul(u64::from(self.burst.saturating_sub(1)));
        let burst = i64::try_from(burst).unwrap_or(i64::MAX);
        Timestamp::from_micros(used_until.as_micros().saturating_sub(burst))
    }

    /// Returns until when the rate counts as used up, if another rate, or a clock that was set
    /// back, has left this time: at most as if the whole burst had begun now.
    #[doc(hidden)]
    #[must_use]
    pub fn used_at_most(self, used_until: Timestamp, now: Timestamp) -> Timestamp {
        used_until.min(self.used_after(now, now, self.burst))
    }

    /// Returns the time between two begins, in microseconds.
    fn interval(self) -> u64 {
        self.period.div_ceil(u64::from(self.runs.max(1))).max(1)
    }
}

/// Writes `600 per 60 s, burst 20`.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} per ", self.runs)?;
        match self.period {
            u64::MAX => f.write_str("more than 366 days")?,
            period if period % 1_000_000 == 0 => write!(f, "{} s", period / 1_000_000)?,
            period => write!(f, "{:?}", Duration::from_micros(period))?,
        }
        if self.burst == 1 { Ok(()) } else { write!(f, ", burst {}", self.burst) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    /// Begins as many runs as the rate allows at each of these times. Returns when each began.
    fn begins(rate: Rate, times: impl Iterator<Item = i64>) -> Vec<i64> {
        let (mut used_until, mut begins) = (at(0), Vec::new());
        for now in times {
            let free = rate.free(used_until, at(now));
            if free == 0 {
                assert!(rate.next_at(used_until) > at(now), "it says when the next one may begin");
            }
            used_until = if free > 0 { rate.used_after(used_until, at(now), free) } else { used_until };
            begins.extend((0..free).map(|_| now));
        }
        begins
    }

    #[test]
    fn no_period_sees_more_begins_than_the_rate_and_its_burst() {
        let mut random = fastrand::Rng::with_seed(7);
        for (runs, burst) in [(1, 1), (5, 1), (5, 3), (60, 10), (600, 600)] {
            let rate = Rate::per_minute(runs).burst(burst);
            // Claims at any times, with a rest of half a day.
            let mut now = 1_000_000_000;
            let times: Vec<i64> = (0..3000)
                .map(|number| {
                    now += if number == 1500 { 43_200_000_000 } else { random.i64(0..500_000) };
                    now
                })
                .collect();
            let begins = begins(rate, times.into_iter());
            let most = (0..begins.len())
                .map(|first| begins[first..].iter().take_while(|at| **at < begins[first] + 60_000_000).count())
                .max();
            assert!(most.is_some_and(|most| most <= (runs + burst - 1) as usize), "{rate}: {most:?}");
            assert!(begins.len() > 5, "{rate}: {begins:?}");
        }
    }

    #[test]
    fn begins_are_spaced_evenly_and_a_burst_comes_after_a_rest() {
        let rate = Rate::per_second(10).burst(3);
        let used = rate.used_after(at(0), at(1_000_000), 3);
        assert_eq!((rate.free(at(0), at(1_000_000)), rate.free(used, at(1_000_000))), (3, 0));
        assert_eq!(rate.next_at(used), at(1_100_000));
        assert_eq!(
            [1_099_999, 1_100_000, 1_199_999, 1_200_000, 9_000_000].map(|now| rate.free(used, at(now))),
            [0, 1, 1, 2, 3]
        );
    }

    #[test]
    fn a_rate_out_of_range_is_refused_with_the_reason() {
        let day = Duration::from_secs(86_400);
        for (rate, says) in [
            (Rate::per_second(0), "0 per 1 s cannot be used: it lets nothing begin"),
            (Rate::per_minute(5).burst(0), "5 per 60 s, burst 0 cannot be used: its burst must be at least 1"),
            (Rate::per(Duration::from_micros(999), 1), "its period must be 1 ms to 366 days"),
            (Rate::per(367 * day, 1), "its period must be 1 ms to 366 days"),
            (Rate::per(Duration::MAX, 1), "1 per more than 366 days cannot be used"),
            (Rate::per_second(1_000_001), "at most 1,000,000 per second"),
        ] {
            let refused = rate.check().unwrap_err().to_string();
            assert!(refused.contains(says), "{refused}");
        }
        for rate in [Rate::per_second(1_000_000), Rate::per(366 * day, 1).burst(u32::MAX)] {
            assert_eq!(rate.check(), Ok(()), "{rate}");
        }
    }
}
