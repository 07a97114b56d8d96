//! The facts that the database has about itself.

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::SqliteConnection;

use workflow_engine::model::{DatabaseView, MoveView, SleepingGate, SqliteView, Timestamp};
use workflow_engine::store::{DatabaseError, SystemStore};

use super::database::Database;
use super::error::{During, within_deadline};
use super::read::understand;
use super::transfer::find_record;
use super::{DATABASE, SqliteStore, migrate, row, sql};

const OPERATION: &str = "look at the database";

/// How long to wait for the connection that writes. A transaction of a step may keep it for longer.
const PATIENCE: Duration = Duration::from_secs(1);

#[async_trait]
impl SystemStore for SqliteStore {
    async fn system(&self) -> Result<DatabaseView, DatabaseError> {
        within_deadline(OPERATION, view(&self.database)).await
    }
}

async fn view(database: &Database) -> Result<DatabaseView, DatabaseError> {
    let mut reader = database.reader().await?;
    let connection = reader.connection()?;
    let version: String =
        sqlx::query_scalar(sql::READ_SQLITE_VERSION).fetch_one(&mut *connection).await.during(OPERATION)?;
    let schema_level: i64 =
        sqlx::query_scalar(sql::READ_SCHEMA_VERSION).fetch_one(&mut *connection).await.during(OPERATION)?;
    let journal_mode: String =
        sqlx::query_scalar(sql::READ_JOURNAL_MODE).fetch_one(&mut *connection).await.during(OPERATION)?;
    let bytes: i64 =
        sqlx::query_scalar(sql::READ_DATABASE_BYTES).fetch_one(&mut *connection).await.during(OPERATION)?;
    let sleeping_gates = sleeping_gates(connection, database.now()).await?;
    let moved = find_record(connection).await?.map(MoveView::from);
    // A database in memory has one connection, which the writer lends.
    drop(reader);
    let synchronous = synchronous(database).await?;
    let path = database.file.as_ref().map(|file| file.path.as_path());
    Ok(DatabaseView {
        kind: DATABASE.to_owned(),
        version,
        schema_level,
        known_level: migrate::known(),
        bytes: u64::try_from(bytes).ok(),
        sqlite: Some(SqliteView {
            journal_mode,
            synchronous,
            wal_bytes: path.and_then(wal_bytes),
            free_bytes: path.and_then(free_bytes),
        }),
        sleeping_gates,
        moved,
        ..DatabaseView::default()
    })
}

async fn sleeping_gates(connection: &mut SqliteConnection, now: Timestamp) -> Result<Vec<SleepingGate>, DatabaseError> {
    let query = sqlx::query(sql::FIND_SLEEPING_GATES).bind(now.as_micros()).bind(DatabaseView::TURNS);
    let rows = query.fetch_all(connection).await.during(OPERATION)?;
    understand(&rows, |found| {
        Ok(SleepingGate {
            queue: row::get(found, "queue")?,
            gate: row::get(found, "gate")?,
            due_since: row::time(found, "due_since")?,
        })
    })
}

/// Returns the setting of the connection that writes; `None` if a transaction keeps it.
async fn synchronous(database: &Database) -> Result<Option<String>, DatabaseError> {
    let Ok(writer) = tokio::time::timeout(PATIENCE, database.writer.lock()).await else { return Ok(None) };
    let mut writer = writer?;
    let level: i64 =
        sqlx::query_scalar(sql::READ_SYNCHRONOUS).fetch_one(writer.connection()?).await.during(OPERATION)?;
    Ok(Some(level_of(level)))
}

/// Returns the word for a number of `PRAGMA synchronous`.
fn level_of(synchronous: i64) -> String {
    match synchronous {
        0 => "off".to_owned(),
        1 => "normal".to_owned(),
        2 => "full".to_owned(),
        3 => "extra".to_owned(),
        other => other.to_string(),
    }
}

/// Returns the size of the WAL. It never opens the file: closing a descriptor would release
/// SQLite's own locks on the file.
fn wal_bytes(path: &Path) -> Option<u64> {
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    std::fs::metadata(wal).ok().map(|found| found.len())
}

#[cfg(unix)]
fn free_bytes(path: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(path).ok()?;
    found.f_bavail.checked_mul(found.f_frsize)
}

#[cfg(not(unix))]
fn free_bytes(_: &Path) -> Option<u64> {
    None
}
