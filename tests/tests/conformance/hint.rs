use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::timeout;
use workflow_engine::store::{Listener, Store};
use workflow_sdk::RunId;
use workflow_tests::builders::{new_run, start};
use workflow_tests::{Database, Fixture, until};

/// Counts the hints until the end of the test.
fn count(mut hints: Box<dyn Listener>) -> Arc<AtomicU64> {
    let counter = Arc::new(AtomicU64::new(0));
    let counted = counter.clone();
    tokio::spawn(async move {
        while hints.next().await.is_ok() {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    counter
}

/// Makes a change as another process does: a commit, which a listener notices on SQLite, and a
/// hint, which it receives on PostgreSQL.
async fn change(handle: &Arc<dyn Store>) {
    handle.commit(&[start(&new_run())]).await.expect("commit");
    handle.hint().await.expect("hint");
}

pub async fn a_hint_wakes_a_listener(fixture: Fixture) {
    let second = fixture.second().await;
    let hints = count(fixture.store.listen().await.unwrap());
    for _ in 0..5 {
        let before = hints.load(Ordering::SeqCst);
        change(&second).await;
        until("the listener is woken", async || (hints.load(Ordering::SeqCst) > before).then_some(())).await;
    }
}

pub async fn each_listener_is_woken(fixture: Fixture) {
    let (second, third) = (fixture.second().await, fixture.second().await);
    let listeners = [
        count(fixture.store.listen().await.unwrap()),
        count(fixture.store.listen().await.unwrap()),
        count(second.listen().await.unwrap()),
    ];
    change(&third).await;
    for hints in listeners {
        until("the listener is woken", async || (hints.load(Ordering::SeqCst) > 0).then_some(())).await;
    }
}

/// A worker may drop its wait to do something else, and wait again later. A hint that arrived
/// meanwhile is not lost.
pub async fn a_dropped_wait_loses_no_hint(fixture: Fixture) {
    let second = fixture.second().await;
    let mut hints = fixture.store.listen().await.unwrap();
    for _ in 0..3 {
        // Waits until no more hints arrive, because a listener may also be woken without a reason.
        while let Ok(woken) = timeout(Duration::from_millis(100), hints.next()).await {
            woken.expect("hints");
        }
        change(&second).await;
        timeout(Duration::from_secs(20), hints.next()).await.expect("a hint arrives").expect("hints");
    }
}

pub async fn each_commit_changes_the_data_version(fixture: Fixture) {
    let second = fixture.second().await;
    let mut seen = fixture.store.data_version().await.unwrap();
    for writer in [&second, &fixture.store, &second, &fixture.store] {
        let run = new_run();
        writer.commit(&[start(&run)]).await.expect("commit");
        let version = fixture.store.data_version().await.unwrap();
        assert_ne!(version, seen, "a commit was not counted");
        assert!(fixture.store.run(run.id).await.unwrap().is_some(), "a read sees what the version counts");
        seen = version;
    }
    // On PostgreSQL other databases of the server count, too.
    if fixture.database != Database::Postgres {
        assert_eq!(fixture.store.data_version().await.unwrap(), seen, "nothing was committed");
    }
}

/// A reader that only remembers the highest number of a sequence would miss the first transaction,
/// which commits after the second one.
pub async fn a_commit_that_comes_late_changes_the_data_version(fixture: Fixture) {
    let (late, early) = (fixture.started().await, fixture.started().await);
    let wake = |run: RunId| format!("UPDATE workflow_runs SET wakes = wakes + 1 WHERE id = '{run}'");
    let mut first = fixture.raw().await;
    first.execute("BEGIN").await;
    first.execute(wake(late)).await;
    let before = fixture.store.data_version().await.unwrap();
    // SQLite has one transaction that writes at a time.
    if fixture.database == Database::Postgres {
        let mut second = fixture.raw().await;
        second.execute("BEGIN").await;
        second.execute(wake(early)).await;
        second.execute("COMMIT").await;
        assert_ne!(fixture.store.data_version().await.unwrap(), before, "the early commit was not counted");
    }
    let between = fixture.store.data_version().await.unwrap();
    let wakes = async || fixture.store.wakes(&[late]).await.unwrap()[0].wakes;
    assert_eq!(wakes().await, 0, "it has not committed");
    first.execute("COMMIT").await;
    assert_ne!(fixture.store.data_version().await.unwrap(), between, "the late commit was not counted");
    assert_eq!(wakes().await, 1);
}
