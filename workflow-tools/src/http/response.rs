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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_known_by_its_type() {
        for (kind, is) in
            [("application/json; charset=utf-8", true), ("application/problem+json", true), ("text/json5", false)]
        {
            assert_eq!(is_json(kind), is, "{kind}");
        }
    }
}
