//! Detects that nothing can go on unless time passes, and stops time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tokio::sync::Notify;

/// A timer later than any test needs. With it there is always a next timer, so a step of time
/// always ends.
const LAST_TIMER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Counts how often the runtime has no task to run.
#[derive(Debug, Default)]
pub(super) struct Idle {
    /// The number of further times after which the waiting call returns; 0 if no call waits.
    left: AtomicUsize,
    counted: Notify,
}

impl Idle {
    /// Takes note that the runtime has no task to run. Called on its thread.
    pub(super) fn reached(&self) {
        if self.left.load(Ordering::SeqCst) > 0 && self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.counted.notify_one();
        }
    }

    async fn times(&self, times: usize) {
        self.left.store(times, Ordering::SeqCst);
        self.counted.notified().await;
    }

    /// Returns when every task waits for something that has not happened.
    pub(super) async fn settle(&self) {
        // Twice, because the last task before the first time may have made another one ready.
        for _ in 0..2 {
            self.times(1).await;
        }
    }

    /// Lets time pass to the next timer. Returns when the tasks that it has woken wait again. Time
    /// must not be stopped. It may return earlier if something was done without the passing of
    /// time, such as a blocking call, which stops time.
    pub(super) async fn step(&self) {
        let last = tokio::time::sleep(LAST_TIMER);
        tokio::select! {
            biased;
            () = last => {}
            // After the first of the two the runtime goes on to its next timer.
            () = self.times(2) => {}
        }
        self.settle().await;
    }
}

/// Stops time until it is dropped. A paused clock does not go on by itself while a blocking call
/// runs.
#[derive(Debug)]
pub(super) struct TimeStop(#[expect(dead_code, reason = "dropping it ends the blocking call")] mpsc::Sender<()>);

impl TimeStop {
    pub(super) fn begin() -> Self {
        let (sender, dropped) = mpsc::channel();
        // The call returns when the sender is dropped. The runtime does not wait for it when it
        // ends.
        drop(tokio::task::spawn_blocking(move || dropped.recv()));
        Self(sender)
    }
}

/// Returns the hook with which a runtime counts for this value.
pub(super) fn hook(idle: &Arc<Idle>) -> impl Fn() + Send + Sync + 'static {
    let idle = Arc::clone(idle);
    move || idle.reached()
}
