//! The wake-up of one drive.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use futures::task::AtomicWaker;

/// Wakes one waiting task. A notification that comes while the task does not wait is kept, and
/// further ones merge with it.
///
/// A `Notify` or a channel would cost more: each wait enters and leaves their list of waiting tasks
/// under a lock. A drive waits several times per run, and only one task waits.
#[derive(Debug, Default)]
pub(crate) struct Wakeup {
    is_notified: AtomicBool,
    waiting: AtomicWaker,
}

impl Wakeup {
    pub(crate) fn notify(&self) {
        self.is_notified.store(true, Ordering::Release);
        self.waiting.wake();
    }

    /// Returns after a notification, also after one that came before the call. Only one task may
    /// wait at a time. A future that is dropped loses no notification.
    pub(crate) async fn notified(&self) {
        poll_fn(|context| {
            // Registered before the flag is read, so that a notification in between wakes this
            // task.
            self.waiting.register(context.waker());
            if self.is_notified.load(Ordering::Acquire) && self.is_notified.swap(false, Ordering::AcqRel) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::time::Duration;

    use futures::poll;

    use super::Wakeup;

    #[tokio::test]
    async fn notifications_are_kept_and_merge() {
        let wakeup = Wakeup::default();
        wakeup.notify();
        wakeup.notify();
        assert!(poll!(pin!(wakeup.notified())).is_ready());
        assert!(poll!(pin!(wakeup.notified())).is_pending(), "two notifications before a wait are one");
        wakeup.notify();
        assert!(poll!(pin!(wakeup.notified())).is_ready(), "a dropped wait loses no notification");
    }

    #[tokio::test]
    async fn a_notification_wakes_the_waiting_task() {
        let wakeup = Arc::new(Wakeup::default());
        for _ in 0..1000 {
            let notifier = Arc::clone(&wakeup);
            let thread = std::thread::spawn(move || notifier.notify());
            // Longer than any wake takes.
            tokio::time::timeout(Duration::from_secs(20), wakeup.notified()).await.unwrap();
            thread.join().unwrap();
        }
    }
}
