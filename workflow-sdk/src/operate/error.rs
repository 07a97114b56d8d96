use serde::{Deserialize, Serialize};

use super::QueryError;
use super::query::nearest;

/// The kind of a refusal or failure, for programs.
///
/// | Code | HTTP status | Exit code |
/// |---|---|---|
/// | `bad_query`, `bad_cursor`, `bad_limit`, `bad_input` | 400 | 2 |
/// | `too_large` | 413 | 2 |
/// | `unauthorized` | 401 | 3 |
/// | `forbidden` | 403 | 3 |
/// | `not_found` | 404 | 4 |
/// | `conflict`, `standby` | 409 | 1 |
/// | `full` | 429 | 1 |
/// | `unreadable` | 500 | 1 |
/// | `timed_out` | 504 | 7 |
/// | `unavailable` | 503 | 9 |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OperateErrorCode {
    /// The text of a query is refused. [`OperateError::query`] says where.
    BadQuery,
    /// A cursor is damaged, of another release, or of another query.
    BadCursor,
    /// A limit is out of range.
    BadLimit,
    /// A name, a value or an option of an order is refused.
    BadInput,
    /// A value is larger than the client's limit.
    TooLarge,
    /// A server does not let the caller in. A database never answers so.
    Unauthorized,
    /// A server does not let this caller do this. A database never answers so.
    Forbidden,
    /// There is nothing of this id or name.
    NotFound,
    /// The order does not fit the state of its target, such as the retry of a run that has not
    /// failed.
    Conflict,
    /// The order reached a standby, which takes no changes. The message names the database, the
    /// help its primary as far as it is known.
    Standby,
    /// A queue, a gate or an inbox has no room.
    Full,
    /// A payload or a row that the call needs cannot be understood by this program.
    Unreadable,
    /// The database did not answer in time.
    TimedOut,
    /// The database cannot be reached, or it failed.
    Unavailable,
}

impl OperateErrorCode {
    /// Returns whether every order of one kind fails for this reason, whatever its target, so that
    /// there is no use in trying the next one. After [`TimedOut`](Self::TimedOut) and
    /// [`Unavailable`](Self::Unavailable) it is not known whether the order was carried out.
    ///
    /// ```
    /// use workflow_sdk::operate::OperateErrorCode;
    ///
    /// assert!(OperateErrorCode::Unavailable.applies_to_all());
    /// assert!(!OperateErrorCode::Conflict.applies_to_all());
    /// ```
    #[must_use]
    pub const fn applies_to_all(self) -> bool {
        matches!(
            self,
            Self::Unavailable | Self::TimedOut | Self::BadInput | Self::Standby | Self::Forbidden | Self::Unauthorized
        )
    }

    /// Returns the HTTP status that fits.
    #[must_use]
    pub const fn http_status(self) -> u16 {
        match self {
            Self::BadQuery | Self::BadCursor | Self::BadLimit | Self::BadInput => 400,
            Self::Unauthorized => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::Conflict | Self::Standby => 409,
            Self::TooLarge => 413,
            Self::Full => 429,
            Self::Unreadable => 500,
            Self::Unavailable => 503,
            Self::TimedOut => 504,
        }
    }

    /// Returns the exit code of a process that fits.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Conflict | Self::Standby | Self::Full | Self::Unreadable => 1,
            Self::BadQuery | Self::BadCursor | Self::BadLimit | Self::BadInput | Self::TooLarge => 2,
            Self::Unauthorized | Self::Forbidden => 3,
            Self::NotFound => 4,
            Self::TimedOut => 7,
            Self::Unavailable => 9,
        }
    }
}

/// Why a call of [`Operate`](super::Operate) failed. Nothing was changed. If an order fails with
/// [`TimedOut`](OperateErrorCode::TimedOut) or [`Unavailable`](OperateErrorCode::Unavailable), its
/// effect is unknown.
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
    /// Returns an error, for implementations of [`Operate`](super::Operate). `help` says what to do
    /// about it.
    pub fn new(code: OperateErrorCode, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { code, message: message.into(), help: help.into(), query: None }
    }

    pub(super) fn not_found(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::new(OperateErrorCode::NotFound, message, help)
    }

    pub(super) fn not_understood(why: impl Into<String>) -> Self {
        Self::new(OperateErrorCode::Unreadable, why, "use the release that wrote it, or a later one")
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
