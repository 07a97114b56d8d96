use serde::{Deserialize, Serialize};

use crate::ClientError;

use super::QueryError;

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
