use std::time::Duration;

/// The longest duration of a document: ten years.
const LONGEST: Duration = Duration::from_secs(3_653 * 86_400);

/// Reads a duration as documents write it: `30s`, `5m`, `24h`, `7d`, several of them (`1h30m`), or
/// ISO 8601 (`PT30S`, `P1DT2H`).
///
/// # Errors
/// A text that says how a duration is written.
pub fn parse(text: &str) -> Result<Duration, String> {
    let millis = match text.strip_prefix('P') {
        Some(rest) => iso(rest),
        None => units(text, &[("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)]),
    };
    let millis = millis.ok_or("durations are written as 500ms, 30s, 5m, 24h, 7d or PT30S")?;
    let duration = Duration::from_millis(millis);
    if duration > LONGEST {
        return Err("ten years (3653d) is the longest duration".to_owned());
    }
    Ok(duration)
}

/// Reads the durations of the dialect `opcode`: one number and one unit from `ns` to `h`. Parts of
/// a millisecond count as a whole one.
pub(crate) fn parse_go(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: Option<u64> = number.parse().ok();
    let small = match unit {
        "ns" => Some(1_000_000),
        "us" | "\u{b5}s" | "\u{3bc}s" => Some(1_000),
        _ => None,
    };
    match (number, small) {
        (Some(number), Some(parts)) => Ok(Duration::from_millis(number.div_ceil(parts))),
        _ => parse(text),
    }
}

fn units(text: &str, known: &[(&str, u64)]) -> Option<u64> {
    let mut rest = text;
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).filter(|digits| *digits > 0)?;
        let (number, after) = rest.split_at(digits);
        let letters = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let (_, millis) = known.iter().find(|(name, _)| *name == unit)?;
        total = total.checked_add(number.parse::<u64>().ok()?.checked_mul(*millis)?)?;
        rest = after;
    }
    (!text.is_empty()).then_some(total)
}

fn iso(text: &str) -> Option<u64> {
    let (date, time) = text.split_once('T').map_or((text, None), |(date, time)| (date, Some(time)));
    let day = 86_400_000;
    let days = if date.is_empty() { Some(0) } else { units(date, &[("W", 7 * day), ("D", day)]) };
    let time = match time {
        Some(time) => units(time, &[("H", 3_600_000), ("M", 60_000), ("S", 1_000)])?,
        None if date.is_empty() => return None,
        None => 0,
    };
    days?.checked_add(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_number_and_a_unit() {
        for (text, millis) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("5m", 300_000),
            ("24h", 86_400_000),
            ("7d", 604_800_000),
            ("1h30m", 5_400_000),
            ("PT30S", 30_000),
            ("P1DT2H", 93_600_000),
            ("P1W", 604_800_000),
            ("0s", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "5", "s", "5 s", "5y", "-5s", "1.5s", "P", "PT", "99999999999999999999d", "3654d"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(parse_go("1500us"), Ok(Duration::from_millis(2)));
        assert_eq!(parse_go("5m"), Ok(Duration::from_secs(300)));
    }
}
