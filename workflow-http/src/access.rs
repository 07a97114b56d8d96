//! Which requests are let in, and what they may do.

use std::fmt;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::future::BoxFuture;
use workflow_sdk::operate::{Query, Role};

use crate::origin::{is_local, is_of_another_site};
use crate::{Problem, Redact, Streams};

/// The user of a request: what it may do, and the name under which the audit log keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Actor {
    /// The name.
    pub name: String,
    /// The role, which says what the actor may do.
    pub role: Role,
    /// Whether inputs, outputs and errors are shown. If not, their sizes are.
    pub payloads: bool,
}

impl Actor {
    /// Returns an actor that reads, and sees payloads.
    pub fn viewer(name: impl Into<String>) -> Self {
        Self { name: name.into(), role: Role::Viewer, payloads: true }
    }

    /// Returns an actor that starts, cancels, pauses, retries, signals and decides, and sees
    /// payloads.
    pub fn operator(name: impl Into<String>) -> Self {
        Self { role: Role::Operator, ..Self::viewer(name) }
    }

    /// Returns an actor that also sets limits, changes schedules and deletes, and sees payloads.
    pub fn admin(name: impl Into<String>) -> Self {
        Self { role: Role::Admin, ..Self::viewer(name) }
    }

    /// Hides inputs and outputs from the actor: it sees their sizes.
    #[must_use]
    pub fn without_payloads(mut self) -> Self {
        self.payloads = false;
        self
    }

    /// Returns whether the actor may search by this query. The texts of errors are payloads.
    #[must_use]
    pub fn may_search(&self, query: &Query) -> bool {
        self.payloads || !query.reads_errors()
    }
}

type Decide = Arc<dyn Fn(Parts) -> BoxFuture<'static, Option<Actor>> + Send + Sync>;

#[derive(Clone)]
enum Rule {
    Local(Actor),
    Token(String, Actor),
    Password(String, Actor),
    By(Decide),
    Open,
}

/// Which requests are let in. There is no default, so that no application opens the interface by
/// accident.
#[derive(Clone)]
#[must_use = "nothing is let in before a router has this"]
pub struct Access {
    rule: Rule,
    /// The credentials with which a browser sends the token of [`Rule::Token`].
    password: Option<String>,
    read_only: bool,
    redact: Redact,
    streams: Streams,
}

impl Access {
    /// Lets in requests from this machine, as admin: the peer has a loopback address, and the host
    /// that it names is `localhost` or a loopback address. The second condition keeps pages of
    /// other sites out, whose name may lead to this machine. Behind a proxy on this machine every
    /// request comes from here, so use [`Access::token`] there; a request is refused if its headers
    /// tell of a proxy (`Forwarded`, `Via`, `X-Forwarded-For`, `X-Real-IP`), but not every proxy
    /// sends them.
    pub fn local() -> Self {
        Self::local_as(Actor::admin("local"))
    }

    /// Lets in the requests that [`Access::local`] lets in, as this actor.
    pub fn local_as(actor: Actor) -> Self {
        Self::of(Rule::Local(actor))
    }

    /// Lets in requests with this bearer token, as this actor. Choose a token of at least 128
    /// random bits. Spaces and line breaks around the token do not count, because a token that
    /// comes from a file mostly ends with a line break. An empty token lets nothing in.
    pub fn token(token: impl Into<String>, actor: Actor) -> Self {
        Self::of(Rule::Token(token.into().trim().to_owned(), actor))
    }

    /// Lets in requests with this user and password, as this actor: the browser asks for them.
    /// They travel with each request, so serve other machines by TLS alone.
    ///
    /// ```
    /// use workflow_http::{Access, Actor};
    ///
    /// let access = Access::password("ops", "correct horse", Actor::operator("ops"));
    /// # drop(access);
    /// ```
    pub fn password(user: &str, password: &str, actor: Actor) -> Self {
        let expected = STANDARD.encode(format!("{user}:{password}"));
        Self::of(Rule::Password(expected, actor))
    }

    /// Lets the application decide, for example by its session. `None` refuses the request.
    ///
    /// ```
    /// use workflow_http::{Access, Actor};
    ///
    /// let access = Access::by(async |parts| {
    ///     let name = parts.headers.get("x-user")?.to_str().ok()?;
    ///     Some(Actor::viewer(name).without_payloads())
    /// });
    /// # drop(access);
    /// ```
    pub fn by<F, Fut>(decide: F) -> Self
    where
        F: Fn(Parts) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Option<Actor>> + Send + 'static,
    {
        Self::of(Rule::By(Arc::new(move |parts| Box::pin(decide(parts)))))
    }

    /// Lets in every request, as admin. Only for a port that nothing else can reach.
    pub fn open() -> Self {
        Self::of(Rule::Open)
    }

