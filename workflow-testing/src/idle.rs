//! When nothing can go on without the passing of time, and who lets time pass.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tokio::sync::Notify;

/// Farther than any test goes: there is always a next timer, so a step of time always ends.
const LAST_TIMER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Counts how often the runtime has nothing to do.
#[derive(Debug, Default)]
pub(super) struct Idle {
    /// So many more times until somebody is told; 0: nobody waits.
    left: AtomicUsize,
    told: Notify,
}

impl Idle {
    /// The runtime has nothing to do: called on its thread.
    pub(super) fn reached(&self) {
        if self.left.load(Ordering::SeqCst) > 0 && self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.told.notify_one();
        }
    }

    async fn times(&self, times: usize) {
        self.left.store(times, Ordering::SeqCst);
        self.told.notified().await;
    }

    /// Returns when every task waits for something that has not happened.
    pub(super) async fn settle(&self) {
        // The second time also what the first made ready by a wake of the very last task.
        for _ in 0..2 {
            self.times(1).await;
        }
    }

    /// Lets time pass to the next timer, and returns when what it has woken waits again. Time must not be held. It may return
    /// before that: when something was done without the passing of time, such as a blocking call, which keeps time where it is.
    pub(super) async fn step(&self) {
        let last = tokio::time::sleep(LAST_TIMER);
        tokio::select! {
            biased;
            () = last => {}
            // At the first of the two the runtime goes on to its next timer.
            () = self.times(2) => {}
        }
        self.settle().await;
    }
}

/// While it lives, time stands still: a paused clock does not go on by itself while a blocking call is at work.
#[derive(Debug)]
pub(super) struct Hold(#[expect(dead_code, reason = "what ends with it matters")] mpsc::Sender<()>);

impl Hold {
    pub(super) fn begin() -> Self {
        let (held, released) = mpsc::channel();
        // It returns when the sender is gone. Nobody waits for it: its runtime is told not to.
        drop(tokio::task::spawn_blocking(move || released.recv()));
        Self(held)
    }
}

/// The hook of a runtime that counts for this.
pub(super) fn hook(idle: &Arc<Idle>) -> impl Fn() + Send + Sync + 'static {
    let idle = Arc::clone(idle);
    move || idle.reached()
}
