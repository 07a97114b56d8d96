#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;

use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteLockingMode, SqlitePoolOptions};

use workflow_engine::model::RunFilter;
use workflow_engine::store::{ConnectError, Store, StoreOptions};

use super::SqliteStore;

fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new().filename(path).create_if_missing(true)
}

fn pool(options: SqliteConnectOptions) -> SqlitePool {
    SqlitePoolOptions::new().max_connections(2).connect_lazy_with(options)
}

async fn open(pool: &SqlitePool) -> Result<SqliteStore, ConnectError> {
    SqliteStore::open_pool(pool.clone(), StoreOptions::default()).await
}

/// Opens the pool and returns why it does not suit.
async fn reason(pool: SqlitePool) -> &'static str {
    match open(&pool).await {
        Err(ConnectError::UnsuitablePool { reason }) => reason,
        other => panic!("expected UnsuitablePool, got {other:?}"),
    }
}

#[tokio::test]
async fn a_pool_creates_its_file_only_if_its_options_say_so() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shop.db");
    let refused = open(&pool(options(&path).create_if_missing(false))).await;
    assert!(matches!(refused, Err(ConnectError::Database { .. })), "{refused:?}");
    assert!(!path.exists());
    let pool = pool(options(&path));
    let store = open(&pool).await.unwrap();
    assert!(store.list(&RunFilter::new()).await.unwrap().is_empty());
    store.close().await;
    assert!(!pool.is_closed());
}

#[tokio::test]
async fn pools_of_rollback_journals_are_switched_or_refused() {
    let directory = tempfile::tempdir().unwrap();
    for (mode, suits) in [(None, true), (Some(SqliteJournalMode::Wal), true), (Some(SqliteJournalMode::Delete), false)]
    {
        let path = directory.path().join(format!("{mode:?}.db"));
        let connect = match mode {
            Some(mode) => options(&path).journal_mode(mode),
            None => options(&path),
        };
        let pool = pool(connect.busy_timeout(std::time::Duration::from_millis(50)));
        // A connection that was open before the switch must go on.
        sqlx::query("CREATE TABLE notes (note TEXT)").execute(&pool).await.unwrap();
        if suits {
            open(&pool).await.unwrap();
            sqlx::query("INSERT INTO notes VALUES ('a')").execute(&pool).await.unwrap();
        } else {
            assert!(reason(pool).await.contains("journal mode"));
        }
    }
}

#[tokio::test]
async fn pools_that_cannot_share_a_file_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shop.db");
    assert!(reason(pool(SqliteConnectOptions::new().in_memory(true))).await.contains("in memory"));
    assert!(reason(pool(SqliteConnectOptions::new().filename(":memory:"))).await.contains("in memory"));
    let shared: SqliteConnectOptions = "sqlite::memory:".parse().unwrap();
    assert!(reason(pool(shared)).await.contains("in memory"));
    assert!(reason(pool(SqliteConnectOptions::new().filename(""))).await.contains("in memory"));
    let exclusive = pool(options(&path).locking_mode(SqliteLockingMode::Exclusive));
    assert!(reason(exclusive.clone()).await.contains("locking_mode"));
    exclusive.close().await;
    let closed = pool(options(&path));
    closed.close().await;
    assert!(reason(closed).await.contains("closed"));
    let read_only = open(&pool(options(&path).create_if_missing(false).read_only(true))).await;
    assert!(matches!(read_only, Err(ConnectError::ReadOnly { .. })), "{read_only:?}");
}

#[tokio::test]
async fn a_key_among_the_options_is_never_shown() {
    let directory = tempfile::tempdir().unwrap();
    let pool = pool(options(&directory.path().join("shop.db")).pragma("key", "'hunter2'"));
    let store = open(&pool).await.unwrap();
    let listener = store.listen().await.unwrap();
    let shown = format!("{store:?} {listener:?}");
    assert!(shown.contains("shop.db") && !shown.contains("hunter2"), "{shown}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_pool_on_a_file_that_was_removed_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shop.db");
    let pool = SqlitePoolOptions::new().max_connections(1).connect_lazy_with(options(&path));
    sqlx::query("CREATE TABLE notes (note TEXT)").execute(&pool).await.unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(reason(pool).await.contains("replaced"));
    assert!(!path.exists());
}
