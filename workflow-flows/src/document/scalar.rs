//! The meaning of plain scalars: the core schema of YAML 1.2, without its values outside of JSON.

use serde_json::Number;

use super::Data;

/// Returns the value of a scalar without quotes, or why it is refused.
pub(crate) fn plain(text: &str) -> Result<Data, String> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(Data::Null),
        "true" => return Ok(Data::Bool(true)),
        "false" => return Ok(Data::Bool(false)),
        _ => {}
    }
    let unsigned = text.trim_start_matches(['-', '+']);
    let looks_like_a_number = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    if !looks_like_a_number || text.len() - unsigned.len() > 1 {
        return Ok(Data::Text(text.to_owned()));
    }
    if matches!(unsigned, ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN") {
        return Err(format!("{text} is no number of JSON"));
    }
    if let Some(digits) = text.strip_prefix("0x").filter(|digits| all(digits, 16)) {
        return integer(digits, 16, text);
    }
    if let Some(digits) = text.strip_prefix("0o").filter(|digits| all(digits, 8)) {
        return integer(digits, 8, text);
    }
    if all(unsigned, 10) {
        return integer(text.strip_prefix('+').unwrap_or(text), 10, text);
    }
    Ok(float(text, unsigned).map_or_else(|| Data::Text(text.to_owned()), Data::Number))
}

fn all(digits: &str, radix: u32) -> bool {
    !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix))
}

fn integer(digits: &str, radix: u32, text: &str) -> Result<Data, String> {
    i64::from_str_radix(digits, radix)
        .map(|number| Data::Number(number.into()))
        .map_err(|_| format!("{text} is too large for a whole number of 64 bits"))
}

/// Reads `[0-9]*.?[0-9]*([eE][-+]?[0-9]+)?` with at least one digit before the exponent.
fn float(text: &str, unsigned: &str) -> Option<Number> {
    let (base, exponent) = unsigned.split_once(['e', 'E']).map_or((unsigned, None), |(base, exp)| (base, Some(exp)));
    if exponent.is_some_and(|exponent| !all(exponent.strip_prefix(['-', '+']).unwrap_or(exponent), 10)) {
        return None;
    }
    let (whole, fraction) = base.split_once('.').unwrap_or((base, ""));
    let is_digits = |digits: &str| digits.chars().all(|c| c.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    text.parse().ok().and_then(Number::from_f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scalars_have_the_values_of_the_core_schema() {
        let number = |text: &str| match plain(text) {
            Ok(Data::Number(number)) => number.to_string(),
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(number("-12"), "-12");
        assert_eq!(number("+7"), "7");
        assert_eq!(number("0x1F"), "31");
        assert_eq!(number("0o17"), "15");
        assert_eq!(number("1.50"), "1.5");
        assert_eq!(number("2e3"), "2000.0");
        for text in ["yes", "no", "on", "off", "True", "1.2.3", "30s", "2024-01-01", "1_000", "--1", ".", "e3"] {
            assert_eq!(plain(text), Ok(Data::Text(text.to_owned())), "{text}");
        }
        assert_eq!(plain("~"), Ok(Data::Null));
        assert!(plain(".nan").is_err() && plain("99999999999999999999").is_err());
    }
}
