//! Rates as the command line writes them.

use workflow_sdk::Rate;

use crate::Failure;
use crate::clock::parse_duration;

/// Reads a rate: `100/1m`, or `100/1m,20` with a burst.
pub(super) fn parse(text: &str) -> Result<Rate, Failure> {
    let refused = || {
        Failure::usage(
            format!("the rate {text:?} is not understood"),
            "write a number and a time, as 100/1m; with a burst, as 100/1m,20",
        )
    };
    let (rate, burst) = match text.split_once(',') {
        Some((rate, burst)) => (rate, Some(burst.trim().parse().map_err(|_| refused())?)),
        None => (text, None),
    };
    let (number, period) = rate.split_once('/').ok_or_else(refused)?;
    let number = number.trim().parse().map_err(|_| refused())?;
    // `100/m` is `100/1m`.
    let period = period.trim();
    let period =
        if period.starts_with(|c: char| c.is_ascii_digit()) { period.to_owned() } else { format!("1{period}") };
    let rate = Rate::per(parse_duration(&period).map_err(|_| refused())?, number);
    let rate = burst.map_or(rate, |burst| rate.burst(burst));
    let invalid = |error: workflow_sdk::InvalidRate| Failure::usage(error.to_string(), "choose another rate");
    rate.check().map_err(invalid)?;
    Ok(rate)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn rates_are_read() {
        let minute = Duration::from_secs(60);
        assert_eq!(parse("100/1m").ok(), Some(Rate::per(minute, 100)));
        assert_eq!(parse("100/m").ok(), Some(Rate::per_minute(100)));
        assert_eq!(parse("5/s,20").ok(), Some(Rate::per_second(5).burst(20)));
        for bad in ["", "100", "100/", "/1m", "-1/s", "100/soon", "100/1m,", "100/1m,x", "0/1m"] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }
}
