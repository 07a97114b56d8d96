use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Timestamp;

/// The facts that a database has about itself, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DatabaseView {
    /// `SQLite`, `PostgreSQL`, or `memory` for the store of tests.
    pub kind: String,
    /// The version of the server or, on SQLite, of the library in this program.
    pub version: String,
    /// The newest migration that was applied to the tables.
    pub schema_level: i64,
    /// The newest migration that this program knows.
    pub known_level: i64,
    /// The size in bytes: of the engine's tables with their indexes on PostgreSQL, of the whole
    /// database without its WAL on SQLite. `None` if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// By how many milliseconds the database's clock is ahead of this program's, at least; below 0
    /// if it is behind. The time that the question took is not counted. `None` if the program's own
    /// clock decides, as on SQLite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_ahead_millis: Option<i64>,
    /// The facts that only SQLite has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sqlite: Option<SqliteView>,
    /// The facts that only PostgreSQL has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub postgres: Option<PostgresView>,
    /// Gates at which claims do not look for at least a minute, although a run behind them has been
    /// due for a minute: none, unless the engine has a bug. At most 20, of the 2,000 oldest turns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sleeping_gates: Vec<SleepingGate>,
    /// The move that closes this database to every change. `None`: it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved: Option<MoveView>,
    /// The parts that the database refused to read to this program's role.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
}

/// The facts that only SQLite has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SqliteView {
    /// The journal mode of the file: `wal`, or `memory` for a database in memory.
    pub journal_mode: String,
    /// The setting `synchronous` of the connection of this program that writes: `off`, `normal`,
    /// `full` or `extra`. `None`: a transaction keeps the connection at this moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synchronous: Option<String>,
    /// The size of the WAL in bytes. `None`: there is no file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wal_bytes: Option<u64>,
    /// The bytes that are free for this program on the file system of the database. `None` if that
    /// is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
}

/// The facts that only PostgreSQL has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PostgresView {
    /// The role of this program's connections.
    pub role: String,
    /// How the server follows its primary. `None`: it is no standby.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standby: Option<StandbyView>,
    /// The rights that a worker needs and that the role lacks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_rights: Vec<MissingRights>,
    /// The setting `fsync`. `false`: a crash of the server's machine can lose or damage data.
    pub fsync: bool,
    /// The setting `full_page_writes`. `false`: a crash of the server's machine can damage data.
    pub full_page_writes: bool,
    /// The transaction that has been open for the longest time, of all sessions of the database
    /// but this one. `None`: none is open, or none that the role sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_transaction: Option<OpenTransactionView>,
    /// The sessions of the database whose transactions the role does not see.
    pub hidden_sessions: u64,
    /// The rows of the engine's tables, as the server estimates them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<TableView>,
}

/// How a standby follows its primary.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StandbyView {
    /// The age of the state that the standby shows, in milliseconds: 0 if it shows all that it has
    /// received from its primary, else the age of the last transaction that it shows. That is more
    /// than the real delay if the primary has changed nothing for a while. `None` if it has shown
    /// no transaction since its start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag_millis: Option<u64>,
    /// The address of the primary as `HOST:PORT`. `None` if the role may not see it, or if no
    /// connection to the primary is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary: Option<String>,
}

impl StandbyView {
    /// Returns a sentence about the standby, without a full stop: its primary, and how far it is
    /// behind. `span` writes a duration as its caller shows others.
    #[must_use]
    pub fn sentence(&self, span: impl FnOnce(Duration) -> String) -> String {
        let of = self.primary.as_ref().map(|primary| format!(" of {primary}")).unwrap_or_default();
        match self.lag_millis {
            Some(lag) => format!("this is a standby{of}, {} behind", span(Duration::from_millis(lag))),
            None => format!("this is a standby{of} that has shown no transaction since its start"),
        }
    }
}

/// A table of the engine, and the rights on it that a role lacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MissingRights {
    /// The table or sequence, without its schema.
    pub table: String,
    /// The rights, as `GRANT` names them: `DELETE, INSERT`.
    pub rights: String,
}

