use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};

use workflow_engine::faults::failpoint_error;
use workflow_engine::store::DatabaseErrorKind;

use super::call::Limit;
use super::error::Failure;
use super::sql::{Sql, quoted};

/// The migrations, oldest first; the number is the version of the schema after it. Never changed once released.
const MIGRATIONS: &[(i64, &str)] = &[
    (1, include_str!("../migrations/0001_init.sql")),
    (2, include_str!("../migrations/0002_authoring.sql")),
    (3, include_str!("../migrations/0003_running.sql")),
    (4, include_str!("../migrations/0004_lanes.sql")),
    (5, include_str!("../migrations/0005_running.sql")),
];

/// A migration of a large table takes its time, and so does the wait for a process that is at it.
const MIGRATION_DEADLINE: Duration = Duration::from_secs(600);

/// Our own sessions end statements after 30 s, which is right for a call and wrong for a migration.
const NO_TIMEOUTS: &str = "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0";

/// A migration that waits for a table stops every worker behind it, and after one second (PostgreSQL's default for
/// `deadlock_timeout`) may have one of them end its batch as the victim of a deadlock. So all the locks together are given half of that.
const LOCK_TIMEOUT: &str = "SET LOCAL statement_timeout = '500ms'";

/// After a lock was not to be had: the workers that were stopped for it go on meanwhile.
const LOCK_PAUSE: Duration = Duration::from_secs(1);

/// What became of the schema.
pub(super) enum Migrated {
    /// It is the one that this program knows.
    UpToDate,
    /// A newer program made it. It was not changed.
    Newer {
        /// Its version.
        found: i64,
        /// The newest that this program knows.
        known: i64,
    },
}

/// Brings the schema up to date. Any number of processes may try at once; without the right to create, it is enough that
/// the schema is current.
pub(super) async fn migrate(connection: &mut PgConnection, sql: &Sql, schema: &str) -> Result<Migrated, Failure> {
    let known = MIGRATIONS.last().map_or(0, |(version, _)| *version);
    let mut found = Limit::from_now().run(schema_version(connection, sql, schema)).await?;
    if found < known {
        found = Limit::after(MIGRATION_DEADLINE).run(apply_missing(connection, sql, schema)).await?;
    }
    Ok(if found > known { Migrated::Newer { found, known } } else { Migrated::UpToDate })
}

/// Answers the version that the schema has then.
async fn apply_missing(connection: &mut PgConnection, sql: &Sql, schema: &str) -> Result<i64, Failure> {
    let mut transaction = connection.begin().await?;
    sqlx::raw_sql(NO_TIMEOUTS).execute(&mut *transaction).await?;
    sql.lock_migrations.query().bind(lock_key(schema)).execute(&mut *transaction).await?;
    // Read again: while we waited for the lock, its holder may have done all the work.
    let found = schema_version(&mut transaction, sql, schema).await?;
    if found > 0 && MIGRATIONS.iter().any(|(version, _)| *version > found) {
        lock_tables(&mut transaction, sql).await?;
    }
    for (version, text) in MIGRATIONS.iter().filter(|(version, _)| *version > found) {
        if !has_schema(&mut transaction, sql, schema).await?.0 {
            sql.create_schema.query().execute(&mut *transaction).await?;
        }
        sql.create_schema_table.query().execute(&mut *transaction).await?;
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

/// Waits until nobody uses the tables, and stands in nobody's way for long.
async fn lock_tables(connection: &mut PgConnection, sql: &Sql) -> Result<(), Failure> {
    sql.lock_out_vacuum.query().execute(&mut *connection).await?;
    loop {
        // Rolled back, a savepoint gives up the locks that were had, and its setting.
        let mut savepoint = connection.begin().await?;
        sqlx::raw_sql(LOCK_TIMEOUT).execute(&mut *savepoint).await?;
        let locked = sql.lock_tables.query().execute(&mut *savepoint).await.map_err(Failure::from);
        match locked {
            Ok(_) => {
                sqlx::raw_sql(NO_TIMEOUTS).execute(&mut *savepoint).await?;
                return Ok(savepoint.commit().await?);
            }
            Err(failure) if failure.kind == DatabaseErrorKind::Busy => savepoint.rollback().await?,
            Err(failure) => return Err(failure),
        }
        tracing::warn!(
            "a migration waits for a session that uses the tables, as a backup or a forgotten transaction does: see pg_stat_activity"
        );
        tokio::time::sleep(LOCK_PAUSE).await;
    }
}

async fn schema_version(connection: &mut PgConnection, sql: &Sql, schema: &str) -> Result<i64, Failure> {
    if !has_schema(connection, sql, schema).await?.1 {
        return Ok(0);
    }
    Ok(sql.read_schema_version.query().fetch_one(connection).await?.try_get("version")?)
}

/// Whether the schema is there, and whether its table of versions is.
async fn has_schema(connection: &mut PgConnection, sql: &Sql, schema: &str) -> Result<(bool, bool), Failure> {
    let row = sql.find_schema.query().bind(schema).fetch_one(connection).await?;
    Ok((row.try_get("has_schema")?, row.try_get("has_version")?))
}

/// The same for every process and release: FNV-1a of our own prefix and the schema's name.
fn lock_key(schema: &str) -> i64 {
    let bytes = b"workflow migrations of schema ".iter().chain(schema.as_bytes());
    let hash = bytes
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
    hash.cast_signed()
}
