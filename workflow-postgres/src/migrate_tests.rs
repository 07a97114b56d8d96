//! A migration while the tables are in use.

use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};
use tokio::task::JoinHandle;

use workflow_engine::model::RunFilter;
use workflow_engine::store::{ConnectError, Store, StoreOptions};

use super::PostgresStore;
use super::fixture_tests::{TestResult, new_schema, url};

/// A schema as the first release made it.
async fn old_schema() -> TestResult<String> {
    let schema = new_schema();
    let tables = include_str!("../migrations/0001_init.sql").replace("{schema}", &schema);
    let versions = format!("CREATE TABLE {schema}.workflow_schema (version bigint NOT NULL PRIMARY KEY)");
    let version = format!("INSERT INTO {schema}.workflow_schema VALUES (1)");
    session(&format!("CREATE SCHEMA {schema}; {tables}; {versions}; {version}")).await?;
    Ok(schema)
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

fn connect(schema: &str) -> TestResult<JoinHandle<Result<PostgresStore, ConnectError>>> {
    let options = StoreOptions { pool_size: 1, schema: schema.into(), ..StoreOptions::default() };
    let url = url()?;
    Ok(tokio::spawn(async move { PostgresStore::open(&url, options).await }))
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

async fn is_migrated(connect: JoinHandle<Result<PostgresStore, ConnectError>>) -> TestResult {
    let store = connect.await??;
    assert!(store.list(&RunFilter::new()).await?.is_empty());
    store.close().await;
    Ok(())
}

#[tokio::test]
async fn a_batch_that_takes_its_tables_in_another_order_is_no_victim() -> TestResult {
    let schema = old_schema().await?;
    // It looks for a deadlock before the migration would.
    let begin = "SET deadlock_timeout = '750ms'; BEGIN";
    let mut worker = session(&format!("{begin}; LOCK TABLE {schema}.workflow_workers IN ROW EXCLUSIVE MODE")).await?;
    let connect = connect(&schema)?;
    // It has the other tables by now, and keeps none of them.
    somebody_waits(&schema, "AccessExclusiveLock").await?;
    for table in ["workflow_signals", "step_attempts", "workflow_runs"] {
        execute(&mut worker, &format!("LOCK TABLE {schema}.{table} IN ROW EXCLUSIVE MODE")).await?;
    }
    execute(&mut worker, "COMMIT").await?;
    is_migrated(connect).await
}

#[tokio::test]
async fn nobody_is_stopped_while_a_migration_waits_for_a_vacuum() -> TestResult {
    let schema = old_schema().await?;
    let vacuum = "IN SHARE UPDATE EXCLUSIVE MODE";
    let mut vacuum = session(&format!("BEGIN; LOCK TABLE {schema}.workflow_runs {vacuum}")).await?;
    let connect = connect(&schema)?;
    somebody_waits(&schema, "ShareUpdateExclusiveLock").await?;
    session(&format!("BEGIN; LOCK TABLE {schema}.workflow_runs IN ROW EXCLUSIVE MODE NOWAIT; COMMIT")).await?;
    execute(&mut vacuum, "COMMIT").await?;
    is_migrated(connect).await
}