/// An open transaction of a session of the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OpenTransactionView {
    /// The number of the server's process.
    pub pid: i32,
    /// The name that the session gives its application; may be empty.
    pub application: String,
    /// For how many milliseconds the transaction has been open.
    pub age_millis: i64,
}

/// The rows of a table, as the server estimates them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TableView {
    /// The table, without its schema.
    pub name: String,
    /// The size in bytes with the indexes.
    pub bytes: u64,
    /// The rows that are in use.
    pub live_rows: u64,
    /// The versions of rows that no later transaction sees, and that no vacuum has removed.
    pub dead_rows: u64,
}

/// A gate at which no claim looks, although a run behind it is due.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SleepingGate {
    /// The queue.
    pub queue: String,
    /// The name of the gate.
    pub gate: String,
    /// Since when a run behind it is due.
    pub due_since: Timestamp,
}

/// The move of a whole system in which a database takes part. Until its end both databases refuse
/// every change; the source does so for ever, unless the move is undone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MoveView {
    /// Whether the system goes into this database; `false`: it leaves it.
    pub arrives: bool,
    /// The URL of the other database, without its password.
    pub other: String,
    /// When the move began.
    pub begun_at: Timestamp,
    /// When all was copied and compared. `None`: not yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

impl MoveView {
    /// Returns a sentence about the move, without a full stop. `ago` writes how long ago a time
    /// was, as its caller shows others.
    #[must_use]
    pub fn sentence(&self, ago: impl FnOnce(Timestamp) -> String) -> String {
        let Self { arrives, other, begun_at, ended_at } = self;
        match (arrives, ended_at) {
            (true, _) => format!("a move of {other} into this database began {}", ago(*begun_at)),
            (false, None) => format!("a move of this database to {other} began {}", ago(*begun_at)),
            (false, Some(ended_at)) => format!("this database was moved to {other} {}", ago(*ended_at)),
        }
    }
}

impl DatabaseView {
    /// The turns of gates that a search for sleeping gates looks at.
    pub const TURNS: u32 = 2_000;

    /// Returns by how many milliseconds a clock is ahead of this program's, at least; below 0 if it
    /// is behind. The program's clock was read before and after the other one. A difference that
    /// the time between them can explain is 0.
    #[must_use]
    pub fn certain_difference(before: Timestamp, read: Timestamp, after: Timestamp) -> i64 {
        let (before, read, after) = (before.as_micros(), read.as_micros(), after.as_micros());
        let ahead = read.saturating_sub(before.max(after)).max(0);
        let behind = before.min(after).saturating_sub(read).max(0);
        ahead.saturating_sub(behind) / 1_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_difference_that_no_delay_explains_counts() {
        let certain = |before, read, after| {
            let time = |millis: i64| Timestamp::from_micros(millis * 1_000);
            DatabaseView::certain_difference(time(before), time(read), time(after))
        };
        assert_eq!(certain(1_000, 1_000, 1_000), 0);
        assert_eq!(certain(1_000, 5_000, 9_000), 0, "the answer took eight seconds");
        assert_eq!(certain(1_000, 9_500, 9_000), 500);
        assert_eq!(certain(1_000, 400, 9_000), -600);
        assert_eq!(certain(2_000, 1_500, 1_000), 0, "the program's clock was set back meanwhile");
    }

    #[test]
    fn a_standby_names_its_primary_and_how_far_it_is_behind() {
        let said = |lag_millis, primary: Option<&str>| {
            let view = StandbyView { lag_millis, primary: primary.map(str::to_owned) };
            view.sentence(|lag| format!("{} ms", lag.as_millis()))
        };
        assert_eq!(said(Some(1500), Some("db:5432")), "this is a standby of db:5432, 1500 ms behind");
        assert_eq!(said(Some(0), None), "this is a standby, 0 ms behind");
        let unknown = "this is a standby of db:5432 that has shown no transaction since its start";
        assert_eq!(said(None, Some("db:5432")), unknown);
    }
}
