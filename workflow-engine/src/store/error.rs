use std::fmt;

use crate::faults::Fault;

/// The kind of an error of a database: what a caller can do about it. Derived from SQLSTATE and
/// SQLite result codes, never from texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DatabaseErrorKind {
    /// Contention, a time-out or a full disk: the same call may succeed later.
    Busy,
    /// The database cannot be reached, or the connection broke. The call may or may not have had
    /// its effect.
    Unreachable,
    /// The database refused the data itself: the same call can never succeed.
    Invalid,
    /// The database is read-only.
    ReadOnly,
    /// The server is a primary from before a failover, so its address leads to the past. Nothing
    /// was sent to it. An earlier try of the same call may have had its effect on another server.
    OldTimeline,
    /// The system in this database was moved to another one, or is being moved: every write is
    /// refused.
    Moved,
    /// A stored value cannot be understood, or the database reports that it is damaged.
    Corrupt,
    /// A payload could not be encoded or decoded. After a failed decoding the source is an
    /// [`UnreadablePayload`](crate::model::UnreadablePayload).
    Codec,
    /// Anything else.
    Other,
}

impl DatabaseErrorKind {
    /// `true` if the same call may succeed later.
    #[must_use]
    pub const fn is_transient(self) -> bool {
        match self {
            Self::Busy | Self::Unreachable | Self::ReadOnly | Self::OldTimeline => true,
            Self::Invalid | Self::Moved | Self::Corrupt | Self::Codec | Self::Other => false,
        }
    }
}

/// An error of a database.
#[derive(Debug, thiserror::Error)]
#[error("{operation}: {kind}")]
pub struct DatabaseError {
    /// The kind, which tells what a caller can do.
    pub kind: DatabaseErrorKind,
    /// The operation that failed.
    pub operation: &'static str,
    /// The driver's error.
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

impl DatabaseError {
    /// Returns a copy, for another write that fails by the same error. Of the driver's error it has
    /// the text.
    #[must_use]
    pub fn copied(&self) -> Self {
        Self::new(self.kind, self.operation, self.source.to_string())
    }

    /// Returns an error of this kind during `operation`.
    pub fn new(
        kind: DatabaseErrorKind,
        operation: &'static str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self { kind, operation, source: source.into() }
    }
}

impl From<Fault> for DatabaseError {
    #[cfg(feature = "failpoints")]
    fn from(fault: Fault) -> Self {
        let why = format!("injected by the failpoint {}", fault.point());
        Self::new(DatabaseErrorKind::Unreachable, "reach a failpoint", why)
    }

    #[cfg(not(feature = "failpoints"))]
    fn from(fault: Fault) -> Self {
        match fault {}
    }
}

impl fmt::Display for DatabaseErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Busy => "the database is busy",
            Self::Unreachable => "the database cannot be reached",
            Self::Invalid => "the database refused the data",
            Self::ReadOnly => "the database is read-only",
            Self::OldTimeline => "the database is a primary from before a failover",
            Self::Moved => "the system was moved to another database, or is being moved",
            Self::Corrupt => "the stored data cannot be understood",
            Self::Codec => "a payload cannot be encoded or decoded",
            Self::Other => "the database failed",
        })
    }
}
