#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;

use workflow_engine::model::{Retention, WorkerId};
use workflow_engine::store::{DatabaseErrorKind, Store, Write};

use super::fixture_tests::*;

/// Checks that no commit is acknowledged, nothing is read, and no claim is renewed.
async fn is_unreachable(f: &Fixture, what: &str) {
    let commit = f.store.commit(&[Write::Start(new_run())]).await.map(drop);
    let read = f.store.list(&workflow_engine::model::RunFilter::new()).await.map(drop);
    let lease = f.store.open_lease(WorkerId::generate(), &[], &Retention::default()).await.map(drop);
    for (call, result) in [("commit", commit), ("read", read), ("lease", lease)] {
        let error = result.err().unwrap_or_else(|| panic!("{call} succeeds after {what}"));
        assert_eq!(error.kind, DatabaseErrorKind::Unreachable, "{call} after {what}: {error:?}");
        assert!(error.source.to_string().contains("removed, moved or replaced"), "{call}: {error:?}");
    }
}

#[tokio::test]
async fn nothing_is_acknowledged_after_a_file_was_removed_moved_or_replaced() {
    for file in ["runs.db", "runs.db-wal", "runs.db-shm"] {
        for replaced in [false, true] {
            let f = Fixture::file().await;
            f.start().await;
            let claim = f.started_and_claimed().await;
            let mut session = f.store.open_lease(WorkerId::generate(), &[], &Retention::default()).await.unwrap();
            assert_eq!(session.renew(&[claim], LEASE).await.unwrap().len(), 1);
            let path = f.directory.path().join(file);
            let away = f.directory.path().join("away");
            let what = format!("{file} was moved, replaced: {replaced}");
            fs::rename(&path, &away).unwrap();
            if replaced {
                fs::copy(&away, &path).unwrap();
            }
            is_unreachable(&f, &what).await;
            let renewed = session.renew(&[claim], LEASE).await;
            assert_eq!(renewed.map_err(|error| error.kind), Err(DatabaseErrorKind::Unreachable), "{what}");
            // The file is in its place again.
            fs::rename(&away, &path).unwrap();
            f.start().await;
            assert_eq!(session.renew(&[claim], LEASE).await.unwrap().len(), 1);
        }
    }
}

/// A process loses its locks on a file when it closes any descriptor of it.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_second_connect_keeps_the_locks_of_the_first() {
    use std::os::unix::fs::MetadataExt;
    let f = Fixture::file().await;
    f.start().await;
    let path = f.directory.path().join("runs.db");
    let inode = format!(":{}", fs::metadata(&path).unwrap().ino());
    let locks = || {
        let all = fs::read_to_string("/proc/locks").unwrap();
        all.lines().filter(|lock| lock.split(' ').any(|word| word.ends_with(&inode))).count()
    };
    let held = locks();
    assert!(held > 0, "the open connections lock the file");
    super::location::prepare(&path, "sqlite://runs.db").unwrap();
    assert_eq!(locks(), held);
}

#[tokio::test]
async fn the_files_outlive_the_other_connections() {
    let f = Fixture::file().await;
    // Another process comes and goes, and the writer is given up and opened again.
    let other = f.second_process().await;
    other.commit(&[Write::Start(new_run())]).await.unwrap();
    other.close().await;
    f.store.database.writer.lock().await.unwrap().begin().await.unwrap();
    for _ in 0..3 {
        f.start().await;
    }
}
