//! Errors as pages.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use workflow_http::Refusal;
use workflow_sdk::operate::{OperateError, OperateErrorCode};

use crate::forms;
use crate::visit::{Visit, is_inside};

/// An error that becomes a page: what is wrong, and what to do next.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) title: String,
    message: String,
    help: String,
    /// The fields of the form that was refused, if its page offers to send them again.
    sent: Option<BTreeMap<String, String>>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, title: &str, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { status, title: title.into(), message: message.into(), help: help.into(), sent: None }
    }

    /// Shows a form with these fields on the page, unless it shows one.
    pub(crate) fn sent(self, fields: BTreeMap<String, String>) -> Self {
        Self { sent: self.sent.or(Some(fields)), ..self }
    }

    pub(crate) fn no_page() -> Self {
        let message = "The address leads to no page of the dashboard.";
        Self::new(StatusCode::NOT_FOUND, "There is no such page", message, "Begin at the overview.")
    }

    /// Says that the list of this kind of thing has none of this name.
    pub(crate) fn unknown(kind: &str, name: &str) -> Self {
        let message = format!("there is no {kind} {name:?}");
        Self::new(StatusCode::NOT_FOUND, "This is not here", message, format!("the list has every {kind}"))
    }

    /// Refuses a value of the request.
    pub(crate) fn bad_input(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "This cannot be read", message, help)
    }

    pub(crate) fn forbidden(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "You may not do this", message, help)
    }

    pub(crate) fn refused(refusal: Refusal, help: &str) -> Self {
        let title = if refusal == Refusal::Unknown { "You are not let in" } else { "You may not do this" };
        let help = match refusal {
            Refusal::Unknown => help,
            Refusal::ReadOnly => "Use an instance that may change something.",
            _ => "Open the dashboard itself, and do it there.",
        };
        Self::new(refusal.status(), title, refusal.to_string(), help)
    }

    /// Returns the content of the page.
    pub(crate) fn body(&self, visit: &Visit) -> Markup {
        let sent = self.sent.as_ref();
        let back = sent.and_then(|sent| sent.get("back")).filter(|back| is_inside(back));
        html! {
            div.page {
                section.empty role="alert" {
                    p.code { (self.status.as_u16()) }
                    h2 { (self.title) }
                    p { (sentence(&self.message)) }
                    p.dim { (sentence(&self.help)) }
                    p.acts {
                        a.btn href=(visit.link(back.map_or(visit.again(), String::as_str))) {
                            @if sent.is_some() { "Go back" } @else { "Try again" }
                        }
                        a.btn.ghost href=(visit.link("/")) { "Overview" }
                    }
                }
                @if let Some(sent) = sent { (forms::again(visit, sent)) }
            }
        }
    }
}

/// Returns the text with a large first letter and a full stop.
pub(crate) fn sentence(text: &str) -> String {
    let mut letters = text.trim().chars();
    let mut sentence: String = letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect();
    if sentence.ends_with(char::is_alphanumeric) {
        sentence.push('.');
    }
    sentence
}

impl From<OperateError> for Problem {
    fn from(error: OperateError) -> Self {
        let status = StatusCode::from_u16(error.code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let title = match error.code {
            OperateErrorCode::NotFound => "This is not here",
            OperateErrorCode::Unavailable => "The database is away",
            OperateErrorCode::TimedOut => "The database did not answer in time",
            OperateErrorCode::Conflict => "This does not fit its state",
            OperateErrorCode::Standby => "This database takes no changes",
            OperateErrorCode::Full => "There is no room",
            OperateErrorCode::Unreadable => "This cannot be understood",
            _ => "This is refused",
        };
        Self::new(status, title, error.message, error.help)
    }
}

/// Leaves the page itself to [`enter`](crate::visit::enter), which knows the prefix of its links.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        if self.status.is_server_error() {
            tracing::warn!(status = self.status.as_u16(), "a page failed");
        }
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_become_sentences() {
        assert_eq!(sentence("there is no run x"), "There is no run x.");
        assert_eq!(sentence("did you mean \"a\"?"), "Did you mean \"a\"?");
        assert_eq!(sentence(""), "");
        assert_eq!(sentence("éa"), "Éa.");
    }
}
