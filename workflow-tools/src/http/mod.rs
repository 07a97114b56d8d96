//! The tool `http`: one request, with bounds.
//!
//! A flow is written by people and agents, so its URLs are input. The tool refuses private,
//! loopback and link-local addresses, in every form that an address has. The check is made on the
//! address that is connected to, and again after each redirect. Cookies are not kept,
//! proxies of the environment are not used, and bodies are not unpacked.
//!
//! A result looks like this:
//!
//! ```json
//! { "status_code": 200, "headers": { "content-type": "application/json" },
//!   "content_type": "application/json", "body": { "id": 7 } }
//! ```
//!
//! `body` is JSON if the server says so, else text; bytes that are not text stand in `body_base64`.
//! A result has neither the header `set-cookie` nor the URL, because results are recorded and both
//! may hold credentials.

mod action;
mod address;
pub(crate) mod client;
pub(crate) mod request;
mod resolver;
mod response;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use workflow_flows::{Tool, ToolCall, ToolError};

pub use address::{InvalidNetwork, Network};

use crate::arguments::{parse, shortest};
use address::Reach;
use client::Client;
use request::Arguments;

/// Headers that a request carries on behalf of an actor, such as its token for a host.
#[async_trait]
pub trait Credentials: Send + Sync + 'static {
    /// Returns the headers for a request of this actor to this host. They are sent to this host
    /// alone, are never recorded and stand in no error. A header that the flow gives is replaced.
    ///
    /// # Errors
    /// A [`ToolError`] ends the call.
    async fn headers(&self, actor: &str, host: &str) -> Result<Vec<(String, String)>, ToolError>;
}

/// Makes an [`Http`].
#[derive(Default)]
pub struct HttpBuilder {
    networks: Vec<Network>,
    body_limit: Option<usize>,
    timeout: Option<Duration>,
    crosses_hosts: bool,
    credentials: Option<Arc<dyn Credentials>>,
}

impl fmt::Debug for HttpBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpBuilder").field("networks", &self.networks).finish_non_exhaustive()
    }
}

impl HttpBuilder {
    /// Allows addresses of this network, although they are not of the public internet.
    #[must_use]
    pub fn allow_network(mut self, network: Network) -> Self {
        self.networks.push(network);
        self
    }

    /// Sets the largest body of an answer, in bytes. A larger one fails the call while it is read.
    /// Default: 1 MiB.
    #[must_use]
    pub fn body_limit(mut self, bytes: usize) -> Self {
        self.body_limit = Some(bytes);
        self
    }

    /// Sets the longest time of a call, with its redirects. A call may ask for less. Default: 30 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Follows redirects to other hosts also. Headers and bodies do not go there. Default: `false`,
    /// such an answer fails the call.
    #[must_use]
    pub fn cross_host_redirects(mut self, allowed: bool) -> Self {
        self.crosses_hosts = allowed;
        self
    }

    /// Asks this for the headers of each actor. Default: none.
    #[must_use]
    pub fn credentials(mut self, credentials: impl Credentials) -> Self {
        self.credentials = Some(Arc::new(credentials));
        self
    }

    /// Makes the tool.
    ///
    /// # Errors
    /// A [`ToolError`] if TLS cannot be prepared.
    pub fn build(self) -> Result<Http, ToolError> {
        let body_limit = self.body_limit.unwrap_or(1024 * 1024);
        let client = Client::new(Reach { networks: self.networks }, body_limit, self.crosses_hosts)?;
        let timeout = self.timeout.unwrap_or(Duration::from_secs(30));
        Ok(Http { client, timeout, credentials: self.credentials })
    }
}

/// The tool `http`. See the [module](self).
///
/// ```
/// use workflow_flows::Tool;
/// use workflow_tools::http::Http;
///
/// let http = Http::builder().allow_network("10.1.0.0/16".parse().unwrap()).build().unwrap();
/// assert_eq!(http.name(), "http");
/// ```
#[derive(Clone)]
pub struct Http {
    client: Client,
    timeout: Duration,
    credentials: Option<Arc<dyn Credentials>>,
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").field("client", &self.client).finish_non_exhaustive()
    }
}

impl Http {
    /// Returns a builder with the defaults.
    #[must_use]
    pub fn builder() -> HttpBuilder {
        HttpBuilder::default()
    }

    #[cfg(any(feature = "model", feature = "notify"))]
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    #[cfg(any(feature = "model", feature = "notify"))]
    pub(crate) fn longest(&self, asked: Option<Duration>) -> Duration {
        shortest(self.timeout, [asked])
    }
}

#[async_trait]
impl Tool for Http {
    fn name(&self) -> &str {
        "http"
    }

    fn description(&self) -> &str {
        "Sends one HTTP request and returns status_code, headers and body."
    }

    fn input_schema(&self) -> Value {
        let time =
            json!({ "description": "such as 500ms, 30s or 5m; a number is seconds", "type": ["string", "number"] });
        json!({
            "type": "object",
            "required": ["url"],
            "additionalProperties": false,
            "properties": {
                "method": { "type": "string", "default": "GET" },
                "url": { "type": "string" },
                "headers": { "type": "object", "additionalProperties": { "type": ["string", "number", "boolean"] } },
                "query": { "type": "object", "description": "Parameters; a list repeats its name, null leaves it out." },
                "json": { "description": "The body, as JSON." },
                "form": { "type": "object", "description": "The body, as a form." },
                "text": { "type": "string", "description": "The body, as text." },
                "timeout": time,
                "accept": {
                    "type": "array", "items": { "type": ["string", "integer"] },
                    "description": "Further statuses that do not fail the call: 404, \"4xx\", \"400-499\"."
                },
                "expect": { "enum": ["auto", "json", "text"], "default": "auto" },
                "redirects": { "type": "boolean", "default": true, "description": "Follows redirects on the same host." },
            },
        })
    }

    async fn call(&self, call: ToolCall) -> Result<Value, ToolError> {
        let arguments: Arguments = parse("http", &call.args)?;
        let timeout = shortest(self.timeout, [arguments.timeout.map(|span| span.0), call.timeout]);
        let (expect, accept, redirects) = (arguments.expect, arguments.accepted()?, arguments.redirects);
        let mut request = arguments.request(&call.idempotency_key)?;
        let mut hidden = vec![call.args];
        if let Some(credentials) = &self.credentials {
            let host = request.url.host_str().unwrap_or_default().to_owned();
            for (name, value) in credentials.headers(&call.actor, &host).await? {
                request::insert(&mut request.headers, &name, &value)?;
                hidden.push(Value::String(value));
            }
        }
        let answer = self.client.send(request, redirects, timeout).await?;
        let status = answer.status.as_u16();
        if !accept.iter().any(|range| range.contains(&status)) {
            answer.check(&hidden)?;
        }
        response::result(&answer, expect)
    }
}
