#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::Duration;

use workflow_engine::model::{NewRun, RunStatus};
use workflow_engine::store::{Store, Write};

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
