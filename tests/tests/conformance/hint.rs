use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::timeout;
use workflow_engine::store::{Listener, Store};
use workflow_tests::builders::{new_run, start};
use workflow_tests::{Fixture, until};

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
