//! The interface for operators over HTTP. A [`Remote`] does by a server with `workflow-http` what a
//! `Client` does by the database, so that a program needs no access to the database itself.
//!
//! ```no_run
//! // no_run: it asks a server.
//! use workflow_remote::Remote;
//! use workflow_sdk::operate::{ListRuns, OperateRuns};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let token = std::env::var("API_TOKEN")?;
//! let remote = Remote::new("https://orders.example/workflows")?.token(token)?;
//! let failed = remote.runs(ListRuns::new("status:failed".parse()?)).await?;
//! println!("{} runs have failed", failed.items.len());
//! # Ok(())
//! # }
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

mod answer;
mod change_interface;
mod flow_interface;
mod interface;
mod request;
mod run_interface;

use std::fmt;
use std::time::Duration;

use http_body_util::Full;
use hyper::Uri;
use hyper::body::Bytes;
use hyper::header::HeaderValue;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use workflow_sdk::operate::{OperateError, OperateErrorCode};

#[cfg(feature = "tls")]
type Connector = hyper_rustls::HttpsConnector<HttpConnector>;
#[cfg(not(feature = "tls"))]
type Connector = HttpConnector;

/// A server that has the routes of `workflow-http`. Clones share their connections.
#[derive(Clone)]
pub struct Remote {
    /// The URL without a slash at its end.
    base: String,
    authorization: Option<HeaderValue>,
    timeout: Duration,
    http: Client<Connector, Full<Bytes>>,
}

impl Remote {
    /// How long a call takes at most, unless [`timeout`](Self::timeout) says otherwise.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

    /// Names a server by its URL up to the prefix under which the routes are nested, without
    /// `/api/v1`. Nothing is sent yet.
    ///
    /// # Errors
    /// [`BadInput`](OperateErrorCode::BadInput) if the URL is not `http://` or `https://` with a
    /// host, or has a query, a user or a password. [`Unavailable`](OperateErrorCode::Unavailable)
    /// if the URL is `https://` and the certificates that this machine trusts cannot be read.
    ///
    /// ```
    /// use workflow_remote::Remote;
    ///
    /// assert!(Remote::new("http://127.0.0.1:7777/workflows").is_ok());
    /// assert!(Remote::new("ftp://127.0.0.1").unwrap_err().message.contains("ftp"));
    /// ```
    pub fn new(url: &str) -> Result<Self, OperateError> {
        let base = checked(url)?;
        let http = Client::builder(TokioExecutor::new()).build(connector(&base)?);
        Ok(Self { base, authorization: None, timeout: Self::DEFAULT_TIMEOUT, http })
    }

    /// Sends this bearer token with each request, without spaces and line breaks around it, as a
    /// token from a file has them. Default: none.
    ///
    /// # Errors
    /// [`BadInput`](OperateErrorCode::BadInput) if the token has other characters than visible
    /// ASCII.
    pub fn token(mut self, token: impl AsRef<str>) -> Result<Self, OperateError> {
        let value = HeaderValue::from_str(&format!("Bearer {}", token.as_ref().trim()));
        let mut value = value.map_err(|_| refused("the token cannot be sent", "use visible ASCII characters"))?;
        value.set_sensitive(true);
        self.authorization = Some(value);
        Ok(self)
    }

    /// Sets how long a call takes at most. Default: [`DEFAULT_TIMEOUT`](Self::DEFAULT_TIMEOUT). A
    /// call that waits for the end of a run has this time beside its wait.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { base, timeout, .. } = self;
        f.debug_struct("Remote").field("url", base).field("timeout", timeout).finish_non_exhaustive()
    }
}

fn refused(message: impl Into<String>, help: &str) -> OperateError {
    OperateError::new(OperateErrorCode::BadInput, message, help)
}

fn checked(url: &str) -> Result<String, OperateError> {
    let help = "write http://HOST:PORT/PREFIX or https://HOST/PREFIX";
    // The URL may have a password, so it is not repeated.
    let parsed: Uri = url.parse().map_err(|_| refused("the URL of the server is not understood", help))?;
    match parsed.scheme_str() {
        Some("http") => {}
        Some("https") if cfg!(feature = "tls") => {}
        Some("https") => return Err(refused("this program is built without TLS", "build it with the feature tls")),
        Some(other) => return Err(refused(format!("the scheme {other}:// does not name a server"), help)),
        None => return Err(refused("the URL of the server has no scheme", help)),
    }
    if parsed.host().is_none_or(str::is_empty) {
        return Err(refused("the URL names no host", help));
    }
    if parsed.query().is_some() || url.contains('#') {
        return Err(refused("the URL has parameters", "leave out everything from the question mark on"));
    }
    if parsed.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err(refused("the URL has a user or a password", "give a token in its place"));
    }
    Ok(url.trim_end_matches('/').to_owned())
}

#[cfg(feature = "tls")]
fn connector(url: &str) -> Result<Connector, OperateError> {
    let unread = |error: &dyn fmt::Display| {
        let message = format!("the certificates that this machine trusts cannot be read: {error}");
        OperateError::new(OperateErrorCode::Unavailable, message, "install them (ca-certificates)")
    };
    // The provider is named, because the program may have others besides.
    let provider = rustls::crypto::ring::default_provider();
    let builder = hyper_rustls::HttpsConnectorBuilder::new();
    let builder = if url.starts_with("https:") {
        builder.with_provider_and_native_roots(provider).map_err(|error| unread(&error))?
    } else {
        let tls = rustls::ClientConfig::builder_with_provider(provider.into())
            .with_safe_default_protocol_versions()
            .map_err(|error| unread(&error))?;
        builder.with_tls_config(tls.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth())
    };
    Ok(builder.https_or_http().enable_http1().build())
}

#[cfg(not(feature = "tls"))]
fn connector(_: &str) -> Result<Connector, OperateError> {
    Ok(HttpConnector::new())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_url_that_names_no_server_is_refused_without_its_secrets() {
        for (url, says) in [
            ("ftp://a", "ftp://"),
            ("orders.db", "not understood"),
            ("http://", "not understood"),
            ("http://a/b?c=s3cr3t", "parameters"),
            ("http://a/b#c", "parameters"),
            ("http://ada:s3cr3t@a/b", "password"),
        ] {
            let error = Remote::new(url).unwrap_err();
            assert!(error.code == OperateErrorCode::BadInput && !error.message.contains("s3cr3t"), "{url}: {error}");
            assert!(error.message.contains(says) || error.message.contains("scheme"), "{url}: {error}");
        }
    }

    #[test]
    fn a_token_is_not_shown() {
        let remote = Remote::new("http://a/").unwrap().token("s3cr3t").unwrap();
        assert_eq!(remote.base, "http://a");
        assert!(!format!("{remote:?}").contains("s3cr3t"));
        assert!(Remote::new("http://a/").unwrap().token("s3c\nr3t").unwrap_err().to_string().contains("visible"));
        let of_file = Remote::new("http://a/").unwrap().token("s3cr3t\n").unwrap();
        assert_eq!(of_file.authorization, remote.authorization);
    }
}
