//! Clients over a connection pool of the application.

use std::str::FromStr;
use std::time::Duration;

use workflow_sdk::prelude::*;
use workflow_sdk::sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use workflow_sdk::sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use workflow_sdk::sqlx::{self, PgPool, SqlitePool};
use workflow_sdk::{ClientError, Connect, ConnectError, DatabaseErrorKind, RunFilter};
use workflow_tests::{Database, Live, LocalWorker};
use workflow_worker::Worker;

const LONG: Duration = Duration::from_secs(30);

/// A pool of the application with settings of its own, which differ from those of our sessions.
#[derive(Clone)]
enum Pool {
    Sqlite(SqlitePool),
    Postgres(PgPool),
}

/// A connection of the pool that the test holds.
enum Held {
    Sqlite { _connection: sqlx::pool::PoolConnection<sqlx::Sqlite> },
    Postgres { _connection: sqlx::pool::PoolConnection<sqlx::Postgres> },
}

impl Pool {
    /// Opens a pool of one connection, for which a caller waits at most this long.
    async fn new(db: &Live, patience: Duration) -> Self {
        db.raw().await.execute("CREATE TABLE notes (note TEXT NOT NULL)").await;
        match db.database {
            Database::Memory => unreachable!("these cases do not run on the in-memory store"),
            Database::Sqlite => {
                let connect = SqliteConnectOptions::from_str(&db.url()).unwrap().foreign_keys(false);
                let options = SqlitePoolOptions::new().max_connections(1).acquire_timeout(patience);
                Self::Sqlite(options.connect_lazy_with(connect))
            }
            Database::Postgres => {
                let settings = [
                    ("search_path", db.schema().unwrap()),
                    ("default_transaction_isolation", "serializable"),
                    ("synchronous_commit", "off"),
                ];
                let options = PgPoolOptions::new().max_connections(1).acquire_timeout(patience);
                let options = options.after_connect(move |connection, _| {
                    Box::pin(async move {
                        sqlx::query("SET default_transaction_read_only = on").execute(connection).await.map(drop)
                    })
                });
                let connect = PgConnectOptions::from_str(&db.url()).unwrap();
                Self::Postgres(options.connect_lazy_with(connect.options(settings)))
            }
        }
    }

    fn connect(&self, db: &Live) -> Connect {
        let connect = match self {
            Self::Sqlite(pool) => Client::from_pool(pool.clone()),
            Self::Postgres(pool) => Client::from_pool(pool.clone()),
        };
        match db.schema() {
            Some(schema) => connect.schema(schema),
            None => connect,
        }
    }

    async fn hold(&self) -> Held {
        match self {
            Self::Sqlite(pool) => Held::Sqlite { _connection: pool.acquire().await.unwrap() },
            Self::Postgres(pool) => Held::Postgres { _connection: pool.acquire().await.unwrap() },
        }
    }

    async fn close(&self) {
        match self {
            Self::Sqlite(pool) => pool.close().await,
            Self::Postgres(pool) => pool.close().await,
        }
    }
}

const INSERT: &str = "INSERT INTO notes (note) VALUES ($1)";

/// Inserts nothing if the transaction relies on the settings of the pool.
const INSERT_IF_SAFE: &str = "INSERT INTO notes (note) SELECT $1
     WHERE current_setting('synchronous_commit') = 'on' AND current_setting('transaction_isolation') = 'read committed'";

/// Inserts a note into the application's table, whose schema is not named.
#[workflow]
async fn note(ctx: &Ctx, text: String) -> Result<String> {
    let upper = ctx.step("upper", async || ok(text.to_uppercase())).await?;
    let insert = async |mut tx: Tx| {
        match tx.sqlite() {
            Ok(connection) => sqlx::query(INSERT).bind(&upper).execute(connection).await.map(drop)?,
            Err(_) => sqlx::query(INSERT_IF_SAFE).bind(&upper).execute(tx.postgres()?).await.map(drop)?,
        }
        Ok::<_, Error>(())
    };
    ctx.transaction("insert", insert).await?;
    Ok(upper)
}

pub async fn runs_work_over_a_pool_of_the_application(db: Live) {
    let pool = Pool::new(&db, LONG).await;
    let client = pool.connect(&db).await.unwrap();
    let worker = LocalWorker::start(Worker::new(client.clone(), ()).register(note));
    let run = client.start(note, "a".into()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), "A");
    assert_eq!(db.raw().await.lines("SELECT note FROM notes", "note").await, ["A"]);
    worker.stop().await;

    client.store().close().await;
    let refused = client.list(&RunFilter::new()).await.unwrap_err();
    assert!(matches!(&refused, ClientError::Database(error) if error.kind == DatabaseErrorKind::Unreachable));
    // The pool is still the application's, and a second client can use it.
    let again = pool.connect(&db).await.unwrap();
    assert_eq!(again.list(&RunFilter::new()).await.unwrap().len(), 1);
    pool.close().await;
}

pub async fn reads_take_a_connection_of_the_pool_and_writes_do_not(db: Live) {
    let pool = Pool::new(&db, Duration::from_secs(5)).await;
    let client = pool.connect(&db).await.unwrap();
    let held = pool.hold().await;
    let run = client.start(note, "a".into()).await.unwrap();
    let refused = run.status().await.unwrap_err();
    assert!(
        matches!(&refused, ClientError::Database(error) if error.kind == DatabaseErrorKind::Busy),
        "the only connection is held: {refused:?}"
    );
    drop(held);
    assert_eq!(run.status().await.unwrap(), RunStatus::Pending);
    pool.close().await;
}

pub async fn a_pool_that_the_application_closed_is_refused(db: Live) {
    let pool = Pool::new(&db, LONG).await;
    let client = pool.connect(&db).await.unwrap();
    pool.close().await;
    let refused = client.list(&RunFilter::new()).await.unwrap_err();
    assert!(matches!(&refused, ClientError::Database(error) if error.kind == DatabaseErrorKind::Unreachable));
    let refused = pool.connect(&db).await.unwrap_err();
    assert!(matches!(&refused, ConnectError::UnsuitablePool { reason } if reason.contains("closed")), "{refused}");
}
