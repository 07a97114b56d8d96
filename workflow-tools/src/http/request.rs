//! Makes a request from arguments.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use workflow_flows::ToolError;

use super::client::Request;
use crate::arguments::{Span, invalid};

/// The arguments of the tool `http`, as flows write them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    method: Option<String>,
    url: String,
    #[serde(default)]
    headers: BTreeMap<String, Value>,
    #[serde(default)]
    query: BTreeMap<String, Value>,
    /// `null` is a body of its own.
    #[serde(default, deserialize_with = "given")]
    json: Option<Value>,
    form: Option<BTreeMap<String, Value>>,
    text: Option<String>,
    pub(super) timeout: Option<Span>,
    #[serde(default)]
    accept: Vec<Value>,
    #[serde(default)]
    pub(super) expect: Expect,
    #[serde(default = "yes")]
    pub(super) redirects: bool,
}

/// How the body of the answer is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Expect {
    /// JSON if the server says so and it is, else text, else bytes.
    #[default]
    Auto,
    /// JSON, or the call fails.
    Json,
    /// Text, or the call fails.
    Text,
}

fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

fn yes() -> bool {
    true
}

/// Headers that the client writes itself: a flow that sets them could smuggle a second request.
const RESERVED: [&str; 9] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "te",
    "trailer",
    "upgrade",
    "proxy-authorization",
    "accept-encoding",
];

impl Arguments {
    /// The statuses that do not fail the call, beside those below 300.
    pub(super) fn accepted(&self) -> Result<Vec<RangeInclusive<u16>>, ToolError> {
        self.accept.iter().map(|value| statuses(value).ok_or_else(|| wrong_status(value))).collect()
    }

    /// Makes the request. The key goes with it if its method changes something.
    pub(super) fn request(self, idempotency_key: &str) -> Result<Request, ToolError> {
        let method = self.method.as_deref().unwrap_or("GET").to_ascii_uppercase();
        let known = matches!(method.as_str(), "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE" | "OPTIONS");
        let method = Method::from_bytes(method.as_bytes())
            .ok()
            .filter(|_| known)
            .ok_or_else(|| invalid("method of http is not one of GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"))?;
        let url = url(&self.url, &self.query)?;
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            if RESERVED.contains(&name.to_ascii_lowercase().as_str()) {
                return Err(invalid(format!(
                    "headers of http has {name:?}, which the client writes itself: leave it out"
                )));
            }
            let value = scalar(value).ok_or_else(|| invalid(format!("the header {name:?} of http is not text")))?;
            insert(&mut headers, name, &value)?;
        }
        let body = body(self.json, self.form, self.text, &mut headers)?;
        if !matches!(method, Method::GET | Method::HEAD | Method::OPTIONS) && !idempotency_key.is_empty() {
            let name = HeaderName::from_static("idempotency-key");
            if !headers.contains_key(&name) {
                insert(&mut headers, name.as_str(), idempotency_key)?;
            }
        }
        Ok(Request { method, url, headers, body })
    }
}

fn url(text: &str, query: &BTreeMap<String, Value>) -> Result<Url, ToolError> {
    if leads_up(text) {
        return Err(invalid("the path of url of http has a part that is `..`: write the path that is meant"));
    }
    let mut url = Url::parse(text).map_err(|error| invalid(format!("url of http is not a URL: {error}")))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid("url of http has a user: give it as the header Authorization"));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(invalid("url of http names no host"));
    }
    url.set_fragment(None);
    let added = encoded(query, "query")?;
    let joined = match url.query() {
        Some(given) if !added.is_empty() => Some(format!("{given}&{added}")),
        None if !added.is_empty() => Some(added),
        _ => None,
    };
    if let Some(joined) = joined {
        url.set_query(Some(&joined));
    }
    Ok(url)
}

/// Returns whether the path of a URL has a part that removes the one before it. The parser would
/// apply it, so a value in a template could choose another path on the host.
fn leads_up(text: &str) -> bool {
    // The parser leaves these characters out, takes both slashes, and decodes dots.
    let text = text.replace(['\t', '\n', '\r'], "").to_ascii_lowercase().replace("%2e", ".");
    let text = text.trim_matches(|c: char| c <= ' ');
    let path = text.split(['?', '#']).next().unwrap_or_default();
    path.split(['/', '\\']).any(|part| part == "..")
}

/// Pairs in the form of HTML forms: a list repeats its name, null leaves it out.
fn encoded(values: &BTreeMap<String, Value>, field: &str) -> Result<String, ToolError> {
    let mut url = Url::parse("http://form.invalid").map_err(|error| invalid(error.to_string()))?;
    for (name, value) in values {
        let items = match value {
            Value::Array(items) => items.as_slice(),
            Value::Null => &[],
            one => std::slice::from_ref(one),
        };
        for item in items {
            let wrong =
                || invalid(format!("{field}.{name} of http is neither text, number, boolean nor a list of them"));
            url.query_pairs_mut().append_pair(name, &scalar(item).ok_or_else(wrong)?);
        }
    }
    Ok(url.query().unwrap_or_default().to_owned())
}

