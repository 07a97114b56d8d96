use super::functions::Refusal;
use super::meter::Meter;
use super::value::{CelValue, Key};

/// Digits after the point, at most.
const MOST_PRECISION: usize = 100;

/// Formats values by clauses: `%s %d %f %e %b %o %x %X`, with a precision as in `%.2f`.
pub(super) fn format(meter: &mut Meter, pattern: &str, arguments: &[CelValue<'_>]) -> Result<String, Refusal> {
    meter.allocate(pattern.len())?;
    let mut found = String::with_capacity(pattern.len());
    let mut rest = pattern;
    let mut arguments = arguments.iter();
    while let Some((before, clause)) = rest.split_once('%') {
        found.push_str(before);
        if let Some(after) = clause.strip_prefix('%') {
            found.push('%');
            rest = after;
            continue;
        }
        let (precision, clause) = precision(clause)?;
        let kind = clause.chars().next().ok_or(Refusal::Unfit(": the pattern ends after %"))?;
        let value = arguments.next().ok_or(Refusal::Unfit(": there are fewer values than clauses"))?;
        let text = one(meter, kind, precision, value)?;
        meter.allocate(text.len())?;
        found.push_str(&text);
        rest = clause.get(kind.len_utf8()..).unwrap_or("");
    }
    found.push_str(rest);
    Ok(found)
}

fn precision(clause: &str) -> Result<(usize, &str), Refusal> {
    let Some(digits) = clause.strip_prefix('.') else { return Ok((6, clause)) };
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let precision = digits.get(..end).and_then(|digits| digits.parse().ok());
    match precision.filter(|precision| *precision <= MOST_PRECISION) {
        Some(precision) => Ok((precision, digits.get(end..).unwrap_or(""))),
        None => Err(Refusal::Unfit(": a precision is 0 to 100")),
    }
}

fn one(meter: &mut Meter, kind: char, precision: usize, value: &CelValue<'_>) -> Result<String, Refusal> {
    let number = match value {
        CelValue::Int(value) => Some(*value as f64),
        CelValue::Uint(value) => Some(*value as f64),
        CelValue::Double(value) => Some(*value),
        _ => None,
    };
    Ok(match (kind, value) {
        ('s', _) => return plain(meter, value),
        ('d', CelValue::Int(value)) => value.to_string(),
        ('d', CelValue::Uint(value)) => value.to_string(),
        ('d', CelValue::Double(value)) => not_finite(*value).map_or_else(|| value.to_string(), str::to_owned),
        ('f', _) if number.is_some() => {
            let number = number.unwrap_or_default();
            not_finite(number).map_or_else(|| format!("{number:.precision$}"), str::to_owned)
        }
        ('e', _) if number.is_some() => {
            let number = number.unwrap_or_default();
            not_finite(number).map_or_else(|| scientific(number, precision), str::to_owned)
        }
        ('b', CelValue::Bool(value)) => u8::from(*value).to_string(),
        ('b', CelValue::Int(value)) => format!("{}{:b}", sign(*value), value.unsigned_abs()),
        ('b', CelValue::Uint(value)) => format!("{value:b}"),
        ('o', CelValue::Int(value)) => format!("{}{:o}", sign(*value), value.unsigned_abs()),
        ('o', CelValue::Uint(value)) => format!("{value:o}"),
        ('x', CelValue::Int(value)) => format!("{}{:x}", sign(*value), value.unsigned_abs()),
        ('X', CelValue::Int(value)) => format!("{}{:X}", sign(*value), value.unsigned_abs()),
        ('x', CelValue::Uint(value)) => format!("{value:x}"),
        ('X', CelValue::Uint(value)) => format!("{value:X}"),
        ('x' | 'X', CelValue::Text(text)) => hexadecimal(meter, text.as_str().as_bytes(), kind == 'X')?,
        ('x' | 'X', CelValue::Bytes(bytes)) => hexadecimal(meter, bytes, kind == 'X')?,
        ('d' | 'f' | 'e' | 'b' | 'o' | 'x' | 'X', _) => {
            return Err(Refusal::Unfit(": a value does not fit its clause"));
        }
        _ => return Err(Refusal::Unfit(": a clause is unknown; there are %s %d %f %e %b %o %x %X")),
    })
}

/// Writes any value as text.
fn plain(meter: &mut Meter, value: &CelValue<'_>) -> Result<String, Refusal> {
    meter.tick()?;
    let text = match value {
        CelValue::Null => "null".to_owned(),
        CelValue::Bool(value) => value.to_string(),
        CelValue::Int(value) => value.to_string(),
        CelValue::Uint(value) => value.to_string(),
        CelValue::Double(value) => not_finite(*value).map_or_else(|| value.to_string(), str::to_owned),
        CelValue::Text(text) => text.as_str().to_owned(),
        CelValue::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        CelValue::Type(name) => (*name).to_owned(),
        CelValue::List(list) => {
            let mut parts = Vec::with_capacity(list.len());
            for item in list.items(meter)? {
                parts.push(plain(meter, &item)?);
            }
            format!("[{}]", parts.join(", "))
        }
        CelValue::Map(map) => {
            let mut parts = Vec::with_capacity(map.len());
            for key in map.keys(meter)? {
                if let Some(name) = Key::of(&key)
                    && let Some(value) = map.get(&name)?
                {
                    parts.push((plain(meter, &key)?, plain(meter, &value)?));
                }
            }
            parts.sort();
            let parts: Vec<_> = parts.into_iter().map(|(key, value)| format!("{key}: {value}")).collect();
            format!("{{{}}}", parts.join(", "))
        }
        CelValue::Optional(_) => return Err(Refusal::Unfit(": an optional has no text")),
    };
    meter.allocate(text.len())?;
    Ok(text)
}

fn not_finite(value: f64) -> Option<&'static str> {
    if value.is_nan() {
        Some("NaN")
    } else if value.is_infinite() {
        Some(if value > 0.0 { "Infinity" } else { "-Infinity" })
    } else {
        None
    }
}

fn scientific(value: f64, precision: usize) -> String {
    let text = format!("{value:.precision$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    match exponent.strip_prefix('-') {
        Some(exponent) => format!("{digits}e-{exponent:0>2}"),
        None => format!("{digits}e+{exponent:0>2}"),
    }
}

fn sign(value: i64) -> &'static str {
    if value < 0 { "-" } else { "" }
}

fn hexadecimal(meter: &mut Meter, bytes: &[u8], upper: bool) -> Result<String, Refusal> {
    meter.allocate(bytes.len().saturating_mul(2))?;
    Ok(bytes.iter().map(|byte| if upper { format!("{byte:02X}") } else { format!("{byte:02x}") }).collect())
}

/// Writes a text as a literal of CEL.
pub(super) fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for next in text.chars() {
        match next {
            '\x07' => quoted.push_str("\\a"),
            '\x08' => quoted.push_str("\\b"),
            '\x0c' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\x0b' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}
