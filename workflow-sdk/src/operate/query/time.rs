//! Times in queries: ages, days and times of RFC 3339 in UTC.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use workflow_engine::model::Timestamp;

use crate::operate::{OperateError, OperateErrorCode};

/// A point in time as a query names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Moment {
    /// So long before the list is read. Whole seconds.
    Before(Duration),
    /// A time. Range: the years 0 to 9999.
    At(Timestamp),
}

/// The test of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TimeTest {
    /// `>`: later than this.
    After(Moment),
    /// `>=`: at this time or later.
    Since(Moment),
    /// `<`: before this.
    Before(Moment),
    /// `<=`: at this time or before it.
    Until(Moment),
    /// `A..B`: at the first time or later, and before the second one.
    Between(Moment, Moment),
}

const UNITS: [(char, u64); 5] = [('w', 604_800), ('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];

/// The longest age, which is longer than there are computers.
const MAX_AGE_SECONDS: u64 = 100 * 366 * 86_400;

const MICROS_PER_SECOND: i64 = 1_000_000;
const SECONDS_PER_DAY: i64 = 86_400;

impl Moment {
    /// Returns the time that is meant if a list is read at `now`.
    #[must_use]
    pub fn at(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Before(age) => now - age,
            Self::At(time) => time,
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        match text {
            "now" => Some(Self::Before(Duration::ZERO)),
            _ => match text.strip_prefix('-') {
                Some(age) => parse_age(age).map(Self::Before),
                None => parse_time(text).map(Self::At),
            },
        }
    }
}

impl FromStr for Moment {
    type Err = OperateError;

    /// Reads `now`, an age such as `-15m`, a day such as `2026-11-01`, or a time of RFC 3339 in
    /// UTC.
    fn from_str(text: &str) -> Result<Self, OperateError> {
        Self::parse(text).ok_or_else(|| {
            let message = format!("{text:?} is no time");
            OperateError::new(OperateErrorCode::BadInput, message, "write -15m, -1h, 2026-11-01 or 2026-11-01T08:00Z")
        })
    }
}

/// As a text that [`Moment::from_str`] reads.
impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|error: OperateError| D::Error::custom(error))
    }
}

impl TimeTest {
    pub(super) fn parse(text: &str) -> Option<Self> {
        if let Some((from, before)) = text.split_once("..") {
            return Some(Self::Between(Moment::parse(from)?, Moment::parse(before)?));
        }
        // The longer operator first: the shorter one begins it.
        let moment = |operator| text.strip_prefix(operator).map(Moment::parse);
        if let Some(moment) = moment(">=") {
            return moment.map(Self::Since);
        }
        if let Some(moment) = moment("<=") {
            return moment.map(Self::Until);
        }
        if let Some(moment) = moment(">") {
            return moment.map(Self::After);
        }
        moment("<")?.map(Self::Before)
    }

    /// Returns the earliest time that passes the test, and the first one that does not any more, if
    /// a list is read at `now`.
    #[must_use]
    pub fn bounds(self, now: Timestamp) -> (Option<Timestamp>, Option<Timestamp>) {
        let next = |moment: Moment| Timestamp::from_micros(moment.at(now).as_micros().saturating_add(1));
        match self {
            Self::After(moment) => (Some(next(moment)), None),
            Self::Since(moment) => (Some(moment.at(now)), None),
            Self::Before(moment) => (None, Some(moment.at(now))),
            Self::Until(moment) => (None, Some(next(moment))),
            Self::Between(from, before) => (Some(from.at(now)), Some(before.at(now))),
        }
    }
}

/// Reads `15m`.
pub(super) fn parse_age(text: &str) -> Option<Duration> {
    let unit = text.chars().next_back()?;
    let (_, seconds) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
    let seconds = number(&text[..text.len() - unit.len_utf8()])?.checked_mul(seconds)?;
    (seconds <= MAX_AGE_SECONDS).then(|| Duration::from_secs(seconds))
}

/// Reads `2026-11-01`, `2026-11-01T08:00Z` or `2026-11-01T08:00:30.5Z`.
fn parse_time(text: &str) -> Option<Timestamp> {
    let (date, time) = match text.split_once(['T', 't']) {
        Some((date, time)) => (date, Some(time.strip_suffix(['Z', 'z'])?)),
        None => (text, None),
    };
    let days = parse_date(date)?;
    let micros = time.map_or(Some(0), parse_time_of_day)?;
    Some(Timestamp::from_micros(days * SECONDS_PER_DAY * MICROS_PER_SECOND + micros))
}

/// Reads `2026-11-01` as the days since 1970-01-01.
fn parse_date(text: &str) -> Option<i64> {
    let mut parts = text.split('-');
    let (year, month, day) = (digits(parts.next()?, 4)?, digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if parts.next().is_some() || !(1..=length).contains(&day) {
        return None;
    }
    // Years are counted from March, so that the leap day comes last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let in_years = 365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    Some(in_years + (153 * month + 2) / 5 + day - 1 - 719_468)
}

/// Reads `08:00`, `08:00:30` or `08:00:30.5` as microseconds since midnight.
fn parse_time_of_day(text: &str) -> Option<i64> {
    let mut parts = text.split(':');
    let (hour, minute) = (digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    let (second, fraction) = match parts.next() {
        Some(part) => part.split_once('.').map_or((part, None), |(second, fraction)| (second, Some(fraction))),
        None => ("00", None),
    };
    let second = digits(second, 2)?;
    if parts.next().is_some() || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let micros = match fraction {
        Some(fraction) if (1..=6).contains(&fraction.len()) => digits(&format!("{fraction:0<6}"), 6)?,
        Some(_) => return None,
        None => 0,
    };
    Some(((hour * 60 + minute) * 60 + second) * MICROS_PER_SECOND + micros)
}

fn digits(text: &str, count: usize) -> Option<i64> {
    if text.len() == count { number(text)?.try_into().ok() } else { None }
}

fn number(text: &str) -> Option<u64> {
    if text.chars().all(|c| c.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// Writes a length of time in its largest unit, as [`parse_age`] reads it.
pub(super) struct Age(pub(super) Duration);

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let unit = UNITS.into_iter().find(|(_, unit)| seconds != 0 && seconds.is_multiple_of(*unit));
        let (unit, length) = unit.unwrap_or(('s', 1));
        write!(f, "{}{unit}", seconds / length)
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Before(age) if age.is_zero() => f.write_str("now"),
            Self::Before(age) => write!(f, "-{}", Age(*age)),
            Self::At(time) => {
                // The text of a timestamp ends with milliseconds.
                let text = time.to_string();
                let micros = time.as_micros().rem_euclid(SECONDS_PER_DAY * MICROS_PER_SECOND);
                match (micros, micros % MICROS_PER_SECOND) {
                    (0, _) => f.write_str(text.split('T').next().unwrap_or_default()),
                    (_, 0) => write!(f, "{}Z", text.split('.').next().unwrap_or_default()),
                    (_, fraction) => write!(f, "{}.{fraction:06}Z", text.split('.').next().unwrap_or_default()),
                }
            }
        }
    }
}

impl fmt::Display for TimeTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::After(moment) => write!(f, ">{moment}"),
            Self::Since(moment) => write!(f, ">={moment}"),
            Self::Before(moment) => write!(f, "<{moment}"),
            Self::Until(moment) => write!(f, "<={moment}"),
            Self::Between(from, before) => write!(f, "{from}..{before}"),
        }
    }
}
