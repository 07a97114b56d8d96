//! Times and durations as the pages show them.

use std::time::Duration;

use maud::{Markup, html};
use workflow_sdk::Timestamp;

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Returns a time in UTC, which the script moves to the zone of the browser: without the day if it
/// is of today, without the year if it is of this year.
pub(crate) fn at(time: Timestamp, now: Timestamp) -> Markup {
    let (full, today) = (time.to_string(), now.to_string());
    html! { time datetime=(full) title=(full) { (short(&full, &today)) } }
}

/// Returns a time as [`at`] does, without the seconds.
pub(crate) fn minute(time: Timestamp, now: Timestamp) -> Markup {
    let full = time.to_string();
    let text = short(&full, &now.to_string());
    let text = if text.len() == "14:31:52".len() { text.get(..5).unwrap_or(&text) } else { &text };
    html! { time data-minute datetime=(full) title=(full) { (text) } }
}

fn short(full: &str, today: &str) -> String {
    let part = |from: usize, to: usize| full.get(from..to).unwrap_or_default();
    // Years of more than four digits have another form.
    if full.len() != today.len() {
        return full.to_owned();
    }
    if full.get(..10) == today.get(..10) {
        return part(11, 19).to_owned();
    }
    let month = part(5, 7).parse::<usize>().ok().and_then(|month| MONTHS.get(month.wrapping_sub(1)));
    let day = part(8, 10).trim_start_matches('0');
    match month {
        None => full.to_owned(),
        Some(month) if full.get(..4) == today.get(..4) => format!("{day} {month}, {}", part(11, 16)),
        Some(month) => format!("{day} {month} {}", part(0, 4)),
    }
}

/// Returns a sentence in which times of RFC 3339 are shown as [`at`] shows them.
pub(crate) fn prose(sentence: &str, now: Timestamp) -> Markup {
    const LENGTH: usize = "2026-11-24T14:31:52.123Z".len();
    let today = now.to_string();
    let is_time = |text: &str| {
        let bytes = text.as_bytes();
        [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'.'), (23, b'Z')]
            .iter()
            .all(|(place, byte)| bytes.get(*place) == Some(byte))
    };
    let mut parts: Vec<(bool, &str)> = Vec::new();
    let mut rest = sentence;
    let mut from = 0;
    while let Some(found) = rest.get(from..).and_then(|text| text.find("20")).map(|at| at + from) {
        match rest.get(found..found + LENGTH).filter(|text| is_time(text)) {
            Some(time) => {
                parts.push((false, rest.get(..found).unwrap_or_default()));
                parts.push((true, time));
                rest = rest.get(found + LENGTH..).unwrap_or_default();
                from = 0;
            }
            None => from = found + 1,
        }
    }
    parts.push((false, rest));
    html! {
        @for (is_time, part) in parts {
            @if is_time { time datetime=(part) title=(part) { (short(part, &today)) } } @else { (part) }
        }
    }
}

/// Returns how long ago a time was, as `4 s`; one that lies ahead as `in 4 s`.
pub(crate) fn age(time: Timestamp, now: Timestamp) -> Markup {
    let full = time.to_string();
    html! { time data-age datetime=(full) title=(full) { (age_text(time, now)) } }
}

/// Returns the words of [`age`].
pub(crate) fn age_text(time: Timestamp, now: Timestamp) -> String {
    if time > now { format!("in {}", rough(time.since(now))) } else { rough(now.since(time)) }
}

/// Returns a duration in its largest unit.
fn rough(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} m", seconds / 60),
        seconds @ 3600..86_400 => format!("{} h", seconds / 3600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

/// Returns a duration in one or two units.
pub(crate) fn span(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 if duration.is_zero() => "0 s".to_owned(),
        0 if duration < Duration::from_millis(1) => "< 1 ms".to_owned(),
        0 => format!("{} ms", duration.as_millis()),
        1..60 => format!("{:.1} s", duration.as_secs_f64()),
        60..3600 => format!("{} m {:02} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {:02} m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {:02} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// Returns the duration between two times, in one or two units.
pub(crate) fn between(from: Timestamp, to: Timestamp) -> String {
    span(to.since(from))
}

/// Returns a number with a comma between groups of three digits.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns a number with its noun.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let ending = match number {
        1 => "",
        _ if noun.ends_with("sh") => "es",
        _ => "s",
    };
    format!("{} {noun}{ending}", grouped(number))
}

/// Returns a size in bytes.
pub(crate) fn bytes(number: u64) -> String {
    match number {
        0..1024 => format!("{number} bytes"),
        1024..1_048_576 => format!("{:.1} kB", number as f64 / 1024.0),
        _ => format!("{:.1} MB", number as f64 / 1_048_576.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_as_short_as_their_distance_allows() {
        let today = "2026-11-24T14:31:52.123Z";
        assert_eq!(short("2026-11-24T09:05:01.000Z", today), "09:05:01");
        assert_eq!(short("2026-11-04T09:05:01.000Z", today), "4 Nov, 09:05");
        assert_eq!(short("2025-01-31T09:05:01.000Z", today), "31 Jan 2025");
        assert_eq!(short("12026-01-31T09:05:01.000Z", today), "12026-01-31T09:05:01.000Z");
    }

    #[test]
    fn times_in_a_sentence_are_short() {
        let now = Timestamp::from_micros(1_795_692_591_839_206);
        let shown = prose("due since 2026-11-26T11:29:52.288Z, 20 é 2026-11-2 <b>", now).into_string();
        let time = r#"<time datetime="2026-11-26T11:29:52.288Z" title="2026-11-26T11:29:52.288Z">11:29:52</time>"#;
        assert_eq!(shown, format!("due since {time}, 20 é 2026-11-2 &lt;b&gt;"));
    }

    #[test]
    fn durations_have_two_units() {
        for (millis, expected) in [
            (0, "0 s"),
            (950, "950 ms"),
            (1900, "1.9 s"),
            (42_000, "42.0 s"),
            (124_000, "2 m 04 s"),
            (39_720_000, "11 h 02 m"),
            (237_600_000, "2 d 18 h"),
        ] {
            assert_eq!(span(Duration::from_millis(millis)), expected);
        }
        let at = Timestamp::from_micros;
        assert_eq!(age_text(at(4_000_000), at(0)), "in 4 s");
        assert_eq!(age_text(at(0), at(360_000_000)), "6 m");
    }

    #[test]
    fn numbers_have_groups_of_three() {
        for (number, expected) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), expected);
        }
        let nouns = [counted(0, "run"), counted(1, "crash"), counted(2000, "crash")];
        assert_eq!(nouns, ["0 runs", "1 crash", "2,000 crashes"]);
        assert_eq!((bytes(5), bytes(2048), bytes(3_145_728)), ("5 bytes".into(), "2.0 kB".into(), "3.0 MB".into()));
    }
}
