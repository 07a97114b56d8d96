//! One request of a browser: its actor, the prefix of its links, and what its cookies say.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::{OriginalUri, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use workflow_http::{Access, Actor, Refusal};
use workflow_sdk::Timestamp;
use workflow_sdk::operate::{OperateError, Query, Role};

use crate::frame;
use crate::problem::Problem;

/// The cookie whose value every form repeats. A page of another site cannot read it.
const TOKEN: &str = "workflow_token";
/// The cookie with a sentence for the next page.
const NOTE: &str = "workflow_note";
/// The cookies that the script writes.
const THEME: &str = "workflow_theme";

/// One request of a browser.
#[derive(Clone, Debug)]
pub(crate) struct Visit {
    pub(crate) actor: Actor,
    pub(crate) now: Timestamp,
    /// The token of the forms.
    pub(crate) token: String,
    /// A sentence about what was just done.
    pub(crate) note: Option<String>,
    /// The theme that was chosen, `light` or `dark`. `None`: that of the system.
    pub(crate) theme: Option<&'static str>,
    /// `true` if the script asks for the content alone, or for changes, to refresh a page.
    pub(crate) is_part: bool,
    /// The tag of the content that the script has.
    pub(crate) has_tag: Option<String>,
    read_only: bool,
    has_token: bool,
    prefix: String,
    inner: String,
    /// The path of the page before this one, if that is one of the dashboard.
    before: Option<String>,
}

impl Visit {
    fn of(parts: &Parts, read_only: bool) -> Self {
        let inner = parts.uri.path_and_query().map_or("/", |inner| inner.as_str()).to_owned();
        let prefix = parts.extensions.get::<OriginalUri>().map(|OriginalUri(uri)| uri.path());
        let token = cookie(&parts.headers, TOKEN).filter(|token| token.len() == 32).map(str::to_owned);
        let note = cookie(&parts.headers, NOTE).and_then(|text| URL_SAFE_NO_PAD.decode(text).ok());
        let prefix = prefix.map_or_else(String::new, |original| prefix_of(original, parts.uri.path()));
        let referer = parts.headers.get(header::REFERER).and_then(|referer| referer.to_str().ok());
        Self {
            before: referer.and_then(|referer| path_below(referer, &prefix)),
            actor: Actor::viewer("unknown").without_payloads(),
            now: now(),
            has_token: token.is_some(),
            token: token.unwrap_or_else(new_token),
            note: note.and_then(|text| String::from_utf8(text).ok()),
            theme: match cookie(&parts.headers, THEME) {
                Some("light") => Some("light"),
                Some("dark") => Some("dark"),
                _ => None,
            },
            is_part: parts.headers.contains_key("x-workflow-part") || is_stream(&parts.headers),
            has_tag: parts.headers.get("x-workflow-tag").and_then(|tag| tag.to_str().ok()).map(str::to_owned),
            read_only,
            prefix,
            inner,
        }
    }

    /// Returns a link to a path of the dashboard, which begins with a slash. The router answers at
    /// the prefix itself, also with a query, but not with a slash at its end.
    pub(crate) fn link(&self, inner: &str) -> String {
        let inner = match inner.strip_prefix('/') {
            Some(query) if !self.prefix.is_empty() && (query.is_empty() || query.starts_with('?')) => query,
            _ => inner,
        };
        format!("{}{inner}", self.prefix)
    }

    /// Returns the path and the query below the prefix.
    pub(crate) fn inner(&self) -> &str {
        &self.inner
    }

    /// Returns the path to go to after an error: the same page again, or that of the form.
    pub(crate) fn again(&self) -> &str {
        let is_form = self.inner.starts_with("/orders");
        let path = if is_form { self.before.as_deref().unwrap_or("/") } else { &self.inner };
        if is_inside(path) { path } else { "/" }
    }

    /// Returns the prefix, or a slash if there is none: the path of the cookies.
    pub(crate) fn root(&self) -> &str {
        if self.prefix.is_empty() { "/" } else { &self.prefix }
    }

    /// Returns `true` if the actor may do what needs this role.
    pub(crate) fn may(&self, role: Role) -> bool {
        !self.read_only && self.actor.role >= role
    }

    /// Reads a query, and refuses one that the actor may not search by.
    pub(crate) fn query(&self, text: &str) -> Result<Query, Problem> {
        let query: Query = text.parse().map_err(OperateError::from)?;
        self.check_search(&query)?;
        Ok(query)
    }

    /// Refuses a query that the actor may not search by.
    pub(crate) fn check_search(&self, query: &Query) -> Result<(), Problem> {
        if self.actor.may_search(query) {
            return Ok(());
        }
        let message = "The texts of errors are hidden from you, so you cannot search for them.";
        Err(Problem::forbidden(message, "Take the word error: away."))
    }

    /// Returns `true` if a form has the token of the browser's cookie.
    pub(crate) fn has_sent_token(&self, token: &str) -> bool {
        self.has_token && !token.is_empty() && token == self.token
    }

    #[cfg(test)]
    pub(crate) fn of_test(now: Timestamp, inner: &str) -> Self {
        Self {
            actor: Actor::admin("ada"),
            now,
            token: "token".into(),
            note: None,
            theme: None,
            is_part: false,
            has_tag: None,
            read_only: false,
            has_token: true,
            prefix: "/workflows".into(),
            before: None,
            inner: inner.into(),
        }
    }
}

/// Returns the part of the original path before the path below it. A nested router sees `/` for
/// its prefix itself.
fn prefix_of(original: &str, inner: &str) -> String {
    match original.strip_suffix(inner) {
        Some(prefix) => prefix.to_owned(),
        None => original.trim_end_matches('/').to_owned(),
    }
}

