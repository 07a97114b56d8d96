//! Tests of the fault-injecting proxy between clients and PostgreSQL.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use sqlx::{Connection, Executor, PgConnection};
use workflow_tests::postgres::postgres_url;
use workflow_tests::until;
use workflow_torture::proxy::{Fault, Moment, Proxy};

/// Creates a proxy, a table, and a connection that does not go through the proxy.
async fn setup() -> (Proxy, String, PgConnection) {
    let proxy = Proxy::to(&postgres_url()).expect("a proxy");
    let table = format!("p_{}", uuid::Uuid::new_v4().simple());
    let mut direct = PgConnection::connect(&postgres_url()).await.expect("connect directly");
    direct.execute(sqlx::AssertSqlSafe(format!("CREATE TABLE {table} (n int)"))).await.expect("make a table");
    (proxy, table, direct)
}

async fn connect(proxy: &Proxy) -> PgConnection {
    PgConnection::connect(&proxy.url()).await.expect("connect through the proxy")
}

/// Inserts a row in a transaction.
async fn insert(connection: &mut PgConnection, table: &str) -> Result<(), sqlx::Error> {
    let mut transaction = connection.begin().await?;
    transaction.execute(sqlx::AssertSqlSafe(format!("INSERT INTO {table} VALUES (1)"))).await?;
    transaction.commit().await
}

async fn rows(direct: &mut PgConnection, table: &str) -> i64 {
    let count = sqlx::AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
    sqlx::query_scalar(count).fetch_one(direct).await.expect("count")
}

fn was_cut(result: Result<(), sqlx::Error>) {
    assert!(matches!(result, Err(sqlx::Error::Io(_) | sqlx::Error::Protocol(_))), "{result:?}");
}

#[tokio::test]
async fn everything_passes_slowly_and_in_single_bytes() {
    let (proxy, table, mut direct) = setup().await;
    let mut connection = connect(&proxy).await;
    insert(&mut connection, &table).await.expect("an untouched connection");
    for fault in [Fault::Bytes, Fault::Slow(Duration::from_millis(1)), Fault::Stall(Duration::from_millis(1))] {
        proxy.arm(fault, Moment::Frame(1));
        insert(&mut connection, &table).await.expect("late, but whole");
        let mut another = connect(&proxy).await;
        insert(&mut another, &table).await.expect("late, but whole");
        let text = "ä".repeat(100_000);
        let echo: String =
            sqlx::query_scalar("SELECT $1::text").bind(&text).fetch_one(&mut another).await.expect("echo");
        assert!(echo == text);
        proxy.heal();
    }
    assert_eq!(proxy.delivered().len(), 3);
    assert_eq!(proxy.commits(), 7);
    assert_eq!(rows(&mut direct, &table).await, 7);
}

#[tokio::test]
async fn a_cut_before_the_commit_loses_everything_and_after_it_nothing() {
    let (proxy, table, mut direct) = setup().await;
    let mut expected = 0;
    for fault in [Fault::Close, Fault::Reset, Fault::Torn] {
        for moment in [Moment::Commit, Moment::CommitReply] {
            let mut connection = connect(&proxy).await;
            proxy.arm(fault, moment);
            was_cut(insert(&mut connection, &table).await);
            expected += i64::from(moment == Moment::CommitReply);
            let delivered = *proxy.delivered().last().expect("delivered");
            assert_eq!((delivered.fault, delivered.moment, delivered.in_transaction), (fault, moment, true));
            assert_eq!(rows(&mut direct, &table).await, expected, "{delivered}");
        }
    }
    assert_eq!(proxy.commits(), 0, "no client received the reply to a commit");
}

#[tokio::test]
async fn a_hole_swallows_everything_until_it_is_healed() {
    let (proxy, table, mut direct) = setup().await;
    let (mut hit, mut idle) = (connect(&proxy).await, connect(&proxy).await);
    proxy.arm(Fault::Hole, Moment::CommitReply);
    let mut inserting = pin!(insert(&mut hit, &table));
    let is_open = until("the fault happens", async || {
        let polled = poll_fn(|context| Poll::Ready(inserting.as_mut().poll(context))).await;
        (!proxy.delivered().is_empty()).then_some(polled.is_pending())
    });
    assert!(is_open.await, "the client is not told that the connection is dead");
    assert_eq!(rows(&mut direct, &table).await, 1, "the row is committed, and the reply is lost");
    let url = proxy.url();
    let mut knock = pin!(PgConnection::connect(&url));
    tokio::select! {
        biased;
        result = &mut knock => panic!("answered: {result:?}"),
        count = rows(&mut direct, &table) => assert_eq!(count, 1),
    }
    proxy.heal();
    insert(&mut idle, &table).await.expect("the idle connection lost nothing in the hole");
    insert(&mut connect(&proxy).await, &table).await.expect("a new connection");
    let polled = poll_fn(|context| Poll::Ready(inserting.as_mut().poll(context))).await;
    assert!(polled.is_pending(), "swallowed bytes stay lost");
    assert_eq!(rows(&mut direct, &table).await, 3);
}

#[tokio::test]
async fn an_idle_connection_is_not_hit() {
    let (proxy, table, mut direct) = setup().await;
    let mut connection = connect(&proxy).await;
    proxy.arm(Fault::Reset, Moment::Frame(2));
    assert_eq!(rows(&mut direct, &table).await, 0);
    assert_eq!(proxy.delivered(), [], "no connection is in a transaction");
    was_cut(insert(&mut connection, &table).await);
    assert_eq!(proxy.delivered().len(), 1);
    connect(&proxy).await.ping().await.expect("a fault happens once");
    proxy.arm(Fault::Reset, Moment::Frame(0));
    proxy.heal();
    connect(&proxy).await.ping().await.expect("a healed fault does not happen");
    assert_eq!(rows(&mut direct, &table).await, 0);
}

#[tokio::test]
async fn a_cut_ends_every_connection_and_none_that_comes_later() {
    let (proxy, table, mut direct) = setup().await;
    let (mut one, mut other) = (connect(&proxy).await, connect(&proxy).await);
    insert(&mut one, &table).await.expect("an untouched connection");
    proxy.cut();
    was_cut(insert(&mut one, &table).await);
    was_cut(insert(&mut other, &table).await);
    insert(&mut connect(&proxy).await, &table).await.expect("a new connection");
    assert_eq!(rows(&mut direct, &table).await, 2);
}