fn body(
    json: Option<Value>,
    form: Option<BTreeMap<String, Value>>,
    text: Option<String>,
    headers: &mut HeaderMap,
) -> Result<Vec<u8>, ToolError> {
    let (kind, body) = match (json, form, text) {
        (None, None, None) => return Ok(Vec::new()),
        (Some(value), None, None) => ("application/json", value.to_string()),
        (None, Some(values), None) => ("application/x-www-form-urlencoded", encoded(&values, "form")?),
        (None, None, Some(text)) => ("text/plain; charset=utf-8", text),
        _ => return Err(invalid("http has more than one of json, form and text: a request has one body")),
    };
    headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static(kind));
    Ok(body.into_bytes())
}

/// Sets a header. Its value is hidden from logs.
pub(crate) fn insert(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), ToolError> {
    let parsed = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value));
    let (Ok(name), Ok(mut value)) = parsed else {
        return Err(invalid(format!("the header {name:?} has a name or a value that HTTP does not allow")));
    };
    value.set_sensitive(true);
    headers.insert(name, value);
    Ok(())
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(is) => Some(is.to_string()),
        _ => None,
    }
}

fn wrong_status(value: &Value) -> ToolError {
    invalid(format!(
        "accept of http has {value}, which is neither a status nor a range: write 404, \"4xx\" or \"400-499\""
    ))
}

fn statuses(value: &Value) -> Option<RangeInclusive<u16>> {
    let text = scalar(value)?;
    let (first, last) = match (text.strip_suffix("xx"), text.split_once('-')) {
        (Some(class), _) => {
            let class: u16 = class.parse().ok().filter(|class| (1..=5).contains(class))?;
            (class * 100, class * 100 + 99)
        }
        (None, Some((first, last))) => (first.trim().parse().ok()?, last.trim().parse().ok()?),
        (None, None) => {
            let one = text.parse().ok()?;
            (one, one)
        }
    };
    (100 <= first && first <= last && last <= 599).then_some(first..=last)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(args: Value) -> Result<Request, ToolError> {
        crate::arguments::parse::<Arguments>("http", &args)?.request("key-1")
    }

    #[test]
    fn a_request_has_one_body_and_its_type() {
        let made = request(json!({ "method": "post", "url": "http://a.test/x", "json": null })).unwrap();
        assert_eq!(
            (made.body.as_slice(), &made.headers["content-type"]),
            (&b"null"[..], &HeaderValue::from_static("application/json"))
        );
        assert_eq!(made.headers["idempotency-key"], "key-1");
        let made =
            request(json!({ "method": "PUT", "url": "http://a.test", "form": { "a": ["1 2", true], "b": null } }))
                .unwrap();
        assert_eq!(made.body, b"a=1+2&a=true");
        assert!(request(json!({ "url": "http://a.test", "json": 1, "text": "x" })).is_err());
    }

    #[test]
    fn a_query_is_added_and_encoded() {
        let made = request(json!({ "url": "http://a.test/p?x=1#f", "query": { "q": "a&b", "n": [1, 2], "z": null } }))
            .unwrap();
        assert_eq!(made.url.as_str(), "http://a.test/p?x=1&n=1&n=2&q=a%26b");
        assert!(made.headers.get("idempotency-key").is_none(), "a GET changes nothing");
        assert!(request(json!({ "url": "http://a.test", "query": { "q": {} } })).is_err());
        let made = request(json!({ "url": "http://a.test/..p/p../...?to=/../x#/../y" })).unwrap();
        assert_eq!(made.url.as_str(), "http://a.test/..p/p../...?to=/../x", "none of these parts leads up");
    }

    #[test]
    fn dangerous_requests_are_refused_without_their_values() {
        for args in [
            json!({ "url": "http://user:hunter2@a.test" }),
            json!({ "url": "hunter2" }),
            json!({ "url": "http://a.test", "headers": { "Host": "hunter2" } }),
            json!({ "url": "http://a.test", "headers": { "Transfer-Encoding": "hunter2" } }),
            json!({ "url": "http://a.test", "headers": { "X-Y": "hunter2\r\nEvil: 1" } }),
            json!({ "url": "http://a.test", "headers": { "X-Y": ["hunter2"] } }),
            json!({ "url": "http://a.test", "method": "CONNECT" }),
            json!({ "url": "http://a.test", "method": "hunter2\r\n" }),
            json!({ "url": "data:hunter2" }),
            json!({ "url": "http://a.test/hunter2/../x" }),
            json!({ "url": "http://a.test/hunter2/.. " }),
            json!({ "url": "http://a.test\\hunter2\\..\\x" }),
            json!({ "url": "http://a.test/hunter2/%2E./x?y" }),
            json!({ "url": "http://a.test/hunter2/.\t.#y" }),
        ] {
            let error = request(args.clone()).err().unwrap_or_else(|| panic!("{args} is accepted"));
            assert!(!error.message.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn accepted_statuses_are_ranges() {
        assert_eq!(statuses(&json!(404)), Some(404..=404));
        assert_eq!(statuses(&json!("4xx")), Some(400..=499));
        assert_eq!(statuses(&json!("400-410")), Some(400..=410));
        for wrong in [json!("9xx"), json!("500-400"), json!(99), json!("x"), json!(null), json!("400-")] {
            assert_eq!(statuses(&wrong), None, "{wrong}");
        }
    }
}
