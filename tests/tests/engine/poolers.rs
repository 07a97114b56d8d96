//! PostgreSQL behind a pooler.

use std::time::Duration;

use workflow_engine::model::{Retention, WorkerId};
use workflow_sdk::prelude::*;
use workflow_sdk::sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use workflow_sdk::sqlx::{self, Connection, PgConnection};
use workflow_sdk::{Connect, ConnectError};
use workflow_tests::{Database, Live, LocalWorker, ServerScript, until};
use workflow_worker::Worker;

/// Fails if the client is not refused because of the pooler.
async fn refused(connect: Connect) {
    let refused = connect.await.unwrap_err();
    assert!(matches!(&refused, ConnectError::TransactionPooler { .. }), "{refused:?}");
    assert!(refused.to_string().contains("session mode"), "{refused}");
}

#[tokio::test]
async fn a_pooler_that_lends_transactions_is_refused() {
    for (mode, connections) in [("transaction", 20), ("transaction", 1), ("statement", 20)] {
        let pooler = ServerScript::pooler(mode, connections);
        refused(Client::connect(&pooler.url)).await;
        let options: PgConnectOptions = pooler.url.parse().unwrap();
        // PgBouncer refuses the parameter by default.
        let options = options.extra_float_digits(None);
        refused(Client::from_pool(PgPoolOptions::new().connect_lazy_with(options))).await;
        // Nothing was set on the connections that the pooler lends to others.
        let mut other = connect(&pooler).await;
        let mode: String =
            sqlx::query_scalar("SELECT current_setting('plan_cache_mode')").fetch_one(&mut other).await.unwrap();
        assert_eq!(mode, "auto");
    }
}

async fn connect(pooler: &ServerScript) -> PgConnection {
    let options: PgConnectOptions = pooler.url.parse().unwrap();
    PgConnection::connect_with(&options.extra_float_digits(None)).await.unwrap()
}

#[tokio::test]
async fn a_busy_pooler_that_lends_transactions_is_refused() {
    let pooler = ServerScript::pooler("transaction", 5);
    let load = async {
        let transactions = (0..8).map(async |_| {
            let mut connection = connect(&pooler).await;
            loop {
                sqlx::raw_sql("BEGIN; SELECT pg_sleep(0.001); COMMIT").execute(&mut connection).await.unwrap();
            }
        });
        futures::future::join_all(transactions).await;
    };
    let connects = async {
        for _ in 0..20 {
            refused(Client::connect(&pooler.url)).await;
        }
    };
    tokio::select! {
        () = load => {}
        () = connects => {}
    }
}

#[workflow]
async fn greet(ctx: &Ctx, name: String) -> Result<String> {
    let greeting = ctx.step("greet", async || ok(format!("hello {name}"))).await?;
    ctx.sleep(Duration::from_millis(50)).await?;
    ctx.transaction("note", async |_tx: Tx| ok(())).await?;
    Ok(greeting)
}

#[tokio::test]
async fn a_pooler_in_session_mode_serves_clients_and_workers() {
    let pooler = ServerScript::pooler("session", 20);
    let db = Live::new(Database::Postgres).await;
    let connect = || Client::connect(&pooler.url).schema(db.schema().unwrap()).pool_size(2);
    let client = connect().await.unwrap();
    // Notifications of another process arrive, because the worker hardly ever polls.
    let other = connect().await.unwrap();
    let worker = Worker::new(client.clone(), ()).register(greet).poll_interval(Duration::from_secs(3600));
    let worker = LocalWorker::start(worker);
    let run = other.start(greet, "ann".into()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), "hello ann");
    worker.stop().await;

    // The liveness lock of a worker is free once its connection to the pooler is gone.
    let store = client.store();
    let lease = store.open_lease(WorkerId::generate(), &[], &Retention::default()).await.unwrap();
    assert!(store.workers().await.unwrap()[0].live);
    drop(lease);
    until("the lock is free", async || (!store.workers().await.unwrap()[0].live).then_some(())).await;
    client.store().close().await;
    other.store().close().await;
    drop(pooler);
    db.sweep().await;
}

#[tokio::test]
async fn a_pooler_without_enough_connections_is_refused() {
    let pooler = ServerScript::pooler("session", 1);
    let refused = Client::connect(&pooler.url).timeout(Duration::from_secs(5)).await.unwrap_err();
    assert!(matches!(&refused, ConnectError::TooFewConnections { needed: 12, .. }), "{refused:?}");
    assert!(refused.to_string().contains("raise the pool size"), "{refused}");
}
