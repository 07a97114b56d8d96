#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::Duration;

use sqlx::ConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;
use workflow_engine::model::{NewRun, Retention, RunStatus, WorkerId};
use workflow_engine::store::{Store, Write};

use super::error::LOCK_TIMEOUT;
use super::fixture_tests::*;

#[tokio::test]
async fn a_dropped_commit_leaves_no_transaction() {
    for f in [Fixture::file().await, Fixture::memory().await] {
        for micros in 0..200 {
            let batch: Vec<Write> = (0..20).map(|_| Write::Start(new_run())).collect();
            let _ = tokio::time::timeout(Duration::from_micros(micros * 5), f.store.commit(&batch)).await;
        }
        let id = f.start().await;
        assert_eq!(f.run(id).await.status, RunStatus::Pending);
        let all = f.store.next_due(&[lane()]).await.unwrap();
        assert_eq!(all.at, Some(START));
    }
}

/// SQLite waits for a few milliseconds only, so each of these calls has to ask again.
#[tokio::test]
async fn calls_wait_while_another_process_holds_the_write_lock() {
    let f = Fixture::file().await;
    let id = f.start().await;
    let claim = f.claim(WorkerId::generate(), 1).await.remove(0).claim;
    let mut lease = f.store.open_lease(WorkerId::generate(), &[lane()], &Retention::default()).await.unwrap();
    let second = f.second_process().await;
    for call in 0..4 {
        let mut holder = second.database.writer.lock().await.unwrap();
        holder.begin().await.unwrap();
        let waits = async {
            match call {
                0 => f.store.commit(&[Write::Start(new_run())]).await.map(drop),
                1 => f.store.commit_on_slow_path(&[Write::Start(new_run())]).await.map(drop),
                2 => lease.renew(&[claim], LEASE).await.map(drop),
                _ => f.store.begin(claim).await.map(drop),
            }
        };
        let ends = async {
            let url = format!("sqlite:{}", f.directory.path().join("runs.db").display());
            let options: SqliteConnectOptions = url.parse().unwrap();
            let mut other = options.busy_timeout(10 * LOCK_TIMEOUT).connect().await.unwrap();
            sqlx::query("BEGIN IMMEDIATE").execute(&mut other).await.unwrap_err();
            holder.roll_back().await;
        };
        let (ended, ()) = tokio::join!(waits, ends);
        ended.unwrap_or_else(|error| panic!("call {call}: {error:?}"));
    }
    assert_eq!(f.run(id).await.status, RunStatus::Running);
}

/// SQLite itself rolls back when the disk is full. A driver that counts open transactions does not
/// notice, and its count stays wrong.
#[tokio::test]
async fn the_writer_works_again_after_a_full_disk() {
    let f = Fixture::file().await;
    let limit = async |pages: &'static str| {
        let mut writer = f.store.database.writer.lock().await.unwrap();
        sqlx::query(pages).execute(writer.connection().unwrap()).await.unwrap();
    };
    limit("PRAGMA max_page_count = 60").await;
    let large = NewRun { input: format!("\"{}\"", "x".repeat(1 << 20)), ..new_run() };
    let error = f.store.commit(&[Write::Start(large.clone())]).await.unwrap_err();
    assert_eq!(error.kind, workflow_engine::store::DatabaseErrorKind::Busy, "{error:?}");
    f.start().await;
    limit("PRAGMA max_page_count = 1000000").await;
    f.commit_one(Write::Start(large)).await;
}
