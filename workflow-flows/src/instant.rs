use jiff::civil::Time;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

/// Reads the time of a wait: RFC 3339, or the next time of a day, such as `next 08:00 Europe/Oslo`.
pub(crate) fn parse_instant(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let text = text.trim();
    let Some(day_time) = text.strip_prefix("next ") else {
        return text
            .parse()
            .map_err(|_| format!("{text:?} is no time; write 2027-01-31T08:00:00Z, or \"next 08:00 Europe/Oslo\""));
    };
    let mut words = day_time.split_whitespace();
    let (time, zone) = (words.next().unwrap_or_default(), words.next().unwrap_or("UTC"));
    let time: Time = time.parse().map_err(|_| format!("{time:?} is no time of a day; write it as 08:00"))?;
    let zone = TimeZone::get(zone).map_err(|_| format!("{zone:?} is no time zone; write it as Europe/Oslo"))?;
    if let Some(rest) = words.next() {
        return Err(format!("{rest:?} stands behind the time zone; write \"next 08:00 Europe/Oslo\""));
    }
    let local = now.to_zoned(zone.clone());
    // A time that a change of the clock leaves out moves to the time after the gap.
    let on = |date: jiff::civil::Date| date.to_datetime(time).to_zoned(zone.clone()).map(|at| at.timestamp());
    let today = on(local.date()).map_err(|error| error.to_string())?;
    if today > now {
        return Ok(today);
    }
    let tomorrow = local.date().checked_add(1.day()).map_err(|error| error.to_string())?;
    on(tomorrow).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str, now: &str) -> String {
        parse_instant(text, now.parse().unwrap()).map_or_else(|error| error, |instant| instant.to_string())
    }

    #[test]
    fn times_are_instants_or_the_next_time_of_a_day() {
        assert_eq!(at("2027-01-31T08:00:00+01:00", "2027-01-01T00:00:00Z"), "2027-01-31T07:00:00Z");
        assert_eq!(at("next 08:00", "2027-01-01T07:59:59Z"), "2027-01-01T08:00:00Z");
        assert_eq!(at("next 08:00", "2027-01-01T08:00:00Z"), "2027-01-02T08:00:00Z");
        // 00:30 UTC is 01:30 in Oslo, and the clock leaps from 02:00 to 03:00 on this day.
        assert_eq!(at("next 02:30 Europe/Oslo", "2027-03-28T00:30:00Z"), "2027-03-28T01:30:00Z");
        assert_eq!(at("next 08:00 Europe/Oslo", "2027-07-01T07:00:00Z"), "2027-07-02T06:00:00Z");
    }

    #[test]
    fn what_is_no_time_is_refused_with_a_form_that_is_one() {
        let now = "2027-01-01T00:00:00Z";
        assert!(at("tomorrow", now).contains("2027-01-31T08:00:00Z"));
        assert!(at("next 25:00", now).contains("08:00"));
        assert!(at("next 08:00 Moon/Base", now).contains("Europe/Oslo"));
        assert!(at("next 08:00 UTC sharp", now).contains("behind"));
    }
}
