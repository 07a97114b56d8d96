#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::Duration;

use workflow_engine::model::{Claim, Retention, RunStatus, WorkerId};
use workflow_engine::store::{DatabaseErrorKind, Store};

use super::fixture_tests::*;

#[tokio::test]
async fn only_claims_that_hold_are_renewed() {
    for f in [Fixture::file().await, Fixture::memory().await] {
        let claim = f.started_and_claimed().await;
        let ended = f.started_and_claimed().await;
        f.commit_one(end_write(ended, "1")).await;
        let stale = Claim { epoch: 0, ..claim };
        let mut session = f.store.open_lease(WorkerId::generate(), &[], &Retention::default()).await.unwrap();
        f.clock.advance(Duration::from_secs(10));
        let renewed = session.renew(&[stale, claim, ended], LEASE).await.unwrap();
        assert_eq!(renewed.iter().map(|renewed| renewed.claim).collect::<Vec<_>>(), [claim]);
        assert!(!renewed[0].cancel_requested);
        assert_eq!(f.run(claim.run_id).await.available_at, START + LEASE + Duration::from_secs(10));
        f.commit_one(workflow_engine::store::Write::Cancel(claim.run_id)).await;
        assert!(session.renew(&[claim], LEASE).await.unwrap()[0].cancel_requested);
        assert!(session.look().await.unwrap().unlocked.is_empty());
        session.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_dead_worker_is_found_and_released() {
    let f = Fixture::file().await;
    let other = f.second_process().await;
    let (worker, dead) = (WorkerId::generate(), WorkerId::generate());
    let mut session = f.store.open_lease(worker, &[], &Retention::default()).await.unwrap();
    let dying = other.open_lease(dead, &[], &Retention::default()).await.unwrap();
    let run = f.start().await;
    f.claim(dead, 1).await;
    assert!(session.look().await.unwrap().unlocked.is_empty());
    // The end of a process closes its files; nothing else of the session happens.
    drop(dying);
    assert_eq!(session.look().await.unwrap().unlocked, [dead]);
    assert_eq!(session.release_worker(dead).await.unwrap(), 1);
    assert!(session.look().await.unwrap().unlocked.is_empty());
    let due = f.run(run).await;
    assert_eq!((due.status, due.available_at), (RunStatus::Running, START));
    assert_eq!(f.claim(worker, 1).await[0].crashes, 1);
    session.close().await.unwrap();
    let left = std::fs::read_dir(f.directory.path().join("runs.db-workers")).unwrap().count();
    assert_eq!(left, 0, "no lock file is left behind");
}

#[tokio::test]
async fn a_worker_that_was_forgotten_records_itself_again() {
    let f = Fixture::file().await;
    let (one, two) = (WorkerId::generate(), WorkerId::generate());
    let mut first = f.store.open_lease(one, &[], &Retention::default()).await.unwrap();
    let mut second = f.store.open_lease(two, &[], &Retention::default()).await.unwrap();
    second.release_worker(one).await.unwrap();
    assert!(first.look().await.unwrap().unlocked.is_empty());
    assert!(second.look().await.unwrap().unlocked.is_empty(), "its new lock is held");
    drop(first);
    assert_eq!(second.look().await.unwrap().unlocked, [one]);
}

#[tokio::test]
async fn a_commit_of_another_process_is_a_hint() {
    let f = Fixture::file().await;
    let other = f.second_process().await;
    let mut hints = f.store.listen().await.unwrap();
    let quiet = tokio::time::timeout(Duration::from_millis(50), hints.next()).await;
    assert!(quiet.is_err());
    other.commit(&[workflow_engine::store::Write::Start(new_run())]).await.unwrap();
    tokio::time::timeout(Duration::from_secs(5), hints.next()).await.unwrap().unwrap();
    f.store.close().await;
    assert!(hints.next().await.is_err());
}

#[cfg(unix)]
#[tokio::test]
async fn lock_files_are_for_this_user_only() {
    use std::os::unix::fs::PermissionsExt;
    let f = Fixture::file().await;
    let worker = WorkerId::generate();
    let _session = f.store.open_lease(worker, &[], &Retention::default()).await.unwrap();
    let directory = f.directory.path().join("runs.db-workers");
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&directory), 0o700);
    assert_eq!(mode(&directory.join(format!("{worker}.lock"))), 0o600);
}

#[cfg(unix)]
#[tokio::test]
async fn a_directory_that_others_may_have_prepared_is_refused() {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    let f = Fixture::file().await;
    let directory = f.directory.path().join("runs.db-workers");
    let refusal = async || {
        let error = f.store.open_lease(WorkerId::generate(), &[], &Retention::default()).await.map(drop).unwrap_err();
        assert_eq!(error.kind, DatabaseErrorKind::Other);
        error.source.to_string()
    };
    let elsewhere = f.directory.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, &directory).unwrap();
    assert!(refusal().await.contains("not a directory of its own"));
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0, "nothing was made where the link leads");
    std::fs::remove_file(&directory).unwrap();
    std::fs::create_dir(&directory).unwrap();
    for mode in [0o770, 0o707, 0o720] {
        std::fs::set_permissions(&directory, Permissions::from_mode(mode)).unwrap();
        assert!(refusal().await.contains(&format!("mode {mode:04o}")));
    }
    std::fs::set_permissions(&directory, Permissions::from_mode(0o700)).unwrap();
    let session = f.store.open_lease(WorkerId::generate(), &[], &Retention::default()).await.unwrap();
    // Only root can give a directory away.
    if chown(&directory, Some(12_345), None).is_ok() {
        assert!(refusal().await.contains("belongs to user 12345"));
        assert!(f.store.workers().await.is_err(), "its locks say nothing");
    }
    drop(session);
}

#[tokio::test]
async fn a_young_worker_without_a_lock_file_is_not_dead() {
    let f = Fixture::file().await;
    let (one, two) = (WorkerId::generate(), WorkerId::generate());
    let mut session = f.store.open_lease(one, &[], &Retention::default()).await.unwrap();
    let _other = f.second_process().await.open_lease(two, &[], &Retention::default()).await.unwrap();
    std::fs::remove_file(f.directory.path().join(format!("runs.db-workers/{two}.lock"))).unwrap();
    assert_eq!(session.look().await.unwrap().unlocked, []);
    assert!(f.store.workers().await.unwrap().iter().all(|worker| worker.live));
    f.clock.advance(Duration::from_secs(60));
    assert_eq!(session.look().await.unwrap().unlocked, [two]);
}
