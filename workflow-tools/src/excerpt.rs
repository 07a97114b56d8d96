//! Shows the beginning of what another side wrote, without secrets that it was given.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// The longest excerpt of a body in an error, in characters.
const EXCERPT: usize = 200;

/// The beginning of a body on one line. Words of the arguments are replaced, because a server may
/// repeat a secret that it was sent.
pub(crate) fn excerpt(body: &[u8], hidden: &[Value]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(4 * EXCERPT * 4)]);
    let mut words = Vec::new();
    hidden.iter().for_each(|value| collect(value, &mut words));
    // The longest first: a word may be part of another one.
    words.sort_by_key(|word| std::cmp::Reverse(word.len()));
    let mut text = text.into_owned();
    for word in words {
        text = text.replace(&word, "***");
    }
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().filter(|c| !c.is_control()).take(EXCERPT).collect()
}

/// The texts of a value that could be secrets: whole, and in their words.
fn collect(value: &Value, words: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            // A server sees the user and the password in clear.
            let pair = text.strip_prefix("Basic ").and_then(|pair| STANDARD.decode(pair).ok());
            if let Some(pair) = pair.and_then(|pair| String::from_utf8(pair).ok()) {
                collect(&Value::String(pair), words);
            }
            let whole = text.split(|c: char| !c.is_ascii_alphanumeric() && !"-_.~+/=".contains(c));
            // The parts of a path and of a pair may be repeated one by one.
            let parts = text.split(|c: char| !c.is_ascii_alphanumeric() && !"-_.~+".contains(c));
            words.extend(whole.chain(parts).chain([text.as_str()]).filter(|part| part.len() >= 4).map(str::to_owned));
        }
        Value::Number(number) => words.extend(Some(number.to_string()).filter(|number| number.len() >= 4)),
        Value::Array(items) => items.iter().for_each(|item| collect(item, words)),
        Value::Object(fields) => fields.values().for_each(|field| collect(field, words)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_excerpt_hides_what_the_request_held() {
        let hidden = [json!({ "headers": { "Authorization": "Bearer abc.def-123" }, "json": ["pass phrase"] })];
        let body = b"{\"error\": \"token abc.def-123 is\n expired\", \"was\": \"pass phrase\"}";
        assert_eq!(excerpt(body, &hidden), "{\"error\": \"token *** is expired\", \"was\": \"***\"}");
        let basic = json!({ "Authorization": format!("Basic {}", STANDARD.encode("ann:hunter2")), "pin": 9301 });
        assert_eq!(excerpt(b"hunter2 and 9301 are wrong", &[basic]), "*** and *** are wrong");
        assert_eq!(excerpt(&[0xff, b'a', 7], &[]), "\u{fffd}a");
        assert!(excerpt("x ".repeat(1000).as_bytes(), &[]).len() <= EXCERPT);
    }
}
