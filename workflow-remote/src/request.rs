//! One request and its answer.

use std::fmt::Write;
use std::time::Duration;

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use hyper::{Method, Request};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use workflow_sdk::operate::{OperateError, OperateErrorCode};

use crate::Remote;
use crate::answer::{self, EFFECT_UNKNOWN, Reply};

/// The largest answer, in bytes: the largest payload and a little around it.
const LARGEST_ANSWER: usize = 80 * 1024 * 1024;

/// The characters that stand as they are in a part of a path or in a value of a parameter.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

/// Whether a request may change something on the server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    Reads,
    Changes,
}

/// A path below `/api/v1` with its parameters.
pub(crate) struct Target {
    text: String,
    has_parameters: bool,
}

impl Target {
    /// Joins the parts of a path with slashes.
    pub(crate) fn new<'p>(parts: impl IntoIterator<Item = &'p str>) -> Self {
        let mut text = String::new();
        for part in parts {
            // `Write` on a `String` does not fail.
            let _ = write!(text, "/{}", utf8_percent_encode(part, ESCAPED));
        }
        Self { text, has_parameters: false }
    }

    /// Adds a parameter, if it has a value.
    pub(crate) fn with(mut self, name: &str, value: Option<impl ToString>) -> Self {
        let Some(value) = value else { return self };
        let mark = if self.has_parameters { '&' } else { '?' };
        let value = value.to_string();
        let _ = write!(self.text, "{mark}{name}={}", utf8_percent_encode(&value, ESCAPED));
        self.has_parameters = true;
        self
    }
}

impl Remote {
    pub(crate) async fn get<T: DeserializeOwned>(&self, target: Target) -> Result<T, OperateError> {
        self.get_within(target, self.timeout).await
    }

    pub(crate) async fn get_within<T: DeserializeOwned>(
        &self,
        target: Target,
        time: Duration,
    ) -> Result<T, OperateError> {
        self.send((Method::GET, Effect::Reads), target, Bytes::new(), time).await
    }

    /// Posts a question, which changes nothing.
    pub(crate) async fn ask<T: DeserializeOwned>(&self, target: Target, body: String) -> Result<T, OperateError> {
        self.send((Method::POST, Effect::Reads), target, body.into(), self.timeout).await
    }

    pub(crate) async fn post<T: DeserializeOwned>(&self, target: Target, body: String) -> Result<T, OperateError> {
        self.send((Method::POST, Effect::Changes), target, body.into(), self.timeout).await
    }

    pub(crate) async fn put<T: DeserializeOwned>(&self, target: Target, body: String) -> Result<T, OperateError> {
        self.send((Method::PUT, Effect::Changes), target, body.into(), self.timeout).await
    }

    async fn send<T: DeserializeOwned>(
        &self,
        (method, effect): (Method, Effect),
        target: Target,
        body: Bytes,
        time: Duration,
    ) -> Result<T, OperateError> {
        let url = format!("{}/api/v1{}", self.base, target.text);
        let mut request = Request::builder().method(method).uri(url).header(ACCEPT, "application/json");
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        let request =
            request.body(Full::new(body)).map_err(|error| crate::refused(error.to_string(), "use other names"))?;
        let reply = timeout(time, self.exchange(request, effect)).await.unwrap_or_else(|_| {
            let message = format!("{} did not answer within {} s", self.base, time.as_secs_f64());
            let help = match effect {
                Effect::Reads => "try again, or with a longer timeout",
                Effect::Changes => EFFECT_UNKNOWN,
            };
            Err(OperateError::new(OperateErrorCode::TimedOut, message, help))
        })?;
        answer::read(&self.base, reply, effect)
    }

    async fn exchange(&self, request: Request<Full<Bytes>>, effect: Effect) -> Result<Reply, OperateError> {
        let response = self.http.request(request).await.map_err(|error| {
            if error.is_connect() {
                answer::unreached(&self.base, &error)
            } else {
                answer::lost(&self.base, &error, effect)
            }
        })?;
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), LARGEST_ANSWER).collect().await;
        let body = body.map_err(|error| {
            let is_too_large = error.is::<LengthLimitError>();
            if is_too_large {
                answer::too_large(&self.base, LARGEST_ANSWER)
            } else {
                answer::lost(&self.base, &*error, effect)
            }
        })?;
        Ok(Reply { status, body: body.to_bytes() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_paths_and_parameters_are_escaped() {
        let target = Target::new(["queues", "a/b?é", "gates"]).with("limit", Some(5)).with("cursor", None::<&str>);
        assert_eq!(target.text, "/queues/a%2Fb%3F%C3%A9/gates?limit=5");
        assert_eq!(Target::new(["flows:check"]).text, "/flows:check", "a path of the server has this sign");
        assert_eq!(Target::new(["runs"]).with("q", Some("a b&c")).with("r", Some("+")).text, "/runs?q=a%20b%26c&r=%2B");
    }
}
