use std::fmt;

/// What a caller can do about an error of a database. Found from SQLSTATE and SQLite result codes, never from texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DatabaseErrorKind {
    /// Contention, a time-out, a full disk: the same call may succeed later.
    Busy,
    /// The database cannot be reached, or the connection broke; the effect of the call is unknown.
    Unreachable,
    /// The database refused the data itself: the same call can never succeed.
    Invalid,
    /// The database takes no writes.
    ReadOnly,
    /// What is stored cannot be understood, or the database says that it is damaged.
    Corrupt,
    /// A payload could not be encoded or decoded; the source of the latter is an
    /// [`UnreadablePayload`](crate::model::UnreadablePayload).
    Codec,
    /// Anything else.
    Other,
}

impl DatabaseErrorKind {
    /// Whether the same call may succeed later.
    #[must_use]
    pub const fn is_transient(self) -> bool {
        match self {
            Self::Busy | Self::Unreachable | Self::ReadOnly => true,
            Self::Invalid | Self::Corrupt | Self::Codec | Self::Other => false,
        }
    }
}

/// An error of a database.
#[derive(Debug, thiserror::Error)]
#[error("{operation}: {kind}")]
pub struct DatabaseError {
    /// What a caller can do about it.
    pub kind: DatabaseErrorKind,
    /// What was being done.
    pub operation: &'static str,
    /// The driver's error.
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

impl DatabaseError {
    /// An error of this kind while doing `operation`.
    pub fn new(
        kind: DatabaseErrorKind,
        operation: &'static str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self { kind, operation, source: source.into() }
    }
}

impl fmt::Display for DatabaseErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Busy => "the database is busy",
            Self::Unreachable => "the database cannot be reached",
            Self::Invalid => "the database refused the data",
            Self::ReadOnly => "the database is read-only",
            Self::Corrupt => "the stored data cannot be understood",
            Self::Codec => "a payload cannot be encoded or decoded",
            Self::Other => "the database failed",
        })
    }
}
