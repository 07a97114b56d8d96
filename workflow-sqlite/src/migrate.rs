//! Brings the schema up to date, forward only.

use sqlx::SqliteConnection;

use workflow_engine::faults::{Fault, altered, failpoint_error};
use workflow_engine::store::{DatabaseError, DatabaseErrorKind};

use super::error::During;
use super::sql;

/// The migrations; the first has version 1.
const MIGRATIONS: &[&str] = &[include_str!("../migrations/0001_init.sql")];

const OPERATION: &str = "migrate the database";

/// Why a database was not migrated.
#[derive(Debug)]
pub(super) enum MigrateError {
    /// A newer release migrated it before.
    Newer {
        found: i64,
        known: i64,
    },
    /// A version before the first release made its tables.
    Unreleased,
    /// Migrations are missing, and may not be applied.
    Missing {
        found: i64,
        known: i64,
    },
    Database(DatabaseError),
}

impl From<DatabaseError> for MigrateError {
    fn from(error: DatabaseError) -> Self {
        Self::Database(error)
    }
}

impl From<Fault> for MigrateError {
    fn from(fault: Fault) -> Self {
        Self::Database(fault.into())
    }
}

/// Applies the missing migrations in one transaction. Takes no write lock if none is missing. Loops
/// while other processes hold the lock; the caller's deadline ends the loop. The connection cannot
/// be used after an error.
pub(super) async fn migrate(connection: &mut SqliteConnection) -> Result<(), MigrateError> {
    loop {
        match try_migrate(connection).await {
            Err(MigrateError::Database(error)) if error.kind == DatabaseErrorKind::Busy => {
                // Fails if BEGIN itself was refused.
                let _ = sqlx::query("ROLLBACK").execute(&mut *connection).await;
                tokio::time::sleep(std::time::Duration::from_millis(fastrand::u64(2..20))).await;
            }
            settled => return settled,
        }
    }
}

/// Fails if a migration is missing. Changes nothing.
pub(super) async fn check(connection: &mut SqliteConnection) -> Result<(), MigrateError> {
    let found = applied(connection).await?;
    if is_missing_any(found)? { Err(MigrateError::Missing { found, known: known() }) } else { Ok(()) }
}

async fn try_migrate(connection: &mut SqliteConnection) -> Result<(), MigrateError> {
    if !is_missing_any(applied(connection).await?)? {
        return Ok(());
    }
    sqlx::query("BEGIN IMMEDIATE").execute(&mut *connection).await.during(OPERATION)?;
    sqlx::query(sql::CREATE_SCHEMA_TABLE).execute(&mut *connection).await.during(OPERATION)?;
    // Again, under the lock: another process may have migrated since.
    let applied = applied(connection).await?;
    if is_missing_any(applied)? {
        apply_missing(connection, applied).await?;
    }
    failpoint_error("migrate.before_commit")?;
    sqlx::query("COMMIT").execute(connection).await.during(OPERATION)?;
    failpoint_error("migrate.after_commit")?;
    Ok(())
}

/// Returns the statements that bring a database with this version up to date, in one transaction.
/// 0: it has none of our tables.
pub(super) fn script(found: i64) -> String {
    let mut script = format!("BEGIN IMMEDIATE;\n{};\n", sql::CREATE_SCHEMA_TABLE.trim_end());
    for (version, migration) in (1_i64..).zip(MIGRATIONS).filter(|(version, _)| *version > found) {
        let record = sql::INSERT_SCHEMA_VERSION.trim_end().replace("?1", &version.to_string());
        for part in ["\n", migration.trim_end(), "\n\n", &record, ";\n"] {
            script.push_str(part);
        }
    }
    script + "COMMIT;\n"
}

/// Returns the newest version that this program knows.
pub(super) fn known() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

fn is_missing_any(found: i64) -> Result<bool, MigrateError> {
    let known = known();
    if found > known { Err(MigrateError::Newer { found, known }) } else { Ok(found < known) }
}

/// Returns the newest applied version; 0 for a database without our tables. Versions before the
/// first release had no table of lanes.
async fn applied(connection: &mut SqliteConnection) -> Result<i64, MigrateError> {
    let find = sqlx::query_as(sql::FIND_SCHEMA);
    let (is_ours, has_lanes): (bool, bool) = find.fetch_one(&mut *connection).await.during(OPERATION)?;
    if !is_ours {
        return Ok(0);
    }
    let read = sqlx::query_scalar(sql::READ_SCHEMA_VERSION);
    let version: i64 = read.fetch_one(connection).await.during(OPERATION)?;
    if version > 0 && !has_lanes { Err(MigrateError::Unreleased) } else { Ok(version) }
}

async fn apply_missing(connection: &mut SqliteConnection, applied: i64) -> Result<(), DatabaseError> {
    for (version, migration) in (1..).zip(MIGRATIONS).filter(|(version, _)| *version > applied) {
        failpoint_error("migrate.before_statements")?;
        let migration = altered("unfreed-gate", migration, "SET full_until = NULL", "SET full_until = full_until");
        sqlx::raw_sql(migration).execute(&mut *connection).await.during(OPERATION)?;
        failpoint_error("migrate.before_version")?;
        sqlx::query(sql::INSERT_SCHEMA_VERSION)
            .bind::<i64>(version)
            .execute(&mut *connection)
            .await
            .during(OPERATION)?;
    }
    Ok(())
}
