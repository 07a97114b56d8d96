//! Makes a result from an answer.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{CONTENT_TYPE, SET_COOKIE};
use serde_json::{Value, json};
use workflow_flows::ToolError;

use super::client::Answer;
use super::request::Expect;
use crate::arguments::failed;

/// The result of the tool.
pub(super) fn result(answer: &Answer, expect: Expect) -> Result<Value, ToolError> {
    let shown = &answer.shown;
    let kind = answer.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let text = std::str::from_utf8(&answer.body).ok();
    let json: Option<Value> = match (expect, is_json(kind)) {
        (Expect::Json, _) | (Expect::Auto, true) => serde_json::from_slice(&answer.body).ok(),
        _ => None,
    };
    let (field, body) = match (expect, json, text) {
        (Expect::Json, None, _) => return Err(failed(format!("{shown} answered with a body that is not JSON"))),
        (Expect::Text, _, None) => {
            return Err(failed(format!("{shown} answered with a body that is not text in UTF-8")));
        }
        (_, Some(value), _) => ("body", value),
        (_, None, Some(text)) => ("body", Value::String(text.to_owned())),
        (_, None, None) => ("body_base64", Value::String(STANDARD.encode(&answer.body))),
    };
    let mut result = json!({
        "status_code": answer.status.as_u16(),
        "headers": headers(answer),
        "content_type": kind,
    });
    result[field] = body;
    Ok(result)
}

fn is_json(kind: &str) -> bool {
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || kind.ends_with("+json")
}

/// The headers in lower case; a repeated one is joined. Cookies are credentials and left out.
fn headers(answer: &Answer) -> BTreeMap<String, String> {
    let mut headers: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in answer.headers.iter().filter(|(name, _)| *name != SET_COOKIE) {
        let value = String::from_utf8_lossy(value.as_bytes());
        let joined = headers.entry(name.as_str().to_owned()).or_default();
        if !joined.is_empty() {
            joined.push_str(", ");
        }
        joined.push_str(&value);
    }
    headers
}

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

    #[test]
    fn json_is_known_by_its_type() {
        for (kind, is) in
            [("application/json; charset=utf-8", true), ("application/problem+json", true), ("text/json5", false)]
        {
            assert_eq!(is_json(kind), is, "{kind}");
        }
    }
}
