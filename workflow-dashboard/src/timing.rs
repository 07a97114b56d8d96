//! The times of a schedule in words, with the expression where no short words say it.

use workflow_sdk::Timing;

use crate::clock;

/// Returns the rule by which the times follow each other: `weekdays, 07:30 Berlin`.
pub(crate) fn words(timing: &Timing) -> String {
    let zone = timing.zone.as_str();
    let place = zone.rsplit('/').next().unwrap_or(zone).replace('_', " ");
    let cron = timing.cron.iter().map(|expression| match cron_words(expression) {
        Some(words) if words.ends_with("minutes") => words,
        Some(words) => format!("{words} {place}"),
        None => format!("{expression} ({zone})"),
    });
    // An interval has one unit if it can: `15 m`, not `15 m 00 s`.
    let every =
        timing.every.map(|every| format!("every {}", clock::span(every).split(" 00 ").next().unwrap_or_default()));
    cron.chain(every).collect::<Vec<_>>().join(", ")
}

/// Returns the expressions of a schedule as they were declared.
pub(crate) fn expressions(timing: &Timing) -> String {
    timing.cron.iter().map(|expression| format!("{expression} ({})", timing.zone)).collect::<Vec<_>>().join(", ")
}

/// Returns an expression of five fields in words. `None`: it says more than these words can.
fn cron_words(expression: &str) -> Option<String> {
    let fields: Vec<&str> = expression.split_whitespace().collect();
    let [minute, hour, day, "*", weekday] = fields[..] else { return None };
    if let (Some(minutes), "*", "*", "*") = (minute.strip_prefix("*/"), hour, day, weekday) {
        // Other steps begin anew each hour: `*/45` is due at minutes 0 and 45.
        let minutes = number(minutes, 59).filter(|minutes| *minutes > 1 && 60 % *minutes == 0);
        return minutes.map(|minutes| format!("every {minutes} minutes"));
    }
    let minute = number(minute, 59)?;
    if (hour, day, weekday) == ("*", "*", "*") {
        return Some(format!("each hour at :{minute:02}"));
    }
    let hours: Vec<String> =
        hour.split(',').map(|hour| Some(format!("{:02}:{minute:02}", number(hour, 23)?))).collect::<Option<_>>()?;
    let days = match (day, weekday) {
        ("*", "*") => "daily".to_owned(),
        ("*", weekday) => weekdays(weekday)?,
        (day, "*") => format!("on day {} of the month", number(day, 31)?),
        _ => return None,
    };
    Some(format!("{days}, {}", hours.join(" and ")))
}

fn weekdays(field: &str) -> Option<String> {
    const NAMES: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
    const WORDS: [&str; 7] = ["Sundays", "Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays"];
    let field = field.to_ascii_uppercase();
    if matches!(field.as_str(), "MON-FRI" | "1-5") {
        return Some("weekdays".to_owned());
    }
    let place = |name: &str| NAMES.iter().position(|known| *known == name);
    let place = place(&field).or_else(|| number(&field, 7).map(|day| usize::from(day) % 7))?;
    WORDS.get(place).map(|word| (*word).to_owned())
}

fn number(text: &str, most: u8) -> Option<u8> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| is_plain && *number <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_expressions_have_words_and_others_none() {
        for (expression, words) in [
            ("30 7 * * MON-FRI", Some("weekdays, 07:30")),
            ("0 6 1 * *", Some("on day 1 of the month, 06:00")),
            ("5 0 * * *", Some("daily, 00:05")),
            ("0 9,17 * * 1-5", Some("weekdays, 09:00 and 17:00")),
            ("0 9 * * 7", Some("Sundays, 09:00")),
            ("0 9 * * tue", Some("Tuesdays, 09:00")),
            ("15 * * * *", Some("each hour at :15")),
            ("*/5 * * * *", Some("every 5 minutes")),
            ("*/45 * * * *", None),
            ("*/1 * * * *", None),
            ("*/0 * * * *", None),
            ("*/5 8-17 * * *", None),
            ("0 9 * 1 *", None),
            ("0 9 1 * MON", None),
            ("0 9 L * *", None),
            ("61 9 * * *", None),
            ("0 0 9 * * *", None),
            ("@daily", None),
            ("", None),
        ] {
            assert_eq!(cron_words(expression).as_deref(), words, "{expression}");
        }
    }
}
