use serde::{Deserialize, Serialize};

use crate::ClientError;

use super::QueryError;
use super::query::nearest;

/// The kind of a refusal or failure, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OperateErrorCode {
    /// The text of a query is refused. [`OperateError::query`] says where.
    BadQuery,
    /// A cursor is damaged, of another release, or of another query.
    BadCursor,
    /// A limit is out of range.
    BadLimit,
    /// A value of the request is refused.
    BadInput,
    /// There is nothing of this name or id.
    NotFound,
    /// The row is of a later release, or damaged.
    NotUnderstood,
    /// The database did not answer in time.
    TimedOut,
    /// The database cannot be reached, or it failed.
    Unavailable,
}

/// Why a call of [`Operate`](super::Operate) failed. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}; {help}")]
#[non_exhaustive]
pub struct OperateError {
    /// The kind.
    pub code: OperateErrorCode,
    /// The mistake or the failure.
    pub message: String,
    /// The way out.
    pub help: String,
    /// The place of the mistake in a query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<QueryError>,
}

impl OperateError {
    pub(super) fn new(code: OperateErrorCode, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { code, message: message.into(), help: help.into(), query: None }
    }

    pub(super) fn not_found(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::new(OperateErrorCode::NotFound, message, help)
    }

    pub(super) fn not_understood(why: impl Into<String>) -> Self {
        Self::new(OperateErrorCode::NotUnderstood, why, "use the release that wrote it, or a later one")
    }

    /// Returns the refusal of an unknown name, with the nearest known one.
    pub(super) fn unknown_name<'n>(what: &str, name: &str, known: impl IntoIterator<Item = &'n str>) -> Self {
        let help = match nearest(name, known) {
            Some(near) => format!("did you mean {near:?}?"),
            None => format!("list the {what}s"),
        };
        Self::not_found(format!("there is no {what} {name:?}"), help)
    }

    /// Refuses a page that is empty, or too large to be held in memory.
    pub(super) fn check_limit(limit: u32, most: u32, what: &str) -> Result<(), Self> {
        if (1..=most).contains(&limit) {
            return Ok(());
        }
        let (message, help) = (format!("a page of {limit} {what} is refused"), format!("ask for 1 to {most} {what}"));
        Err(Self::new(OperateErrorCode::BadLimit, message, help))
    }
}

impl From<QueryError> for OperateError {
    fn from(error: QueryError) -> Self {
        let QueryError { column, word, message, help, .. } = &error;
        let message = format!("the query is refused at column {column}, in {word:?}: {message}");
        Self { query: Some(error.clone()), ..Self::new(OperateErrorCode::BadQuery, message, help) }
    }
}

impl From<ClientError> for OperateError {
    fn from(error: ClientError) -> Self {
        let (code, help) = match &error {
            ClientError::TimedOut { .. } => (OperateErrorCode::TimedOut, "try again, or with a longer call_timeout"),
            _ => (OperateErrorCode::Unavailable, "check that the database runs and can be reached, then try again"),
        };
        Self::new(code, error.to_string(), help)
    }
}
