use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::{Connection, PgConnection, Row};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};

use workflow_engine::model::RunFilter;
use workflow_engine::store::{ConnectError, DatabaseErrorKind, Store, StoreOptions};

use super::PostgresStore;
use super::call::Limit;
use super::fixture_tests::{TestResult, fixture, fixture_with_pool, new_schema, url};
use super::transaction::BEGIN_STEP;

fn options(schema: &str) -> StoreOptions {
    StoreOptions { pool_size: 1, schema: schema.into(), ..StoreOptions::default() }
}

#[tokio::test]
async fn sixteen_at_once_migrate_once() -> TestResult {
    let (url, schema) = (url()?, new_schema());
    let opens = (0..16).map(|_| PostgresStore::open(&url, options(&schema)));
    for store in futures::future::try_join_all(opens).await? {
        assert!(store.list(&RunFilter::new()).await?.is_empty());
        store.close().await;
    }
    Ok(())
}

/// Keeps the notices of the server that the driver logs on this thread.
#[derive(Clone, Debug, Default)]
struct Notices(Arc<Mutex<Vec<String>>>);

impl Notices {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Subscriber for Notices {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "sqlx::postgres::notice"
    }

    fn event(&self, event: &tracing::Event<'_>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{event:?}"));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn a_first_start_causes_no_notices() -> TestResult {
    let notices = Notices::default();
    let _guard = tracing::subscriber::set_default(notices.clone());
    let fixture = fixture().await?;
    let again = fixture.second().await?;
    assert!(again.list(&RunFilter::new()).await?.is_empty());
    assert_eq!(notices.take(), [""; 0]);
    // One that is caused is seen.
    fixture.execute("CREATE SCHEMA IF NOT EXISTS {schema}").await?;
    assert_eq!(notices.take().len(), 1);
    Ok(())
}

#[tokio::test]
async fn a_newer_schema_is_refused() -> TestResult {
    let fixture = fixture().await?;
    fixture.execute("INSERT INTO {schema}.workflow_schema (version) VALUES (99)").await?;
    let refused = PostgresStore::open(&url()?, options(&fixture.schema)).await;
    assert!(matches!(refused, Err(ConnectError::NewerSchema { found: 99, .. })), "{refused:?}");
    Ok(())
}

#[tokio::test]
async fn a_reserved_word_is_a_schema_like_any_other() -> TestResult {
    let schema = "order";
    PostgresStore::open(&url()?, options(schema)).await?;
    let again = PostgresStore::open(&url()?, options(schema)).await?;
    assert!(again.list(&RunFilter::new()).await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_role_without_the_right_to_create_can_use_a_current_schema() -> TestResult {
    let fixture = fixture().await?;
    fixture
        .execute(
            "CREATE ROLE r_{schema} LOGIN PASSWORD 'secret';
             GRANT USAGE ON SCHEMA {schema} TO r_{schema};
             GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO r_{schema}",
        )
        .await?;
    let (scheme, rest) = fixture_url()?;
    let as_role = format!("{scheme}://r_{}:secret@{rest}", fixture.schema);
    let store = PostgresStore::open(&as_role, options(&fixture.schema)).await?;
    assert!(store.list(&RunFilter::new()).await?.is_empty());
    let refused = PostgresStore::open(&as_role, options(&new_schema())).await;
    assert!(matches!(&refused, Err(ConnectError::Database { url, .. }) if !url.contains("secret")), "{refused:?}");
    Ok(())
}

#[tokio::test]
async fn a_database_that_takes_no_writes_is_refused() -> TestResult {
    let fixture = fixture().await?;
    fixture
        .execute(
            "CREATE ROLE r_{schema} LOGIN PASSWORD 'secret' SUPERUSER;
             ALTER ROLE r_{schema} SET default_transaction_read_only = on",
        )
        .await?;
    let (scheme, rest) = fixture_url()?;
    let url = format!("{scheme}://r_{}:secret@{rest}", fixture.schema);
    let refused = PostgresStore::open(&url, options(&fixture.schema)).await;
    assert!(matches!(refused, Err(ConnectError::ReadOnly { .. })), "{refused:?}");
    fixture.execute("DROP ROLE r_{schema}").await
}

#[tokio::test]
async fn what_is_no_url_or_no_server_is_refused_soon() -> TestResult {
    let bad = PostgresStore::open("postgres://ann:secret@host:port/db", options("workflow")).await;
    assert!(matches!(&bad, Err(ConnectError::InvalidUrl { url, .. }) if !url.contains("secret")), "{bad:?}");
    let nobody = PostgresStore::open("postgres://ann:secret@127.0.0.1:1/db", options("workflow"));
    let nobody = tokio::time::timeout(Duration::from_secs(5), nobody).await?;
    assert!(matches!(&nobody, Err(ConnectError::Database { url, .. }) if !url.contains("secret")), "{nobody:?}");
    Ok(())
}

#[tokio::test]
async fn sessions_keep_our_promises_whatever_the_server_says() -> TestResult {
    let fixture = fixture_with_pool(1).await?;
    let mut connection = fixture.store.pool.acquire().await?;
    for (setting, expected) in [
        ("transaction_isolation", "read committed"),
        ("synchronous_commit", "on"),
        ("statement_timeout", "30s"),
        ("lock_timeout", "10s"),
        ("idle_in_transaction_session_timeout", "1min"),
        ("application_name", "workflow"),
        ("plan_cache_mode", "force_custom_plan"),
    ] {
        let row = sqlx::query("SELECT current_setting($1) AS value").bind(setting).fetch_one(&mut *connection).await?;
        assert_eq!(row.try_get::<&str, _>("value")?, expected, "{setting}");
    }
    Ok(())
}

/// A server, a database or a role may demand that a commit waits until standbys show it.
#[tokio::test]
async fn sessions_demand_no_less_of_a_commit_than_the_server() -> TestResult {
    let fixture = fixture().await?;
    fixture
        .execute(
            "CREATE ROLE r_{schema} LOGIN PASSWORD 'secret';
             GRANT USAGE ON SCHEMA {schema} TO r_{schema};
             GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO r_{schema}",
        )
        .await?;
    let (scheme, rest) = fixture_url()?;
    let as_role = format!("{scheme}://r_{}:secret@{rest}", fixture.schema);
    for (demanded, expected) in
        [("remote_apply", "remote_apply"), ("on", "on"), ("remote_write", "on"), ("local", "on"), ("off", "on")]
    {
        fixture.execute(&format!("ALTER ROLE r_{{schema}} SET synchronous_commit = {demanded}")).await?;
        let store = PostgresStore::open(&as_role, options(&fixture.schema)).await?;
        let mut ours = store.pool.acquire().await?;
        assert_eq!(synchronous_commit(&mut ours).await?, expected, "a session that demands {demanded}");
        // As on a connection of the application's pool.
        let mut theirs = PgConnection::connect(&as_role).await?;
        assert_eq!(synchronous_commit(&mut theirs).await?, demanded);
        sqlx::raw_sql(BEGIN_STEP).execute(&mut theirs).await?;
        assert_eq!(synchronous_commit(&mut theirs).await?, expected, "a step in a session that demands {demanded}");
        drop(ours);
        store.close().await;
    }
    Ok(())
}

async fn synchronous_commit(connection: &mut PgConnection) -> TestResult<String> {
    let read = "SELECT current_setting('synchronous_commit')";
    Ok(sqlx::query_scalar(read).fetch_one(connection).await?)
}

#[tokio::test]
async fn a_pool_whose_connections_were_cut_recovers() -> TestResult {
    let fixture = fixture_with_pool(2).await?;
    fixture.start().await?;
    let mut connection = fixture.store.pool.acquire().await?;
    let pid: i32 = sqlx::query("SELECT pg_backend_pid() AS pid").fetch_one(&mut *connection).await?.try_get("pid")?;
    drop(connection);
    tokio::time::sleep(Duration::from_millis(50)).await;
    fixture.execute(&format!("SELECT pg_terminate_backend({pid}, 5000)")).await?;
    let first = fixture.store.list(&RunFilter::new()).await;
    let second = fixture.store.list(&RunFilter::new()).await;
    assert!(first.is_ok() || second.is_ok(), "{first:?}, then {second:?}");
    assert_eq!(fixture.store.list(&RunFilter::new()).await?.len(), 1);
    Ok(())
}

#[tokio::test]
async fn a_call_without_an_answer_ends_and_its_connection_is_not_used_again() -> TestResult {
    let fixture = fixture_with_pool(1).await?;
    let mut call = fixture.store.begin_call("wait").await?;
    let wait = async { Ok(sqlx::query("SELECT pg_sleep(60)").execute(call.connection()).await?) };
    let result = Limit::after(Duration::from_millis(50)).run(wait).await;
    let ended = call.end(result);
    assert!(matches!(&ended, Err(error) if error.kind == DatabaseErrorKind::Unreachable), "{ended:?}");
    let next = tokio::time::timeout(Duration::from_secs(8), fixture.start()).await?;
    assert!(next.is_ok(), "{next:?}");
    Ok(())
}

fn fixture_url() -> TestResult<(String, String)> {
    let url = url()?;
    let (scheme, rest) = url.split_once("://").ok_or("no URL")?;
    let rest = rest.split_once('@').map_or(rest, |(_, rest)| rest);
    Ok((scheme.to_owned(), rest.to_owned()))
}
