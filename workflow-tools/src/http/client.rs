//! Sends requests: to allowed addresses, with bounds, following only harmless redirects.

use std::error::Error;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::{Method, Response, StatusCode, Url, redirect};
use serde_json::Value;
use workflow_flows::{ErrorClass, ToolError};

use super::address::Reach;
use super::resolver::{Resolver, Unreachable};
use crate::arguments::{failed, invalid};
use crate::excerpt::excerpt;

/// A request that is ready to be sent.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// An answer whose body was read to its end.
pub(crate) struct Answer {
    /// The request as errors name it.
    pub(crate) shown: String,
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// How often one call is redirected at most.
const REDIRECTS: usize = 5;

/// The client of all tools that use HTTP. A clone shares its connections.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    client: reqwest::Client,
    reach: Arc<Reach>,
    body_limit: usize,
    crosses_hosts: bool,
}

/// A client with the certificates that the machine trusts. It follows no redirect by itself, uses
/// no proxy of the environment, because the proxy would resolve the hosts, and repeats nothing.
pub(crate) fn plain_client(resolver: Option<Resolver>) -> Result<reqwest::Client, ToolError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(format!("cannot prepare TLS: {error}")))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let builder = reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .redirect(redirect::Policy::none())
        .retry(reqwest::retry::never())
        .no_proxy()
        .pool_idle_timeout(Duration::from_secs(30))
        .connect_timeout(Duration::from_secs(30))
        .user_agent(concat!("workflow-tools/", env!("CARGO_PKG_VERSION")));
    let builder = match resolver {
        Some(resolver) => builder.dns_resolver(Arc::new(resolver)),
        None => builder,
    };
    builder.build().map_err(|error| failed(format!("cannot make an HTTP client: {error}")))
}

impl Client {
    pub(super) fn new(reach: Reach, body_limit: usize, crosses_hosts: bool) -> Result<Self, ToolError> {
        let reach = Arc::new(reach);
        let client = plain_client(Some(Resolver { reach: Arc::clone(&reach) }))?;
        Ok(Self { client, reach, body_limit, crosses_hosts })
    }

    /// Sends a request and reads its answer, whatever its status is.
    ///
    /// # Errors
    /// The class says what failed: an address that is not allowed, the time, the connection.
    pub(crate) async fn send(&self, request: Request, redirects: bool, timeout: Duration) -> Result<Answer, ToolError> {
        let shown = shown(&request.method, &request.url);
        let sent = tokio::time::timeout(timeout, self.follow(request, redirects, &shown)).await;
        let late = || ToolError::new(ErrorClass::Timeout, format!("{shown} did not answer within {timeout:?}"));
        sent.unwrap_or_else(|_| Err(late()))
    }

    async fn follow(&self, mut request: Request, redirects: bool, shown: &str) -> Result<Answer, ToolError> {
        for _ in 0..=REDIRECTS {
            let response = self.send_one(&request, shown).await?;
            let target = if redirects { target(&request.url, &response) } else { None };
            let Some(target) = target else { return self.read(response, shown).await };
            let is_same = is_same_server(&request.url, &target);
            if !is_same && !self.crosses_hosts {
                return self.read(response, shown).await;
            }
            request = redirected(request, response.status(), target, is_same).ok_or_else(|| {
                invalid(format!("{shown} is redirected to another host with its body: call that host"))
            })?;
        }
        Err(invalid(format!("{shown} is redirected more than {REDIRECTS} times")))
    }

    async fn send_one(&self, request: &Request, shown: &str) -> Result<Response, ToolError> {
        self.check(&request.url, shown)?;
        let mut headers = request.headers.clone();
        // Nothing is unpacked, so a small body cannot become a large one.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let builder = self.client.request(request.method.clone(), request.url.clone()).headers(headers);
        let builder = if request.body.is_empty() { builder } else { builder.body(request.body.clone()) };
        let response = builder.send().await.map_err(|error| unsent(&error, shown))?;
        let reached = response.remote_addr().map(|address| address.ip());
        match reached {
            Some(address) if !self.reach.allows(address) => Err(private(shown)),
            _ => Ok(response),
        }
    }

