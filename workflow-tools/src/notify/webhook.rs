use std::collections::BTreeMap;
use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, Url};
use serde_json::{Value, json};
use workflow_flows::signature;
use workflow_flows::{Tool, ToolCall, ToolError};

use super::{input_schema, notice};
use crate::arguments::{failed, invalid};
use crate::http::Http;
use crate::http::client::Request;
use crate::http::request::insert;

/// Makes a [`Webhook`].
pub struct WebhookBuilder {
    secret: Vec<u8>,
    targets: BTreeMap<String, String>,
    http: Option<Http>,
}

impl fmt::Debug for WebhookBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookBuilder").field("targets", &self.targets.keys()).finish_non_exhaustive()
    }
}

impl WebhookBuilder {
    /// Sends messages whose `to` is this name to this URL. The name "" takes messages without `to`.
    #[must_use]
    pub fn target(mut self, name: impl Into<String>, url: impl Into<String>) -> Self {
        self.targets.insert(name.into(), url.into());
        self
    }

    /// Sets the client: its networks and longest time. Default: that of [`Http::builder`].
    #[must_use]
    pub fn http(mut self, http: Http) -> Self {
        self.http = Some(http);
        self
    }

    /// Makes the channel.
    ///
    /// # Errors
    /// A [`ToolError`] if a target is not a URL.
    pub fn build(self) -> Result<Webhook, ToolError> {
        let mut targets = BTreeMap::new();
        for (name, url) in self.targets {
            let url = Url::parse(&url).map_err(|_| invalid(format!("webhook: the target {name:?} is not a URL")))?;
            targets.insert(name, url);
        }
        let http = match self.http {
            Some(http) => http,
            None => Http::builder().build()?,
        };
        Ok(Webhook { secret: self.secret, targets, http })
    }
}

/// The channel `webhook`: posts the message as JSON, signed as
/// [`signature`](workflow_flows::signature) says. Its id is the idempotency key of the step, so a
/// receiver can drop repetitions.
///
/// ```
/// use workflow_flows::Tool;
/// use workflow_tools::notify::Webhook;
///
/// let builder = Webhook::builder("a secret").target("ops", "https://ops.example/hook");
/// let webhook = builder.build().unwrap();
/// assert_eq!(webhook.name(), "webhook");
/// ```
#[derive(Clone)]
pub struct Webhook {
    secret: Vec<u8>,
    targets: BTreeMap<String, Url>,
    http: Http,
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").field("targets", &self.targets.keys()).finish_non_exhaustive()
    }
}

impl Webhook {
    /// Returns a builder without targets. Receivers check messages with this secret.
    #[must_use]
    pub fn builder(secret: impl Into<Vec<u8>>) -> WebhookBuilder {
        WebhookBuilder { secret: secret.into(), targets: BTreeMap::new(), http: None }
    }
}

#[async_trait]
impl Tool for Webhook {
    fn name(&self) -> &str {
        "webhook"
    }

    fn description(&self) -> &str {
        "Posts a signed message to a URL that the operator has named."
    }

    fn input_schema(&self) -> Value {
        input_schema()
    }

    async fn call(&self, call: ToolCall) -> Result<Value, ToolError> {
        let notice = notice("webhook", &call)?;
        let unknown = || {
            let known: Vec<&str> = self.targets.keys().map(String::as_str).collect();
            invalid(format!("webhook: no target is named {:?}; known: {known:?}", notice.to))
        };
        let url = self.targets.get(&notice.to).ok_or_else(unknown)?.clone();
        let body = json!({
            "to": notice.to, "title": notice.title, "text": notice.text, "data": notice.data, "actor": call.actor,
        });
        let body = body.to_string().into_bytes();
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let timestamp = now.map_err(|_| failed("webhook: the clock stands before 1970"))?.as_secs();
        let signed = signature::Webhook { id: &call.idempotency_key, timestamp, body: &body };
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        insert(&mut headers, "webhook-id", &call.idempotency_key)?;
        insert(&mut headers, "webhook-timestamp", &timestamp.to_string())?;
        insert(&mut headers, "webhook-signature", &signed.sign(&self.secret))?;
        let path = json!([url.path(), url.query()]);
        let request = Request { method: Method::POST, url, headers, body };
        let answer = self.http.client().send(request, false, self.http.longest(call.timeout)).await?;
        // The path of a target is often its secret.
        answer.check(&[call.args, path])?;
        Ok(json!({ "status_code": answer.status.as_u16() }))
    }
}
