//! The digest of a flow: SHA-256 of its canonical JSON (RFC 8785).

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::Flow;

impl Flow {
    /// Returns the digest of the flow in hexadecimal digits: SHA-256 of its canonical JSON (RFC
    /// 8785). Documents that differ in comments, order of keys, synonyms or form have equal
    /// digests.
    ///
    /// ```
    /// use workflow_flows::check::{Options, check};
    ///
    /// let digest = |source| check(source, &Options::default()).flow.map(|flow| flow.digest());
    /// let yaml = digest("flow: 1\nname: a # a comment\ndo: [ { id: a, tool: log } ]\n");
    /// let json = digest(r#"{"name":"a","do":[{"tool":"log","id":"a"}],"flow":1}"#);
    /// assert!(yaml.is_some() && yaml == json);
    /// ```
    #[must_use]
    pub fn digest(&self) -> String {
        // A graph has texts as keys and no other values than those of JSON.
        let value = serde_json::to_value(self).unwrap_or_default();
        let mut text = String::new();
        canonical(&value, &mut text);
        Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

fn canonical(value: &Value, out: &mut String) {
    match value {
        Value::Number(number) => out.push_str(&numeral(number)),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                canonical(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort_by(|a, b| a.encode_utf16().cmp(b.encode_utf16()));
            out.push('{');
            for (index, key) in keys.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                out.push_str(&Value::String(key.clone()).to_string());
                out.push(':');
                canonical(&map[key], out);
            }
            out.push('}');
        }
        other => out.push_str(&other.to_string()),
    }
}

/// Writes a number as ECMAScript does.
fn numeral(number: &serde_json::Number) -> String {
    let Some(float) = number.as_f64().filter(|_| number.is_f64()) else { return number.to_string() };
    if float == 0.0 {
        return "0".to_owned();
    }
    let text = format!("{float:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if !(-6..21).contains(&exponent) {
        let sign = if exponent > 0 { "+" } else { "" };
        return format!("{digits}e{sign}{exponent}");
    }
    format!("{float}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_json_follows_the_rfc() {
        let value: Value = serde_json::from_str(
            r#"{"b":[1.0,1e21,0.002,1e-7,4.5,-0.0,10],"a":"\u20ac\n","\ud83d\ude00":1,"\ufb33":2}"#,
        )
        .unwrap_or_default();
        let mut text = String::new();
        canonical(&value, &mut text);
        let expected = "{\"a\":\"\u{20ac}\\n\",\"b\":[1,1e+21,0.002,1e-7,4.5,0,10],\"\u{1f600}\":1,\"\u{fb33}\":2}";
        assert_eq!(text, expected);
    }
}
