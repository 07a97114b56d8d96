//! The requests of the dialect `opcode`, in terms of the tool `http`.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use workflow_flows::{Tool, ToolCall, ToolError};

use super::Http;
use crate::arguments::{invalid, parse};

/// One of the three actions.
#[derive(Debug, Clone)]
struct Action {
    http: Http,
    name: &'static str,
    /// The method, if the action has a fixed one.
    method: Option<&'static str>,
}

impl Http {
    /// Returns the tools `http.request`, `http.get` and `http.post`, which documents of the dialect
    /// `opcode` call. A status does not fail a step unless `fail_on_error_status` is set. The tools
    /// have the bounds of this one. A redirect to another host needs
    /// [`cross_host_redirects`](super::HttpBuilder::cross_host_redirects). Certificates are always
    /// checked.
    #[must_use]
    pub fn actions(&self) -> Vec<Arc<dyn Tool>> {
        let make = |name, method| -> Arc<dyn Tool> { Arc::new(Action { http: self.clone(), name, method }) };
        vec![make("http.request", None), make("http.get", Some("GET")), make("http.post", Some("POST"))]
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    url: String,
    method: Option<String>,
    #[serde(default)]
    headers: Map<String, Value>,
    #[serde(default)]
    body: Value,
    #[serde(default)]
    body_encoding: Encoding,
    auth: Option<Auth>,
    timeout: Option<Value>,
    follow_redirects: Option<bool>,
    /// Accepted without an effect: the tool `http` has a bound of its own.
    #[serde(rename = "max_redirects")]
    _max_redirects: Option<u32>,
    #[serde(default)]
    tls_skip_verify: bool,
    #[serde(default)]
    fail_on_error_status: bool,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "lowercase")]
enum Encoding {
    #[default]
    Json,
    Form,
    Text,
    Raw,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum Auth {
    Bearer { token: String },
    Basic { username: String, password: String },
    ApiKey { header_name: String, header_value: String },
}

impl Auth {
    fn header(self) -> (String, String) {
        match self {
            Self::Bearer { token } => ("Authorization".to_owned(), format!("Bearer {token}")),
            Self::Basic { username, password } => {
                let pair = STANDARD.encode(format!("{username}:{password}"));
                ("Authorization".to_owned(), format!("Basic {pair}"))
            }
            Self::ApiKey { header_name, header_value } => (header_name, header_value),
        }
    }
}

/// Translates the arguments into those of the tool `http`.
fn translated(arguments: Arguments, fixed: Option<&str>) -> Result<Value, ToolError> {
    if arguments.tls_skip_verify {
        return Err(invalid("tls_skip_verify is not possible: certificates are always checked"));
    }
    let mut headers = arguments.headers;
    if let Some((name, value)) = arguments.auth.map(Auth::header) {
        headers.insert(name, Value::String(value));
    }
    let method = fixed.map(str::to_owned).or(arguments.method).unwrap_or_else(|| "GET".to_owned());
    let mut native = json!({ "url": arguments.url, "method": method, "headers": headers });
    let body = match (&arguments.body_encoding, arguments.body) {
        (_, Value::Null) => None,
        (Encoding::Json, body) => Some(("json", body)),
        (Encoding::Form, body) => Some(("form", body)),
        (Encoding::Text | Encoding::Raw, Value::String(text)) => Some(("text", Value::String(text))),
        (Encoding::Text | Encoding::Raw, body) => Some(("text", Value::String(body.to_string()))),
    };
    if let Some((field, body)) = body {
        native[field] = body;
    }
    if let Some(timeout) = arguments.timeout {
        native["timeout"] = timeout;
    }
    let follows = arguments.follow_redirects.unwrap_or(true);
    native["redirects"] = Value::Bool(follows);
    native["accept"] = match (arguments.fail_on_error_status, follows) {
        (false, _) => json!(["300-599"]),
        (true, false) => json!(["3xx"]),
        (true, true) => json!([]),
    };
    Ok(native)
}

/// Returns the name of a header as documents of the dialect read it: `Content-Type`.
fn canonical(name: &str) -> String {
    let parts = name.split('-').map(|part| match part.split_at_checked(1) {
        Some((first, rest)) => first.to_ascii_uppercase() + rest,
        None => part.to_owned(),
    });
    parts.collect::<Vec<_>>().join("-")
}

#[async_trait]
impl Tool for Action {
    fn name(&self) -> &str {
        self.name
    }

    fn description(&self) -> &str {
        "Sends one HTTP request. Statuses do not fail the step unless fail_on_error_status is set."
    }

    fn input_schema(&self) -> Value {
        let encodings = json!({ "enum": ["json", "form", "text", "raw"], "default": "json" });
        let auth = json!({ "type": "object", "required": ["type"], "properties": { "type": { "enum": ["bearer", "basic", "api_key"] } } });
        json!({
            "type": "object", "required": ["url"], "additionalProperties": false,
            "properties": {
                "url": { "type": "string" }, "method": { "type": "string" }, "headers": { "type": "object" },
                "body": {}, "body_encoding": encodings, "auth": auth, "timeout": { "type": ["string", "number"] },
                "follow_redirects": { "type": "boolean" }, "max_redirects": { "type": "integer" },
                "tls_skip_verify": { "const": false }, "fail_on_error_status": { "type": "boolean" },
            },
        })
    }

    async fn call(&self, mut call: ToolCall) -> Result<Value, ToolError> {
        call.args = translated(parse(self.name, &call.args)?, self.method)?;
        let begun = Instant::now();
        let mut result = self.http.call(call).await?;
        let code = result["status_code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or_default();
        let status = reqwest::StatusCode::from_u16(code).map(|status| status.to_string()).unwrap_or_default();
        result["status"] = Value::String(status);
        if let Some(headers) = result["headers"].as_object() {
            result["headers"] = headers.iter().map(|(name, value)| (canonical(name), value.clone())).collect();
        }
        if result["body"].as_str() == Some("") {
            result["body"] = Value::Null;
        }
        result["duration_ms"] = json!(u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX));
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn native(args: Value) -> Result<Value, ToolError> {
        translated(parse("http.request", &args)?, None)
    }

    #[test]
    fn names_of_headers_have_capitals() {
        assert_eq!(canonical("content-type"), "Content-Type");
        assert_eq!(canonical("etag"), "Etag");
        assert_eq!(canonical("x--y-"), "X--Y-");
    }

    #[test]
    fn arguments_are_those_of_the_tool() {
        let args = json!({
            "url": "http://a.test", "method": "PUT", "body": { "n": 1 }, "timeout": "5s",
            "auth": { "type": "basic", "username": "u", "password": "p" },
        });
        let expected = json!({
            "url": "http://a.test", "method": "PUT", "headers": { "Authorization": "Basic dTpw" }, "json": { "n": 1 },
            "timeout": "5s", "redirects": true, "accept": ["300-599"],
        });
        assert_eq!(native(args).unwrap(), expected);
        let raw =
            native(json!({ "url": "u", "body": [1], "body_encoding": "raw", "fail_on_error_status": true })).unwrap();
        assert_eq!((&raw["text"], &raw["accept"]), (&json!("[1]"), &json!([])));
        assert!(native(json!({ "url": "https://a.test", "tls_skip_verify": true })).is_err());
        let error = native(json!({ "url": "u", "auth": { "type": "bearer", "tokn": "hunter2" } })).unwrap_err();
        assert!(!error.message.contains("hunter2"), "{error}");
    }
}
