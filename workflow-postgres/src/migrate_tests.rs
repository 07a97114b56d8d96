//! A migration while the tables are in use.

use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};
use tokio::task::JoinHandle;

use workflow_engine::store::Store;

use super::fixture_tests::{TestResult, fixture, url};
use super::migrate::{self, MIGRATIONS, Migrated};
use super::sql::Sql;

/// The migrations of a release that follows this one.
fn next_release() -> TestResult<Vec<(i64, &'static str)>> {
    let (newest, _) = MIGRATIONS.last().ok_or("no migrations")?;
    let next = "ALTER TABLE {schema}.workflow_runs ADD COLUMN next_release text";
    Ok(MIGRATIONS.iter().copied().chain([(newest + 1, next)]).collect())
}

/// A schema as this release makes it.
async fn old_schema() -> TestResult<String> {
    let fixture = fixture().await?;
    fixture.store.close().await;
    Ok(fixture.schema)
}

/// A session after these statements.
async fn session(statements: &str) -> TestResult<PgConnection> {
    let mut session = PgConnection::connect(&url()?).await?;
    execute(&mut session, statements).await?;
    Ok(session)
}

async fn execute(session: &mut PgConnection, statements: &str) -> TestResult {
    sqlx::raw_sql(AssertSqlSafe(statements)).execute(session).await?;
    Ok(())
}

/// Migrates the schema to the next release.
fn migrate(schema: &str) -> TestResult<JoinHandle<Result<Migrated, String>>> {
    let (url, schema, migrations) = (url()?, schema.to_owned(), next_release()?);
    Ok(tokio::spawn(async move {
        let mut connection = PgConnection::connect(&url).await.map_err(|error| error.to_string())?;
        let migrated = migrate::migrate(&mut connection, &Sql::load(&schema), &schema, &migrations, true).await;
        migrated.map_err(|failure| failure.to_string())
    }))
}

/// Returns once a session waits for a lock of this mode on a table of the schema.
async fn somebody_waits(schema: &str, mode: &str) -> TestResult {
    let mut session = session("SELECT 1").await?;
    let waits = "SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
                                WHERE c.relnamespace = to_regnamespace($1) AND l.mode = $2 AND NOT l.granted) AS waits";
    let look = async {
        while !sqlx::query(waits).bind(schema).bind(mode).fetch_one(&mut session).await?.try_get::<bool, _>("waits")? {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    };
    tokio::time::timeout(Duration::from_secs(30), look).await?
}

async fn is_migrated(schema: &str, migrating: JoinHandle<Result<Migrated, String>>) -> TestResult {
    assert!(matches!(migrating.await??, Migrated::UpToDate));
    session(&format!("SELECT next_release FROM {schema}.workflow_runs")).await.map(drop)
}

#[tokio::test]
async fn a_batch_that_takes_its_tables_in_another_order_is_no_victim() -> TestResult {
    let schema = old_schema().await?;
    // It looks for a deadlock before the migration would.
    let begin = "SET deadlock_timeout = '750ms'; BEGIN";
    let mut worker = session(&format!("{begin}; LOCK TABLE {schema}.workflow_workers IN ROW EXCLUSIVE MODE")).await?;
    let migrating = migrate(&schema)?;
    // It has the other tables by now, and keeps none of them.
    somebody_waits(&schema, "AccessExclusiveLock").await?;
    for table in ["workflow_signals", "step_attempts", "workflow_runs"] {
        execute(&mut worker, &format!("LOCK TABLE {schema}.{table} IN ROW EXCLUSIVE MODE")).await?;
    }
    execute(&mut worker, "COMMIT").await?;
    is_migrated(&schema, migrating).await
}

#[tokio::test]
async fn nobody_is_stopped_while_a_migration_waits_for_a_vacuum() -> TestResult {
    let schema = old_schema().await?;
    let vacuum = "IN SHARE UPDATE EXCLUSIVE MODE";
    let mut vacuum = session(&format!("BEGIN; LOCK TABLE {schema}.workflow_runs {vacuum}")).await?;
    let migrating = migrate(&schema)?;
    somebody_waits(&schema, "ShareUpdateExclusiveLock").await?;
    session(&format!("BEGIN; LOCK TABLE {schema}.workflow_runs IN ROW EXCLUSIVE MODE NOWAIT; COMMIT")).await?;
    execute(&mut vacuum, "COMMIT").await?;
    is_migrated(&schema, migrating).await
}
