use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::timeout;
use workflow_sdk::engine::{Backend, Hints};
use workflow_tests::make::{new_run, start};
use workflow_tests::{Fixture, until};

/// Counts what the source says, for as long as the test lasts.
fn count(mut hints: Box<dyn Hints>) -> Arc<AtomicU64> {
    let counter = Arc::new(AtomicU64::new(0));
    let counted = counter.clone();
    tokio::spawn(async move {
        while hints.next().await.is_ok() {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    counter
}

/// What another process does that others may wait for: on SQLite the commit is seen, on PostgreSQL the hint.
async fn change(handle: &Arc<dyn Backend>) {
    handle.commit(&[start(&new_run())]).await.expect("commit");
    handle.hint().await.expect("hint");
}

pub async fn a_hint_wakes_a_listener(fixture: Fixture) {
    let second = fixture.second().await;
    let hints = count(fixture.backend.listen().await.unwrap());
    for _ in 0..5 {
        let before = hints.load(Ordering::SeqCst);
        change(&second).await;
        until("the listener is woken", async || (hints.load(Ordering::SeqCst) > before).then_some(())).await;
    }
}

pub async fn each_listener_is_woken(fixture: Fixture) {
    let (second, third) = (fixture.second().await, fixture.second().await);
    let listeners = [
        count(fixture.backend.listen().await.unwrap()),
        count(fixture.backend.listen().await.unwrap()),
        count(second.listen().await.unwrap()),
    ];
    change(&third).await;
    for hints in listeners {
        until("the listener is woken", async || (hints.load(Ordering::SeqCst) > 0).then_some(())).await;
    }
}

/// A worker that has something else to do drops the wait and comes back to it: what was said meanwhile is not gone.
pub async fn a_wait_that_was_dropped_loses_no_hint(fixture: Fixture) {
    let second = fixture.second().await;
    let mut hints = fixture.backend.listen().await.unwrap();
    for _ in 0..3 {
        // Until nothing is said any more, for a source may also return without a reason.
        while let Ok(woken) = timeout(Duration::from_millis(100), hints.next()).await {
            woken.expect("hints");
        }
        change(&second).await;
        timeout(Duration::from_secs(20), hints.next()).await.expect("a hint arrives").expect("hints");
    }
}
