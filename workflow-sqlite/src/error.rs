//! Decides what an error of SQLite means: by its result code, never by its text.

use std::time::Duration;

use workflow_engine::store::{DatabaseError, DatabaseErrorKind};

/// The deadline of a call. It is longer than the wait for a lock, so that SQLite reports the reason
/// first.
pub(super) const DEADLINE: Duration = Duration::from_secs(30);

/// For how long SQLite itself waits for the write lock. It looks three times. With a longer time it
/// comes to look rarely, and beside processes that commit one batch after another it hardly ever
/// finds the lock free (D0061).
pub(super) const LOCK_TIMEOUT: Duration = Duration::from_millis(8);

/// How often a call asks for the write lock: for at most 10 s. Calls are counted, because the time
/// for which the process is stopped must not count.
const MOST_CALLS: u32 = 1250;

/// Names the operation that failed with an error of the driver.
pub(super) trait During<T> {
    /// Returns the error as one of the store.
    fn during(self, operation: &'static str) -> Result<T, DatabaseError>;
}

impl<T> During<T> for Result<T, sqlx::Error> {
    fn during(self, operation: &'static str) -> Result<T, DatabaseError> {
        self.map_err(|error| DatabaseError::new(kind_of(&error), operation, error))
    }
}

/// JSON text can always be written; a text that cannot be is refused data.
impl<T> During<T> for Result<T, serde_json::Error> {
    fn during(self, operation: &'static str) -> Result<T, DatabaseError> {
        self.map_err(|error| DatabaseError::new(DatabaseErrorKind::Invalid, operation, error))
    }
}

/// Runs a call, and returns an error of kind `Busy` if it has not ended after [`DEADLINE`].
pub(super) async fn within_deadline<T>(
    operation: &'static str,
    call: impl Future<Output = Result<T, DatabaseError>>,
) -> Result<T, DatabaseError> {
    match tokio::time::timeout(DEADLINE, call).await {
        Ok(result) => result,
        Err(elapsed) => Err(DatabaseError::new(DatabaseErrorKind::Busy, operation, elapsed)),
    }
}

/// Runs a call that needs the write lock of the file, within [`DEADLINE`]. While another connection
/// holds the lock, the call fails after [`LOCK_TIMEOUT`] without an effect, and runs again. A
/// macro, because a future that borrows what a closure may change is not known to be `Send`.
macro_rules! with_write_lock {
    ($operation:expr, $call:expr) => {
        $crate::error::within_deadline($operation, async {
            let mut calls = 1;
            loop {
                match $call.await {
                    Err(error) if $crate::error::is_locked(&error, calls) => calls += 1,
                    ended => break ended,
                }
            }
        })
        .await
    };
}
pub(super) use with_write_lock;

/// Returns `true` if so many calls have found the write lock taken, and another one should look. A
/// transaction that read before it asked for the lock gets another code (`SQLITE_BUSY_SNAPSHOT`),
/// and is refused: ours ask first.
pub(super) fn is_locked(error: &DatabaseError, calls: u32) -> bool {
    calls < MOST_CALLS && sqlite_code(error.source.as_ref()) == Some(libsqlite3_sys::SQLITE_BUSY)
}

/// Returns the error for a stored value that cannot be understood.
pub(super) fn corrupt(
    operation: &'static str,
    why: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> DatabaseError {
    DatabaseError::new(DatabaseErrorKind::Corrupt, operation, why)
}

/// Returns the error of every call after the store was closed.
pub(super) fn closed(operation: &'static str) -> DatabaseError {
    DatabaseError::new(DatabaseErrorKind::Unreachable, operation, sqlx::Error::PoolClosed)
}

/// Returns the extended result code, if the error comes from SQLite.
pub(super) fn sqlite_code(error: &(dyn std::error::Error + 'static)) -> Option<i32> {
    match error.downcast_ref::<sqlx::Error>() {
        Some(sqlx::Error::Database(database)) => database.code()?.parse().ok(),
        _ => None,
    }
}

fn kind_of(error: &sqlx::Error) -> DatabaseErrorKind {
    use DatabaseErrorKind::{Busy, Corrupt, Invalid, Other, Unreachable};
    match error {
        sqlx::Error::Database(_) => sqlite_code(error).map_or(Other, kind_of_code),
        sqlx::Error::PoolTimedOut => Busy,
        sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed | sqlx::Error::Io(_) => Unreachable,
        sqlx::Error::Encode(_) | sqlx::Error::InvalidArgument(_) => Invalid,
        sqlx::Error::Decode(_) | sqlx::Error::ColumnDecode { .. } | sqlx::Error::RowNotFound => Corrupt,
        _ => Other,
    }
}

/// Returns the primary code, which stands in the low byte of the extended one.
fn kind_of_code(code: i32) -> DatabaseErrorKind {
    use libsqlite3_sys as ffi;
    match code {
        ffi::SQLITE_IOERR_CORRUPTFS | ffi::SQLITE_IOERR_DATA => return DatabaseErrorKind::Corrupt,
        // The file was moved while it was open: later writes would be lost.
        ffi::SQLITE_READONLY_DBMOVED => return DatabaseErrorKind::Unreachable,
        // No other trigger of ours refuses a write.
        ffi::SQLITE_CONSTRAINT_TRIGGER => return DatabaseErrorKind::Moved,
        _ => {}
    }
    match code & 0xff {
        ffi::SQLITE_BUSY
        | ffi::SQLITE_LOCKED
        | ffi::SQLITE_NOMEM
        | ffi::SQLITE_INTERRUPT
        | ffi::SQLITE_IOERR
        | ffi::SQLITE_FULL
        | ffi::SQLITE_PROTOCOL
        | ffi::SQLITE_SCHEMA => DatabaseErrorKind::Busy,
        ffi::SQLITE_CANTOPEN => DatabaseErrorKind::Unreachable,
        ffi::SQLITE_READONLY => DatabaseErrorKind::ReadOnly,
        ffi::SQLITE_CORRUPT | ffi::SQLITE_NOTADB => DatabaseErrorKind::Corrupt,
        ffi::SQLITE_CONSTRAINT | ffi::SQLITE_TOOBIG | ffi::SQLITE_MISMATCH | ffi::SQLITE_RANGE => {
            DatabaseErrorKind::Invalid
        }
        _ => DatabaseErrorKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_kind() {
        use DatabaseErrorKind::{Busy, Corrupt, Invalid, Moved, Other, ReadOnly, Unreachable};
        for (code, kind) in [
            (5, Busy),                   // BUSY
            (5 | (2 << 8), Busy),        // BUSY_SNAPSHOT
            (6, Busy),                   // LOCKED
            (7, Busy),                   // NOMEM
            (9, Busy),                   // INTERRUPT
            (10, Busy),                  // IOERR
            (10 | (4 << 8), Busy),       // IOERR_FSYNC
            (10 | (33 << 8), Corrupt),   // IOERR_CORRUPTFS
            (13, Busy),                  // FULL
            (15, Busy),                  // PROTOCOL
            (14, Unreachable),           // CANTOPEN
            (8, ReadOnly),               // READONLY
            (8 | (4 << 8), Unreachable), // READONLY_DBMOVED
            (11, Corrupt),               // CORRUPT
            (26, Corrupt),               // NOTADB
            (19, Invalid),               // CONSTRAINT
            (19 | (1 << 8), Invalid),    // CONSTRAINT_CHECK
            (19 | (7 << 8), Moved),      // CONSTRAINT_TRIGGER
            (18, Invalid),               // TOOBIG
            (20, Invalid),               // MISMATCH
            (25, Invalid),               // RANGE
            (1, Other),                  // ERROR
            (21, Other),                 // MISUSE
        ] {
            assert_eq!(kind_of_code(code), kind, "{code}");
        }
    }

    #[test]
    fn errors_of_the_driver_have_their_kind() {
        assert_eq!(kind_of(&sqlx::Error::PoolTimedOut), DatabaseErrorKind::Busy);
        assert_eq!(kind_of(&sqlx::Error::PoolClosed), DatabaseErrorKind::Unreachable);
        assert_eq!(kind_of(&sqlx::Error::WorkerCrashed), DatabaseErrorKind::Unreachable);
        assert_eq!(kind_of(&sqlx::Error::RowNotFound), DatabaseErrorKind::Corrupt);
        assert_eq!(kind_of(&sqlx::Error::BeginFailed), DatabaseErrorKind::Other);
    }
}
