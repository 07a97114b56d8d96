use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::Value;
use workflow_sdk::operate::{OperateError, QueryError};

/// A problem as RFC 9457 describes it, with a code for programs and the way out for people.
#[derive(Debug, Serialize)]
pub(crate) struct Problem {
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    status: u16,
    code: String,
    detail: String,
    help: String,
    /// The place of the mistake in a query.
    #[serde(skip_serializing_if = "Option::is_none")]
    query: Option<Box<QueryError>>,
    /// The faults of a document.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    findings: Vec<Value>,
}

impl Problem {
    pub(crate) fn new(
        status: StatusCode,
        code: impl Into<String>,
        detail: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        Self {
            kind: "about:blank",
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            code: code.into(),
            detail: detail.into(),
            help: help.into(),
            query: None,
            findings: Vec::new(),
        }
    }

    #[cfg(feature = "flows")]
    pub(crate) fn is_of(&self, status: StatusCode) -> bool {
        self.status == status.as_u16()
    }

    #[cfg(feature = "flows")]
    pub(crate) fn has_code(&self, code: &str) -> bool {
        self.code == code
    }

    /// Adds the faults of a document.
    #[cfg(feature = "flows")]
    pub(crate) fn findings(self, findings: &[impl Serialize]) -> Self {
        // A finding has texts as keys and no other values than those of JSON.
        let findings = findings.iter().map(|finding| serde_json::to_value(finding).unwrap_or_default()).collect();
        Self { findings, ..self }
    }

    /// Refuses a value of the request.
    pub(crate) fn bad_input(detail: impl Into<String>, help: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_input", detail, help)
    }
}

impl From<OperateError> for Problem {
    fn from(error: OperateError) -> Self {
        let status = StatusCode::from_u16(error.code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        // A code is serialized as its word.
        let code = match serde_json::to_value(error.code) {
            Ok(Value::String(word)) => word,
            _ => "error".to_owned(),
        };
        Self { query: error.query.map(Box::new), ..Self::new(status, code, error.message, error.help) }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if status.is_server_error() {
            tracing::warn!(code = %self.code, "a request failed");
        }
        let mut response = (status, Json(&self)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        response
    }
}