    fn of(rule: Rule) -> Self {
        Self { rule, password: None, read_only: false, redact: Redact::default(), streams: Streams::default() }
    }

    /// Takes the token of [`Access::token`] as a password, too: a browser asks for a user and a
    /// password, which are `token` and the token. The browser sends both with each request, so
    /// serve other machines by TLS alone. Other rules stay as they are. Default: a token is a
    /// bearer token alone, which no browser asks for.
    pub fn for_browsers(mut self) -> Self {
        if let Rule::Token(token, _) = &self.rule {
            self.password = Some(STANDARD.encode(format!("token:{token}")));
        }
        self
    }

    /// Sets which fields of payloads are left out of answers. Default: [`Redact::default`].
    pub fn redact(mut self, redact: Redact) -> Self {
        self.redact = redact;
        self
    }

    pub(crate) fn redacting(&self) -> &Redact {
        &self.redact
    }

    /// Sets the bound on open streams of events, and what ends them. Several routers may share it.
    /// Default: [`Streams::default`]. Without [`Streams::end`] a server that stops waits for the
    /// streams that are open.
    pub fn streams(mut self, streams: Streams) -> Self {
        self.streams = streams;
        self
    }

    /// Returns the streams that are open.
    #[must_use]
    pub const fn open_streams(&self) -> &Streams {
        &self.streams
    }

    /// Refuses every change.
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// Returns `true` if [`read_only`](Access::read_only) was called.
    #[must_use]
    pub const fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Returns the actor of a request. A router of another crate, such as that of the pages, calls
    /// it, so that its requests are let in by these rules, too.
    ///
    /// # Errors
    /// The [`Refusal`] says why the request is not let in.
    ///
    /// # Cancel safety
    /// Nothing is changed: a dropped future leaves nothing behind.
    ///
    /// ```
    /// use axum::http::Request;
    /// use workflow_http::{Access, Refusal};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (parts, ()) = Request::get("/").header("Host", "evil.example").body(())?.into_parts();
    /// assert_eq!(Access::local().admit(&parts).await, Err(Refusal::Unknown));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn admit(&self, parts: &Parts) -> Result<Actor, Refusal> {
        let actor = self.actor(parts).await.ok_or(Refusal::Unknown)?;
        let reads = matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS);
        if !reads && is_of_another_site(&parts.headers) {
            return Err(Refusal::OtherSite);
        }
        if !reads && self.read_only {
            return Err(Refusal::ReadOnly);
        }
        Ok(actor)
    }

    /// Returns the actor of a request whose method does not say whether it changes something: a
    /// call of MCP is always a POST. Refuses each request of a page of another site. If this
    /// interface only reads, the actor is a viewer.
    ///
    /// # Errors
    /// [`Refusal::Unknown`], [`Refusal::OtherSite`].
    ///
    /// # Cancel safety
    /// Nothing is changed: a dropped future leaves nothing behind.
    pub async fn admit_call(&self, parts: &Parts) -> Result<Actor, Refusal> {
        let actor = self.actor(parts).await.ok_or(Refusal::Unknown)?;
        if is_of_another_site(&parts.headers) {
            return Err(Refusal::OtherSite);
        }
        Ok(self.restricted(actor))
    }

    /// Returns the actor, as a viewer if this interface only reads.
    #[must_use]
    pub fn restricted(&self, actor: Actor) -> Actor {
        if self.read_only { Actor { role: Role::Viewer, ..actor } } else { actor }
    }

    /// Returns the value of the header `WWW-Authenticate` for a request that is not let in.
    #[must_use]
    pub const fn challenge(&self) -> Option<&'static str> {
        match self.rule {
            Rule::Token(..) if self.password.is_none() => Some("Bearer"),
            Rule::Token(..) | Rule::Password(..) => Some(r#"Basic realm="workflows", charset="UTF-8""#),
            Rule::Local(_) | Rule::By(_) | Rule::Open => None,
        }
    }

    /// Returns how a request is let in that was not.
    #[must_use]
    pub const fn help(&self) -> &'static str {
        match self.rule {
            Rule::Token(..) if self.password.is_none() => "send the header Authorization: Bearer TOKEN",
            Rule::Token(..) => "give the user `token`, and the token as the password",
            Rule::Password(..) => "give the user and the password",
            Rule::Local(_) => "ask from this machine, by the name localhost and without a proxy",
            Rule::By(_) | Rule::Open => "sign in to the application",
        }
    }

    async fn actor(&self, parts: &Parts) -> Option<Actor> {
        match &self.rule {
            Rule::Open => Some(Actor::admin("open")),
            Rule::Local(actor) => is_local(parts).then(|| actor.clone()),
            Rule::Token(token, _) if token.is_empty() => None,
            Rule::Token(token, actor) => {
                let password = self.password.as_deref();
                let is_password = password.is_some_and(|expected| has_credentials(parts, "Basic ", expected));
                (is_password || has_credentials(parts, "Bearer ", token)).then(|| actor.clone())
            }
            Rule::Password(expected, actor) => has_credentials(parts, "Basic ", expected).then(|| actor.clone()),
            Rule::By(decide) => decide(copy(parts)).await,
        }
    }
}

