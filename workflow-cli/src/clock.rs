//! Times as people read and write them.

use std::time::Duration;

use jiff::SignedDuration;
use jiff::tz::TimeZone;
use workflow_sdk::Timestamp;

/// Shows times in a zone, relative to now.
#[derive(Debug)]
pub(crate) struct Clock {
    zone: TimeZone,
    is_full: bool,
}

impl Clock {
    pub(crate) fn new(utc: bool, is_full: bool) -> Self {
        Self { zone: if utc { TimeZone::UTC } else { TimeZone::system() }, is_full }
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_micros(jiff::Timestamp::now().as_microsecond())
    }

    /// Returns a time: without the day if it is of today, without the year if it is of this year.
    pub(crate) fn at(&self, time: Timestamp) -> String {
        let Ok(instant) = jiff::Timestamp::from_microsecond(time.as_micros()) else { return time.to_string() };
        let in_zone = |time: jiff::Timestamp| time.to_zoned(self.zone.clone());
        let (zoned, now) = (in_zone(instant), in_zone(jiff::Timestamp::now()));
        if self.is_full {
            return zoned.strftime("%Y-%m-%dT%H:%M:%S%.6f%:z").to_string();
        }
        let form = match (zoned.date() == now.date(), zoned.year() == now.year()) {
            (true, _) => "%H:%M:%S",
            (false, true) => "%-d %b %H:%M",
            (false, false) => "%-d %b %Y",
        };
        zoned.strftime(form).to_string()
    }

    /// Returns how long ago a time was, or in what time it comes; in full, the time itself.
    pub(crate) fn relative(&self, time: Timestamp) -> String {
        if self.is_full {
            return self.at(time);
        }
        let now = self.now();
        if time > now { format!("in {}", span(time.since(now))) } else { format!("{} ago", span(now.since(time))) }
    }
}

/// Returns a duration in one or two units.
pub(crate) fn span(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let two = |first: u64, unit: &str, second: u64, smaller: &str| match second {
        0 => format!("{first} {unit}"),
        _ => format!("{first} {unit} {second} {smaller}"),
    };
    match seconds {
        0 => format!("{} ms", duration.as_millis()),
        1..10 => format!("{:.1} s", duration.as_secs_f64()),
        10..60 => format!("{seconds} s"),
        60..3600 => two(seconds / 60, "min", seconds % 60, "s"),
        3600..86_400 => two(seconds / 3600, "h", seconds % 3600 / 60, "min"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3600, "h"),
    }
}

/// Returns a duration to the millisecond, as flows write it.
pub(crate) fn exact(duration: Duration) -> String {
    let millis = duration.as_millis();
    let units = [(millis / 86_400_000, "d"), (millis / 3_600_000 % 24, "h"), (millis / 60_000 % 60, "m")];
    let units = units.into_iter().chain([(millis / 1000 % 60, "s"), (millis % 1000, "ms")]);
    let text: String =
        units.filter(|(number, _)| *number > 0).map(|(number, unit)| format!("{number}{unit}")).collect();
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// Reads a duration in days, hours, minutes, seconds and milliseconds.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    const HELP: &str = "write a duration as 500ms, 30s, 1h 30m or 2d";
    let parse = || -> Option<Duration> {
        // Days are no fixed time elsewhere, but here nothing depends on a zone.
        let (days, rest) = match text.split_once('d') {
            Some((days, rest)) => (days.trim().parse::<u64>().ok()?, rest.trim()),
            None => (0, text),
        };
        let rest = if rest.is_empty() && text.contains('d') { SignedDuration::ZERO } else { rest.parse().ok()? };
        let rest = Duration::try_from(rest).ok()?;
        Duration::from_secs(days.checked_mul(86_400)?).checked_add(rest)
    };
    parse().ok_or_else(|| HELP.to_owned())
}

/// Reads a time with its offset from UTC, in the form of RFC 3339. The seconds may be left out.
pub(crate) fn parse_instant(text: &str) -> Result<Timestamp, String> {
    const HELP: &str = "write a time with its offset, as 2026-12-01T08:00Z or 2026-12-01T08:00+01:00";
    let instant: jiff::Timestamp = text.parse().map_err(|_| HELP.to_owned())?;
    Ok(Timestamp::from_micros(instant.as_microsecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_read_with_their_offset() {
        for (text, expected) in [
            ("1970-01-01T00:00Z", Some(0)),
            ("1970-01-01T01:00:00.5+01:00", Some(500_000)),
            ("1970-01-02T00:00:00Z", Some(86_400_000_000)),
            ("1970-01-01T00:00", None),
            ("1970-01-01", None),
            ("tomorrow", None),
            ("", None),
        ] {
            assert_eq!(parse_instant(text).map(Timestamp::as_micros).ok(), expected, "{text:?}");
        }
    }

    #[test]
    fn durations_are_read() {
        let seconds = |text: &str| parse_duration(text).map(|duration| duration.as_secs_f64()).ok();
        for (text, expected) in [
            ("500ms", Some(0.5)),
            ("30s", Some(30.0)),
            ("0s", Some(0.0)),
            ("1h 30m", Some(5400.0)),
            ("2d", Some(172_800.0)),
            ("1d 2h", Some(93_600.0)),
            ("365d", Some(31_536_000.0)),
            ("", None),
            ("30", None),
            ("-3s", None),
            ("soon", None),
            ("99999999999999999999d", None),
        ] {
            assert_eq!(seconds(text), expected, "{text:?}");
        }
    }

    #[test]
    fn durations_are_shown_in_two_units() {
        for (millis, expected) in [
            (0, "0 ms"),
            (950, "950 ms"),
            (1900, "1.9 s"),
            (42_000, "42 s"),
            (60_000, "1 min"),
            (200_000, "3 min 20 s"),
            (3_600_000, "1 h"),
            (93_600_000, "1 d 2 h"),
        ] {
            assert_eq!(span(Duration::from_millis(millis)), expected);
        }
        for (millis, expected) in [(0, "0s"), (1900, "1s900ms"), (93_605_000, "1d2h5s"), (86_400_000, "1d")] {
            assert_eq!(exact(Duration::from_millis(millis)), expected);
        }
    }
}