    /// Checks what can be checked without a resolver: the scheme, and a host that is an address.
    fn check(&self, url: &Url, shown: &str) -> Result<(), ToolError> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(invalid(format!("{shown}: the URL begins with neither http:// nor https://")));
        }
        let address: Option<IpAddr> =
            url.host_str().and_then(|host| host.trim_start_matches('[').trim_end_matches(']').parse().ok());
        match address {
            Some(address) if !self.reach.allows(address) => Err(private(shown)),
            _ => Ok(()),
        }
    }

    /// Reads the body up to its limit.
    async fn read(&self, mut response: Response, shown: &str) -> Result<Answer, ToolError> {
        let encoding = response.headers().get(CONTENT_ENCODING);
        if encoding.is_some_and(|encoding| encoding != "identity") {
            return Err(failed(format!("{shown} answered with an encoded body, which was not asked for")));
        }
        let large = || invalid(format!("the body of {shown} is larger than {} bytes, the limit", self.body_limit));
        if response.content_length().is_some_and(|length| length > self.body_limit as u64) {
            return Err(large());
        }
        let mut body = Vec::new();
        let broken = || ToolError::new(ErrorClass::Connection, format!("{shown}: the connection broke in the body"));
        while let Some(chunk) = response.chunk().await.map_err(|_| broken())? {
            if body.len() + chunk.len() > self.body_limit {
                return Err(large());
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Answer { shown: shown.to_owned(), status: response.status(), headers: response.headers().clone(), body })
    }
}

/// The request as errors name it: without path, query and headers, which may hold secrets.
fn shown(method: &Method, url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{method} {}://{}{port}", url.scheme(), url.host_str().unwrap_or_default())
}

fn private(shown: &str) -> ToolError {
    invalid(format!("{shown}: the host has a private address; the operator can allow its network"))
}

fn unsent(error: &reqwest::Error, shown: &str) -> ToolError {
    let mut source = error.source();
    while let Some(error) = source {
        if error.is::<Unreachable>() {
            return private(shown);
        }
        source = error.source();
    }
    if error.is_timeout() {
        return ToolError::new(ErrorClass::Timeout, format!("{shown}: no connection in time"));
    }
    if error.is_builder() {
        return invalid(format!("{shown}: the request cannot be built"));
    }
    let what = if error.is_connect() { "cannot connect" } else { "the connection broke" };
    ToolError::new(ErrorClass::Connection, format!("{shown}: {what}"))
}

/// The URL that the answer redirects to.
fn target(from: &Url, response: &Response) -> Option<Url> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    from.join(response.headers().get(LOCATION)?.to_str().ok()?).ok()
}

/// Whether credentials for one URL may go to the other: the same scheme, host and port, or the same
/// host by https on its usual port.
fn is_same_server(from: &Url, to: &Url) -> bool {
    let is_upgrade = (from.scheme(), to.scheme()) == ("http", "https") && from.port().is_none() && to.port().is_none();
    from.host_str() == to.host_str() && (from.origin() == to.origin() || is_upgrade)
}

/// The request for the target. `None` if it would carry the body to another server.
fn redirected(mut request: Request, status: StatusCode, target: Url, is_same: bool) -> Option<Request> {
    let keeps_method = matches!(status.as_u16(), 307 | 308);
    if !keeps_method && request.method != Method::HEAD {
        if request.method != Method::GET {
            request.headers.remove(reqwest::header::CONTENT_TYPE);
        }
        request.method = Method::GET;
        request.body.clear();
    }
    if !is_same {
        if keeps_method && !matches!(request.method, Method::GET | Method::HEAD) {
            return None;
        }
        let accept = request.headers.get(ACCEPT).cloned();
        request.headers.clear();
        request.headers.extend(accept.map(|accept| (ACCEPT, accept)));
    }
    request.url = target;
    Some(request)
}

impl Answer {
    /// Refuses a status of 300 or more. The error shows the beginning of the body without the words
    /// of `hidden`.
    pub(crate) fn check(&self, hidden: &[Value]) -> Result<(), ToolError> {
        let (shown, status) = (&self.shown, self.status.as_u16());
        let class = match status {
            0..=299 => return Ok(()),
            408 => ErrorClass::Timeout,
            429 => ErrorClass::RateLimited,
            300..=499 => ErrorClass::Invalid,
            _ => ErrorClass::Unavailable,
        };
        let message = match (status, excerpt(&self.body, hidden)) {
            (300..=399, _) if self.headers.contains_key(LOCATION) => {
                format!("{shown} answered {status}: it redirects, which is not followed")
            }
            (_, excerpt) if excerpt.is_empty() => format!("{shown} answered {status}"),
            (_, excerpt) => format!("{shown} answered {status}: {excerpt}"),
        };
        let retry_after = self.headers.get(RETRY_AFTER).and_then(|value| retry_after(value.to_str().ok()?));
        Err(ToolError { class, message, retry_after })
    }
}

/// The longest wait that a server may ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

fn retry_after(text: &str) -> Option<Duration> {
    let wait = match text.trim().parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let at = httpdate::parse_http_date(text).ok()?;
            at.duration_since(SystemTime::now()).unwrap_or_default()
        }
    };
    Some(wait.min(LONGEST_WAIT))
}
