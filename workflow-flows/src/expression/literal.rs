use serde_json::Value;

/// Returns the value of a simple literal: a text without escapes, an integer, a boolean or null.
///
/// `None` leaves the text to CEL, which reads all literals.
pub(super) fn parse(text: &str) -> Option<Value> {
    match text {
        "true" => return Some(Value::Bool(true)),
        "false" => return Some(Value::Bool(false)),
        "null" => return Some(Value::Null),
        "[]" => return Some(Value::Array(Vec::new())),
        "{}" => return Some(Value::Object(serde_json::Map::new())),
        _ => {}
    }
    for quote in ['\'', '"'] {
        if let Some(inner) = text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            let plain = !inner.contains(['\\', '\'', '"', '\n', '\r']);
            return plain.then(|| Value::String(inner.to_owned()));
        }
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    plain.then(|| text.parse::<i64>().ok())?.map(Value::from)
}
