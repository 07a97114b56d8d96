use sqlx::AssertSqlSafe;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use workflow_engine::model::Retention;

use workflow_engine::store::{ConnectError, Store, StoreOptions};

use super::PostgresStore;
use super::fixture_tests::{TestResult, fixture, url};

fn options(schema: &str) -> StoreOptions {
    StoreOptions { pool_size: 1, schema: schema.into(), ..StoreOptions::default() }
}

#[tokio::test]
async fn a_pool_whose_role_cannot_read_is_refused() -> TestResult {
    let fixture = fixture().await?;
    fixture.execute("CREATE ROLE r_{schema}").await?;
    let set_role = format!("SET ROLE r_{}", fixture.schema);
    let pool = PgPoolOptions::new().after_connect(move |connection, _| {
        let set_role = AssertSqlSafe(set_role.clone());
        Box::pin(async move { sqlx::raw_sql(set_role).execute(connection).await.map(drop) })
    });
    let pool = pool.connect_lazy(&url()?)?;
    let refused = PostgresStore::open_pool(pool, options(&fixture.schema)).await;
    assert!(
        matches!(&refused, Err(ConnectError::Database { url, source })
            if source.operation == "read on a connection of the pool" && !url.contains("p4ssword")),
        "{refused:?}"
    );
    fixture.execute("DROP ROLE r_{schema}").await
}

#[tokio::test]
async fn connections_follow_the_connect_options_of_the_pool() -> TestResult {
    let fixture = fixture().await?;
    let base: PgConnectOptions = url()?.parse()?;
    let named = |name: &str| base.clone().application_name(name);
    let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(named("before"));
    let store = PostgresStore::open_pool(pool.clone(), options(&fixture.schema)).await?;
    let name = format!("after_{}", fixture.schema);
    // As an application does whose password changes.
    pool.set_connect_options(named(&name));
    let _listener = store.listen().await?;
    let _lease = store.open_lease(fixture.worker, &[], &Retention::default()).await?;
    let count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1";
    let count: i64 = sqlx::query_scalar(count).bind(&name).fetch_one(&mut fixture.connect().await?).await?;
    assert_eq!(count, 3, "the sessions of the listener, the lease and its witness");
    Ok(())
}
