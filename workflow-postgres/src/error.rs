//! Decides what an error of PostgreSQL means: by its SQLSTATE, never by its text.

use sqlx::postgres::PgDatabaseError;

use workflow_engine::faults::Fault;
use workflow_engine::store::{DatabaseError, DatabaseErrorKind, FENCE_SQLSTATE, MissingOutcome};

use super::timeline::OlderTimeline;

/// An error of a call, before the operation is named.
#[derive(Debug)]
pub(super) struct Failure {
    /// The kind, which tells what a caller can do.
    pub(super) kind: DatabaseErrorKind,
    /// `true` if the connection must be closed: it is broken, or it leads to a server or session
    /// that will fail again.
    pub(super) breaks_connection: bool,
    source: Box<dyn std::error::Error + Send + Sync>,
}

/// A run was to start in a lane that its transaction does not see.
#[derive(Debug, thiserror::Error)]
#[error(
    "the transaction does not see the lane of the run, which was recorded just now: its snapshot is older, or it belongs to another database than the client's; roll back, and begin it again on the client's database"
)]
struct MissingLane;

impl Failure {
    /// Names the operation that failed.
    pub(super) fn during(self, operation: &'static str) -> DatabaseError {
        DatabaseError { kind: self.kind, operation, source: self.source }
    }

    /// Returns the failure for a stored value that cannot be understood.
    pub(super) fn corrupt(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { kind: DatabaseErrorKind::Corrupt, breaks_connection: false, source: why.into() }
    }

    /// Returns the failure for a conflict with a concurrent transaction.
    pub(super) fn busy(why: &'static str) -> Self {
        Self { kind: DatabaseErrorKind::Busy, breaks_connection: false, source: why.into() }
    }

    /// Returns the failure for the start of a run whose lane has no row that the transaction sees.
    pub(super) fn missing_lane() -> Self {
        Self { kind: DatabaseErrorKind::Busy, breaks_connection: false, source: MissingLane.into() }
    }

    /// `true` if the lane of a new run has no row.
    pub(super) fn is_missing_lane(&self) -> bool {
        self.source.downcast_ref::<MissingLane>().is_some()
    }

    /// Returns this failure, with the connection to be closed.
    pub(super) fn breaking(self) -> Self {
        Self { breaks_connection: true, ..self }
    }

    /// Returns this failure, for a call whose effect is unknown.
    pub(super) fn of_unknown_effect(self) -> Self {
        Self { kind: DatabaseErrorKind::Unreachable, ..self }
    }

    /// Returns the failure for data that this database can never take.
    pub(super) fn invalid(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { kind: DatabaseErrorKind::Invalid, breaks_connection: false, source: why.into() }
    }

    /// Returns the failure for a database that did not answer in time.
    pub(super) fn timed_out(elapsed: tokio::time::error::Elapsed) -> Self {
        Self { kind: DatabaseErrorKind::Unreachable, breaks_connection: true, source: elapsed.into() }
    }

    /// Returns the failure for a session that was refused.
    pub(super) fn old_timeline(older: OlderTimeline) -> Self {
        Self { kind: DatabaseErrorKind::OldTimeline, breaks_connection: true, source: older.into() }
    }

    /// Returns the cause, without the kind.
    pub(super) fn into_source(self) -> Box<dyn std::error::Error + Send + Sync> {
        self.source
    }

    /// `true` if the connection was cut, not if the database did not answer in time.
    pub(super) fn is_cut_connection(&self) -> bool {
        self.breaks_connection
            && self.kind == DatabaseErrorKind::Unreachable
            && self.source.downcast_ref::<sqlx::Error>().is_some()
    }

    /// `true` if an attempt that was to be inserted exists.
    pub(super) fn is_recorded(&self) -> bool {
        let error = self.source.downcast_ref::<sqlx::Error>().and_then(sqlx::Error::as_database_error);
        error.and_then(|error| error.try_downcast_ref::<PgDatabaseError>()).is_some_and(is_recorded_meanwhile)
    }

    /// `true` if the server or a pooler refused what the client sent as against the protocol.
    pub(super) fn is_protocol_violation(&self) -> bool {
        let error = self.source.downcast_ref::<sqlx::Error>().and_then(sqlx::Error::as_database_error);
        error.and_then(|error| error.code()).is_some_and(|code| code == "08P01")
    }

    /// `true` if a statement that was prepared on this connection is not there, or one that was not
    /// prepared on it is: the session is not the connection's own.
    pub(super) fn is_foreign_session(&self) -> bool {
        let error = self.source.downcast_ref::<sqlx::Error>().and_then(sqlx::Error::as_database_error);
        error.and_then(|error| error.code()).is_some_and(|code| matches!(&*code, "26000" | "42P05"))
    }

    /// `true` if the role lacks a right.
    pub(super) fn is_forbidden(&self) -> bool {
        let error = self.source.downcast_ref::<sqlx::Error>().and_then(sqlx::Error::as_database_error);
        error.and_then(|error| error.code()).is_some_and(|code| code == "42501")
    }

    /// `true` if the tables are missing, as in another database than the one that was connected to.
    pub(super) fn is_missing_table(&self) -> bool {
        let error = self.source.downcast_ref::<sqlx::Error>().and_then(sqlx::Error::as_database_error);
        error.and_then(|error| error.code()).is_some_and(|code| matches!(&*code, "42P01" | "3F000"))
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.source.fmt(f)
    }
}

