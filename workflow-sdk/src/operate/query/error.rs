use std::fmt;

use serde::{Deserialize, Serialize};

/// The kind of a mistake in a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum QueryErrorKind {
    /// The query is longer than [`Query::MAX_BYTES`](super::Query::MAX_BYTES), or has more words
    /// than [`Query::MAX_WORDS`](super::Query::MAX_WORDS).
    TooLong,
    /// A word is not `NAME:VALUE`.
    NotAWord,
    /// No word has this name.
    UnknownName,
    /// The word is part of the grammar, but this release cannot search for it.
    NotSupported,
    /// The word has no value.
    NoValue,
    /// The value is not one that the word can have.
    BadValue,
    /// A quote is not closed, or stands where none may stand.
    BadQuotes,
    /// The word cannot be negated.
    NotNegatable,
}

impl QueryErrorKind {
    /// Returns the word by which programs tell kinds apart.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TooLong => "too_long",
            Self::NotAWord => "not_a_word",
            Self::UnknownName => "unknown_name",
            Self::NotSupported => "not_supported",
            Self::NoValue => "no_value",
            Self::BadValue => "bad_value",
            Self::BadQuotes => "bad_quotes",
            Self::NotNegatable => "not_negatable",
        }
    }
}

/// A query that is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct QueryError {
    /// The kind of the mistake.
    pub kind: QueryErrorKind,
    /// The word with the mistake, cut after 80 characters.
    pub word: String,
    /// Where the mistake begins, in bytes from the beginning of the query, from 0.
    pub byte: usize,
    /// Where the mistake begins, in characters from the beginning of the query, from 1.
    pub column: usize,
    /// The mistake.
    pub message: String,
    /// The way out: a text to write instead.
    pub help: String,
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { word, column, message, help, .. } = self;
        write!(f, "the query is refused at column {column}, in {word:?}: {message}; {help}")
    }
}