/// Why a request is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// The request has no actor.
    Unknown,
    /// A page of another site sent the request, and it would change something.
    OtherSite,
    /// The request would change something, and the interface only reads.
    ReadOnly,
}

impl Refusal {
    /// Returns the HTTP status that fits.
    #[must_use]
    pub const fn status(self) -> StatusCode {
        match self {
            Self::Unknown => StatusCode::UNAUTHORIZED,
            Self::OtherSite | Self::ReadOnly => StatusCode::FORBIDDEN,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "the request is not let in",
            Self::OtherSite => "a page of another site must not change anything",
            Self::ReadOnly => "this interface only reads",
        })
    }
}

/// Returns `true` if the request has these credentials under this scheme.
fn has_credentials(parts: &Parts, scheme: &str, expected: &str) -> bool {
    let header = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    header.and_then(|value| value.strip_prefix(scheme)).is_some_and(|given| are_equal(given.trim(), expected))
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = match self.rule {
            Rule::Local(_) => "local",
            Rule::Token(..) => "token",
            Rule::Password(..) => "password",
            Rule::By(_) => "by",
            Rule::Open => "open",
        };
        f.debug_struct("Access")
            .field("rule", &rule)
            .field("read_only", &self.read_only)
            .field("redact", &self.redact)
            .finish()
    }
}

/// Compares in a time that does not depend on the place of the first difference.
fn are_equal(one: &str, other: &str) -> bool {
    let differences = one.bytes().zip(other.bytes()).fold(0, |all, (one, other)| all | (one ^ other));
    one.len() == other.len() && differences == 0
}

fn copy(parts: &Parts) -> Parts {
    let mut request = axum::http::Request::new(());
    *request.method_mut() = parts.method.clone();
    *request.uri_mut() = parts.uri.clone();
    *request.headers_mut() = parts.headers.clone();
    *request.extensions_mut() = parts.extensions.clone();
    request.into_parts().0
}

/// Lets a request in, with its actor, or refuses it.
pub(crate) async fn check(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    match access.admit(&parts).await {
        Ok(actor) => parts.extensions.insert(actor),
        Err(refusal) => return refusal_response(&access, refusal),
    };
    next.run(Request::from_parts(parts, body)).await
}

/// Returns the problem of a request that is not let in.
pub(crate) fn refusal_problem(access: &Access, refusal: Refusal) -> Problem {
    let (code, help) = match refusal {
        Refusal::Unknown => ("unauthorized", access.help()),
        Refusal::OtherSite => ("forbidden", "ask from a program, or from a page of this origin"),
        Refusal::ReadOnly => ("forbidden", "use one that may change something"),
    };
    Problem::new(refusal.status(), code, refusal.to_string(), help)
}

/// Returns the answer to a request that is not let in.
pub fn refusal_response(access: &Access, refusal: Refusal) -> Response {
    let mut response = refusal_problem(access, refusal).into_response();
    if let (Refusal::Unknown, Some(challenge)) = (refusal, access.challenge()) {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    }
    response
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use futures::FutureExt;

    use super::*;

    #[test]
    fn tokens_are_compared_whole() {
        assert!(are_equal("abc", "abc"));
        assert!(!are_equal("abc", "abd") && !are_equal("abc", "ab") && !are_equal("", "a"));
    }

    fn lets_in(access: &Access, authorization: &str) -> bool {
        let request = axum::http::Request::get("/").header(header::AUTHORIZATION, authorization).body(()).unwrap();
        let (parts, ()) = request.into_parts();
        access.admit(&parts).now_or_never().unwrap().is_ok()
    }

    #[test]
    fn spaces_and_line_breaks_around_a_token_do_not_count() {
        let basic = |password: &str| format!("Basic {}", STANDARD.encode(format!("token:{password}")));
        for token in ["s3cr3t", "s3cr3t\n", " s3cr3t\r\n"] {
            let access = Access::token(token, Actor::viewer("ci")).for_browsers();
            assert!(lets_in(&access, "Bearer s3cr3t") && lets_in(&access, "Bearer s3cr3t "), "{token:?}");
            assert!(lets_in(&access, &basic("s3cr3t")), "{token:?}");
            assert!(!lets_in(&access, "Bearer s3cr3") && !lets_in(&access, &basic("s3cr3t\n")), "{token:?}");
        }
        for empty in ["", "\n"] {
            let access = Access::token(empty, Actor::viewer("ci")).for_browsers();
            assert!(!lets_in(&access, "Bearer ") && !lets_in(&access, &basic("")), "{empty:?}");
        }
    }
}
