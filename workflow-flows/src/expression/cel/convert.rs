use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::functions::Refusal;
use super::meter::Meter;
use super::value::CelValue;

type Found<'a> = Result<Option<CelValue<'a>>, Refusal>;

/// Calls a conversion. `None`: the name is no conversion, or it has none of these types.
pub(super) fn call<'a>(meter: &mut Meter, name: &str, values: &[CelValue<'a>]) -> Found<'a> {
    let [value] = values else { return Ok(None) };
    meter.charge_bytes(value.bytes())?;
    let unfit = Refusal::Unfit(": the value does not fit");
    Ok(Some(match (name, value) {
        ("int", CelValue::Int(_))
        | ("uint", CelValue::Uint(_))
        | ("double", CelValue::Double(_))
        | ("string", CelValue::Text(_))
        | ("bytes", CelValue::Bytes(_))
        | ("bool", CelValue::Bool(_)) => value.clone(),
        ("int", CelValue::Uint(value)) => CelValue::Int(i64::try_from(*value).map_err(|_| unfit)?),
        ("int", CelValue::Double(value)) => {
            // The bounds themselves are not exact as doubles, so they are left out.
            let fits = *value > -9_223_372_036_854_775_808.0 && *value < 9_223_372_036_854_775_807.0;
            CelValue::Int(if fits { *value as i64 } else { return Err(unfit) })
        }
        ("int", CelValue::Text(text)) => CelValue::Int(whole(text.as_str()).ok_or(unfit)?),
        ("uint", CelValue::Int(value)) => CelValue::Uint(u64::try_from(*value).map_err(|_| unfit)?),
        ("uint", CelValue::Double(value)) => {
            let fits = *value >= 0.0 && *value < 18_446_744_073_709_551_615.0;
            CelValue::Uint(if fits { *value as u64 } else { return Err(unfit) })
        }
        ("uint", CelValue::Text(text)) => CelValue::Uint(whole(text.as_str()).ok_or(unfit)?),
        ("double", CelValue::Int(value)) => CelValue::Double(*value as f64),
        ("double", CelValue::Uint(value)) => CelValue::Double(*value as f64),
        ("double", CelValue::Text(text)) => CelValue::Double(text.as_str().parse().map_err(|_| unfit)?),
        ("bool", CelValue::Text(text)) => CelValue::Bool(match text.as_str() {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => true,
            "0" | "f" | "F" | "false" | "FALSE" | "False" => false,
            _ => return Err(unfit),
        }),
        ("string", CelValue::Bool(value)) => CelValue::text(if *value { "true" } else { "false" }),
        ("string", CelValue::Int(value)) => CelValue::text(&value.to_string()),
        ("string", CelValue::Uint(value)) => CelValue::text(&value.to_string()),
        ("string", CelValue::Double(value)) => CelValue::text(&double_text(*value)),
        ("string", CelValue::Bytes(bytes)) => {
            meter.allocate(bytes.len())?;
            CelValue::text(std::str::from_utf8(bytes).map_err(|_| unfit)?)
        }
        ("bytes", CelValue::Text(text)) => {
            meter.allocate(text.as_str().len())?;
            CelValue::Bytes(text.as_str().as_bytes().into())
        }
        ("base64.encode", CelValue::Bytes(bytes)) => {
            meter.allocate(bytes.len().saturating_mul(2))?;
            CelValue::text(&STANDARD.encode(bytes))
        }
        ("base64.decode", CelValue::Text(text)) => {
            meter.allocate(text.as_str().len())?;
            let text = text.as_str().trim_end_matches('=');
            CelValue::Bytes(STANDARD_NO_PAD.decode(text).map_err(|_| unfit)?.into())
        }
        ("url.encode", CelValue::Text(text)) => {
            meter.allocate(text.as_str().len().saturating_mul(3))?;
            CelValue::text(&utf8_percent_encode(text.as_str(), RESERVED).to_string())
        }
        ("url.encode", CelValue::Int(value)) => CelValue::text(&value.to_string()),
        _ => return Ok(None),
    }))
}

/// The bytes of a URL that have a meaning, or no place in it.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Parses an integer of digits and a sign.
fn whole<T: std::str::FromStr>(text: &str) -> Option<T> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let plain = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

/// Writes a double with the fewest digits that read back as it.
pub(super) fn double_text(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let exponent = value.abs().log10().floor();
    if value != 0.0 && !(-5.0..21.0).contains(&exponent) {
        let text = format!("{value:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(exponent) => ('-', exponent),
            None => ('+', exponent),
        };
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    value.to_string()
}