impl From<MissingOutcome> for Failure {
    fn from(missing: MissingOutcome) -> Self {
        let DatabaseError { kind, source, .. } = missing.into();
        Self { kind, breaks_connection: false, source }
    }
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        let (kind, breaks_connection) = classify(&error);
        Self { kind, breaks_connection, source: error.into() }
    }
}

/// The failure of a broken connection.
impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        let DatabaseError { kind, source, .. } = fault.into();
        Self { kind, breaks_connection: true, source }
    }
}

fn classify(error: &sqlx::Error) -> (DatabaseErrorKind, bool) {
    use DatabaseErrorKind::{Busy, Corrupt, Invalid, Other, Unreachable};
    match error {
        sqlx::Error::Database(database) => match database.try_downcast_ref::<PgDatabaseError>() {
            Some(postgres) if is_recorded_meanwhile(postgres) => (Busy, false),
            Some(postgres) => classify_state(postgres.code(), postgres.routine()),
            None => (Other, true),
        },
        sqlx::Error::PoolTimedOut => (Busy, false),
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed
        | sqlx::Error::BeginFailed => (Unreachable, true),
        sqlx::Error::Encode(_) | sqlx::Error::InvalidArgument(_) => (Invalid, false),
        sqlx::Error::Decode(_)
        | sqlx::Error::ColumnDecode { .. }
        | sqlx::Error::ColumnNotFound(_)
        | sqlx::Error::ColumnIndexOutOfBounds { .. }
        | sqlx::Error::TypeNotFound { .. }
        | sqlx::Error::RowNotFound => (Corrupt, false),
        _ => (Other, true),
    }
}

/// `true` if another transaction recorded the same attempt concurrently: a second try finds its
/// row.
fn is_recorded_meanwhile(error: &PgDatabaseError) -> bool {
    error.code() == "23505"
        && error.table() == Some("step_attempts")
        && error.constraint() == Some("step_attempts_pkey")
}

/// Returns the kind, and `true` if the connection must be closed. The classes stand in the order in
/// which a server degrades: contention, a lost server, a server without writes, refused data,
/// damage.
fn classify_state(state: &str, routine: Option<&str>) -> (DatabaseErrorKind, bool) {
    use DatabaseErrorKind::{Busy, Corrupt, Invalid, Moved, Other, ReadOnly, Unreachable};
    match state {
        "40001" | "40P01" | "55P03" | "55006" | "57014" => (Busy, false),
        // A plan from before a migration, or a statement that a pooler prepared elsewhere: a new
        // session has neither.
        "0A000" if routine == Some("RevalidateCachedQuery") => (Busy, true),
        "26000" | "42P05" => (Busy, true),
        "57P01" | "57P02" | "57P03" | "57P05" | "25P03" => (Unreachable, true),
        "25006" => (ReadOnly, true),
        FENCE_SQLSTATE => (Moved, false),
        "XX001" | "XX002" => (Corrupt, false),
        _ => match state.get(..2) {
            Some("53") => (Busy, false),
            Some("08") => (Unreachable, true),
            Some("22" | "23" | "54") => (Invalid, false),
            _ => (Other, false),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_its_kind() {
        use DatabaseErrorKind::{Busy, Corrupt, Invalid, Moved, Other, ReadOnly, Unreachable};
        for (state, kind, breaks) in [
            ("40001", Busy, false),
            ("40P01", Busy, false),
            ("55P03", Busy, false),
            ("55006", Busy, false),
            ("57014", Busy, false),
            ("53100", Busy, false),
            ("53200", Busy, false),
            ("53300", Busy, false),
            ("26000", Busy, true),
            ("42P05", Busy, true),
            ("08006", Unreachable, true),
            ("08P01", Unreachable, true),
            ("57P01", Unreachable, true),
            ("57P02", Unreachable, true),
            ("57P03", Unreachable, true),
            ("57P05", Unreachable, true),
            ("25P03", Unreachable, true),
            ("25006", ReadOnly, true),
            ("WF001", Moved, false),
            ("22021", Invalid, false),
            ("22P05", Invalid, false),
            ("23505", Invalid, false),
            ("23514", Invalid, false),
            ("54000", Invalid, false),
            ("XX001", Corrupt, false),
            ("XX002", Corrupt, false),
            ("0A000", Other, false),
            ("42P01", Other, false),
            ("42501", Other, false),
            ("28P01", Other, false),
            ("XX000", Other, false),
        ] {
            assert_eq!(classify_state(state, None), (kind, breaks), "{state}");
        }
        assert_eq!(classify_state("0A000", Some("RevalidateCachedQuery")), (Busy, true));
    }

    #[test]
    fn errors_of_the_driver_have_their_kind() {
        use DatabaseErrorKind::{Busy, Corrupt, Unreachable};
        for (error, kind, breaks) in [
            (sqlx::Error::PoolTimedOut, Busy, false),
            (sqlx::Error::PoolClosed, Unreachable, true),
            (sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into()), Unreachable, true),
            (sqlx::Error::Protocol("out of step".into()), Unreachable, true),
            (sqlx::Error::RowNotFound, Corrupt, false),
        ] {
            assert_eq!(classify(&error), (kind, breaks), "{error}");
        }
    }
}
