use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};

use workflow_engine::faults::failpoint_error;
use workflow_engine::store::DatabaseErrorKind;

use super::call::Limit;
use super::error::Failure;
use super::sql::{Sql, Statement, quoted};

/// Migrations, oldest first, each with the version of the schema after it.
pub(super) type Migrations = [(i64, &'static str)];

/// The migrations of this program. Never changed once released.
pub(super) const MIGRATIONS: &Migrations = &[(1, include_str!("../migrations/0001_init.sql"))];

/// The deadline of a migration: a large table takes its time, and so does the wait for another
/// process that migrates.
pub(super) const MIGRATION_DEADLINE: Duration = Duration::from_secs(600);

/// Lifts the time-out of statements, which is right for a call and too short for a migration.
const NO_TIMEOUTS: &str = "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0";

/// How long a migration waits for all its locks together. A migration that waits for a table stops
/// every worker behind it. After one second (PostgreSQL's default for `deadlock_timeout`) the
/// server may end a worker's batch as the victim of a deadlock, so this is half of that.
const LOCK_TIMEOUT: &str = "SET LOCAL statement_timeout = '500ms'";

/// The pause after a lock was not free, in which the workers that waited go on.
const LOCK_PAUSE: Duration = Duration::from_secs(1);

/// The result of a migration.
pub(super) enum Migrated {
    /// The schema has the version that this program knows.
    UpToDate,
    /// A newer program made the schema. It was not changed.
    Newer {
        /// Its version.
        found: i64,
        /// The newest that this program knows.
        known: i64,
    },
    /// A version before the first release made the schema. It was not changed.
    Unreleased,
    /// Migrations are missing, and may not be applied.
    Missing {
        /// The version of the schema; 0 without tables.
        found: i64,
        /// The newest that this program knows.
        known: i64,
    },
}

/// Brings the schema up to date with these migrations. Any number of processes may try at once.
/// Without the right to create, it succeeds if the schema is current. Changes nothing if it may not
/// apply migrations.
pub(super) async fn migrate(
    connection: &mut PgConnection,
    sql: &Sql,
    schema: &str,
    migrations: &Migrations,
    may_apply: bool,
) -> Result<Migrated, Failure> {
    let known = migrations.last().map_or(0, |(version, _)| *version);
    let mut found = Limit::from_now().run(schema_version(connection, sql, schema)).await?;
    if may_apply && found.is_some_and(|found| found < known) {
        let applying = apply_missing(connection, sql, schema, migrations);
        found = Limit::after(MIGRATION_DEADLINE).run(applying).await?;
    }
    Ok(match found {
        None => Migrated::Unreleased,
        Some(found) if found > known => Migrated::Newer { found, known },
        Some(found) if found < known => Migrated::Missing { found, known },
        Some(_) => Migrated::UpToDate,
    })
}

/// Applies the missing migrations and returns the version of the schema after them. See
/// [`schema_version`].
async fn apply_missing(
    connection: &mut PgConnection,
    sql: &Sql,
    schema: &str,
    migrations: &Migrations,
) -> Result<Option<i64>, Failure> {
    let mut transaction = connection.begin().await?;
    sqlx::raw_sql(NO_TIMEOUTS).execute(&mut *transaction).await?;
    sql.lock_migrations.query().bind(lock_key(schema)).execute(&mut *transaction).await?;
    // Read again: the last holder of the lock may have done all the work.
    let Some(found) = schema_version(&mut transaction, sql, schema).await? else { return Ok(None) };
    if found > 0 && migrations.iter().any(|(version, _)| *version > found) {
        lock_tables(&mut transaction, sql, &sql.lock_tables).await?;
    }
    for (version, text) in migrations.iter().filter(|(version, _)| *version > found) {
        // The server notifies about each object that exists, and the driver logs that.
        let existing = Existing::find(&mut transaction, sql, schema).await?;
        if !existing.schema {
            sql.create_schema.query().execute(&mut *transaction).await?;
        }
        if !existing.versions {
            sql.create_schema_table.query().execute(&mut *transaction).await?;
        }
        failpoint_error("migrate.before_statements")?;
        sqlx::raw_sql(AssertSqlSafe(text.replace("{schema}", &quoted(schema)))).execute(&mut *transaction).await?;
        failpoint_error("migrate.before_version")?;
        sql.insert_schema_version.query().bind(version).execute(&mut *transaction).await?;
    }
    let version = schema_version(&mut transaction, sql, schema).await?;
    failpoint_error("migrate.before_commit")?;
    transaction.commit().await?;
    failpoint_error("migrate.after_commit")?;
    Ok(version)
}

/// Returns the statements that bring a schema with this version up to date, in one transaction. 0:
/// it has none of our tables.
pub(super) fn script(sql: &Sql, schema: &str, migrations: &Migrations, found: i64) -> String {
    // The statement needs the right to create schemas, also where it would do nothing.
    let missing =
        format!("IF to_regnamespace('{schema}') IS NULL THEN {}; END IF;", sql.create_schema.to_string().trim());
    let mut script = format!("BEGIN;\nDO $$ BEGIN {missing} END $$;\n{};\n", sql.create_schema_table);
    for (version, migration) in migrations.iter().filter(|(version, _)| *version > found) {
        let migration = migration.replace("{schema}", &quoted(schema));
        let record = sql.insert_schema_version.to_string().replace("$1", &version.to_string());
        for part in ["\n", migration.trim_end(), "\n\n", &record, ";\n"] {
            script.push_str(part);
        }
    }
    script + "COMMIT;\n"
}

/// Locks tables by this statement, and never blocks other sessions for long.
pub(super) async fn lock_tables(connection: &mut PgConnection, sql: &Sql, lock: &Statement) -> Result<(), Failure> {
    sql.lock_out_vacuum.query().execute(&mut *connection).await?;
    loop {
        // Rolling back to the savepoint frees the locks and resets the setting.
        let mut savepoint = connection.begin().await?;
        sqlx::raw_sql(LOCK_TIMEOUT).execute(&mut *savepoint).await?;
        let locked = lock.query().execute(&mut *savepoint).await.map_err(Failure::from);
        match locked {
            Ok(_) => {
                sqlx::raw_sql(NO_TIMEOUTS).execute(&mut *savepoint).await?;
                return Ok(savepoint.commit().await?);
            }
            Err(failure) if failure.kind == DatabaseErrorKind::Busy => savepoint.rollback().await?,
            Err(failure) => return Err(failure),
        }
        tracing::warn!(
            "a migration or a move waits for a session that uses the tables, as a backup or a forgotten transaction does: see pg_stat_activity"
        );
        tokio::time::sleep(LOCK_PAUSE).await;
    }
}

/// Returns the version of the schema: 0 without tables, `None` if a version before the first
/// release made the tables. Such a version had no table of lanes.
async fn schema_version(connection: &mut PgConnection, sql: &Sql, schema: &str) -> Result<Option<i64>, Failure> {
    let existing = Existing::find(connection, sql, schema).await?;
    if !existing.versions {
        return Ok(Some(0));
    }
    let version = sql.read_schema_version.query().fetch_one(connection).await?.try_get("version")?;
    Ok(Some(version).filter(|version| *version == 0 || existing.lanes))
}

/// Which of these exist.
struct Existing {
    schema: bool,
    versions: bool,
    lanes: bool,
}

impl Existing {
    async fn find(connection: &mut PgConnection, sql: &Sql, schema: &str) -> Result<Self, Failure> {
        let row = sql.find_schema.query().bind(schema).fetch_one(connection).await?;
        Ok(Self {
            schema: row.try_get("has_schema")?,
            versions: row.try_get("has_versions")?,
            lanes: row.try_get("has_lanes")?,
        })
    }
}

/// Returns the key of the lock, equal in every process and release: FNV-1a of our own prefix and
/// the name of the schema.
fn lock_key(schema: &str) -> i64 {
    let bytes = b"workflow migrations of schema ".iter().chain(schema.as_bytes());
    let hash = bytes
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
    hash.cast_signed()
}