/// Returns the path below the prefix of an address.
fn path_below(address: &str, prefix: &str) -> Option<String> {
    let path = address.split_once("://")?.1.split_once('/')?.1;
    let inner = format!("/{path}").strip_prefix(prefix)?.to_owned();
    inner.starts_with('/').then_some(inner)
}

/// Returns `true` if the browser asks for a stream of events.
fn is_stream(headers: &HeaderMap) -> bool {
    headers.get(header::ACCEPT).is_some_and(|accept| accept == "text/event-stream")
}

fn now() -> Timestamp {
    let passed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(passed.as_micros()).unwrap_or(i64::MAX))
}

fn new_token() -> String {
    let mut bytes = [0; 24];
    // Without random bytes the token is empty, and no form with an empty token is accepted.
    match getrandom::fill(&mut bytes) {
        Ok(()) => URL_SAFE_NO_PAD.encode(bytes),
        Err(_) => String::new(),
    }
}

fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = all.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(known, _)| *known == name).map(|(_, value)| value)
}

/// Returns the header that keeps a sentence for the next page.
pub(crate) fn note_for_next(visit: &Visit, note: &str) -> (header::HeaderName, String) {
    let short: String = note.chars().take(500).collect();
    let text = URL_SAFE_NO_PAD.encode(short);
    (header::SET_COOKIE, format!("{NOTE}={text}; Path={}; Max-Age=30; HttpOnly; SameSite=Lax", visit.root()))
}

/// Lets a request in with its visit, and makes the page of an error.
pub(crate) async fn enter(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let mut visit = Visit::of(&parts, access.is_read_only());
    let challenge = access.challenge().map(HeaderValue::from_static);
    let mut response = match access.admit(&parts).await {
        Ok(actor) => {
            visit.actor = actor;
            parts.extensions.insert(visit.clone());
            next.run(Request::from_parts(parts, body)).await
        }
        Err(refusal) => {
            let mut response = Problem::refused(refusal, access.help()).into_response();
            if let (Refusal::Unknown, Some(challenge)) = (refusal, challenge) {
                response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
            }
            response
        }
    };
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        let known = problem.status != StatusCode::UNAUTHORIZED;
        let mut page = (problem.status, frame::error(&visit, &problem, known)).into_response();
        page.headers_mut().extend(response.headers().clone().into_iter().filter_map(|(name, value)| {
            name.filter(|name| name == header::WWW_AUTHENTICATE).map(|name| (name, value))
        }));
        response = page;
    }
    set_cookies(&visit, &mut response);
    response
}

fn set_cookies(visit: &Visit, response: &mut Response) {
    let root = visit.root();
    let mut cookies = Vec::new();
    if !visit.has_token && !visit.is_part && !visit.token.is_empty() {
        cookies.push(format!("{TOKEN}={}; Path={root}; HttpOnly; SameSite=Lax", visit.token));
    }
    let is_shown = visit.note.is_some() && !response.status().is_redirection() && !visit.is_part;
    if is_shown {
        cookies.push(format!("{NOTE}=; Path={root}; Max-Age=0; HttpOnly; SameSite=Lax"));
    }
    for cookie in cookies.into_iter().filter_map(|cookie| HeaderValue::from_str(&cookie).ok()) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
}

/// Returns `true` if this is a path below the prefix, and nothing that leads elsewhere.
pub(crate) fn is_inside(path: &str) -> bool {
    let is_path = path.starts_with('/') && !path.starts_with("//");
    is_path && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_is_what_a_nested_router_does_not_see() {
        for (original, inner, prefix) in [
            ("/", "/", ""),
            ("/runs", "/runs", ""),
            ("/workflows", "/", "/workflows"),
            ("/workflows/", "/", "/workflows"),
            ("/a/b/runs/1", "/runs/1", "/a/b"),
        ] {
            assert_eq!(prefix_of(original, inner), prefix, "{original}");
        }
    }

    #[test]
    fn a_link_to_the_overview_has_no_slash_behind_the_prefix() {
        let nested = Visit::of_test(Timestamp::from_micros(0), "/");
        let alone = Visit { prefix: String::new(), ..nested.clone() };
        for (inner, below, without) in [
            ("/", "/workflows", "/"),
            ("/?range=24h", "/workflows?range=24h", "/?range=24h"),
            ("/runs?q=/?", "/workflows/runs?q=/?", "/runs?q=/?"),
        ] {
            assert_eq!((nested.link(inner).as_str(), alone.link(inner).as_str()), (below, without));
        }
    }

    #[test]
    fn the_page_before_is_one_of_the_dashboard() {
        let below = |address| path_below(address, "/workflows");
        assert_eq!(below("http://localhost:7777/workflows/runs?q=a").as_deref(), Some("/runs?q=a"));
        for address in ["http://localhost:7777/other", "http://localhost", "nonsense", "http://a/workflowsx"] {
            assert_eq!(below(address), None, "{address}");
        }
    }

    #[test]
    fn a_link_back_leads_to_this_dashboard_alone() {
        for back in ["/", "/runs?q=status%3Afailed", "/runs/0190"] {
            assert!(is_inside(back), "{back}");
        }
        for back in ["", "//evil.example", "https://evil.example", "/\\evil.example", "/a\r\nSet-Cookie: x", "runs"] {
            assert!(!is_inside(back), "{back}");
        }
    }

    #[test]
    fn cookies_are_found_by_their_whole_name() {
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, HeaderValue::from_static("xworkflow_theme=a; workflow_theme=dark;b"));
        assert_eq!(cookie(&headers, THEME), Some("dark"));
        assert_eq!(cookie(&headers, TOKEN), None);
    }
}
