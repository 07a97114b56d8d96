//! How long a client waits for a database that does not answer.

use std::time::Duration;

use workflow_sdk::prelude::*;
use workflow_sdk::sqlx::postgres::PgPoolOptions;
use workflow_sdk::sqlx::sqlite::SqlitePoolOptions;
use workflow_sdk::{ClientError, ConnectError, RunFilter};
use workflow_tests::{Database, Live, RawConnection, until};

/// Short, because the cases wait for its end.
const TIMEOUT: Duration = Duration::from_millis(300);

#[workflow]
async fn echo(ctx: &Ctx, text: String) -> Result<String> {
    let _ = ctx;
    ok(text)
}

/// Returns whether the effect of the call is unknown.
fn effect_unknown<T: std::fmt::Debug>(result: Result<T, ClientError>) -> bool {
    match result {
        Err(ClientError::TimedOut { after: TIMEOUT, effect_unknown }) => effect_unknown,
        other => panic!("expected TimedOut, got {other:?}"),
    }
}

pub async fn a_call_ends_although_the_database_does_not_answer(db: Live) {
    let client = db.connect().call_timeout(TIMEOUT).await.unwrap();
    let mut raw = db.raw().await;
    let lock = match db.database {
        Database::Memory => unreachable!("these cases do not run on the in-memory store"),
        Database::Sqlite => "BEGIN IMMEDIATE",
        Database::Postgres => "BEGIN; LOCK TABLE workflow_runs",
    };
    raw.execute(lock).await;
    let refused = client.start(echo, "a".into()).key("order-42").await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the database did not answer within 300ms; \
         the write may still take effect: repeat it with the same key, or look whether it did"
    );
    assert!(effect_unknown(client.start_many(echo, ["b".to_owned(), "c".to_owned()]).await));
    if db.database == Database::Postgres {
        // On SQLite a reader does not wait for a writer.
        assert!(!effect_unknown(client.list(&RunFilter::new()).await));
        assert!(!effect_unknown(client.find(echo, "order-42").await));
    }
    raw.execute("ROLLBACK").await;
    // The write was queued, and the key makes one run of both. The client of the case has
    // no timeout that a busy machine could pass.
    let found = until("the write takes effect", async || db.client.find(echo, "order-42").await.unwrap()).await;
    let run = db.client.start(echo, "a".into()).key("order-42").await.unwrap();
    assert_eq!(found.id(), run.id());
    assert_eq!(run.status().await.unwrap(), RunStatus::Pending);
    reads_of_an_exhausted_pool_end(&db).await;
}

async fn reads_of_an_exhausted_pool_end(db: &Live) {
    let refused = match db.schema() {
        None => {
            let pool = SqlitePoolOptions::new().max_connections(1).connect(&db.url()).await.unwrap();
            let client = Client::from_pool(pool.clone()).call_timeout(TIMEOUT).await.unwrap();
            let _held = pool.acquire().await.unwrap();
            client.list(&RunFilter::new()).await
        }
        Some(schema) => {
            let pool = PgPoolOptions::new().max_connections(1).connect(&db.url()).await.unwrap();
            let client = Client::from_pool(pool.clone()).schema(schema).call_timeout(TIMEOUT).await.unwrap();
            let _held = pool.acquire().await.unwrap();
            client.list(&RunFilter::new()).await
        }
    };
    assert!(!effect_unknown(refused));
}

pub async fn a_client_whose_database_does_not_answer_is_refused(db: Live) {
    // It accepts connections, and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = format!("sqlite://{}", directory.path().join("locked.db").display());
    let mut raw = None;
    let url = match db.database {
        Database::Memory => unreachable!("these cases do not run on the in-memory store"),
        Database::Sqlite => {
            std::fs::File::create(directory.path().join("locked.db")).unwrap();
            let mut connection = RawConnection::open(&file, None).await;
            connection.execute("BEGIN EXCLUSIVE").await;
            raw = Some(connection);
            file
        }
        Database::Postgres => format!("postgres://ann:secret@{}/db", silent.local_addr().unwrap()),
    };
    let refused = Client::connect(&url).timeout(TIMEOUT).await.unwrap_err();
    assert!(matches!(refused, ConnectError::TimedOut { after: TIMEOUT, .. }), "{refused:?}");
    assert!(!refused.to_string().contains("secret"), "{refused}");
    drop(raw);
}
