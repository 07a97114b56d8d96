use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use futures::task::AtomicWaker;

/// Many ring, one listens. Rings that come while nobody listens are heard later, as one.
///
/// Not a `Notify`, nor a channel: a drive listens some seven times a run, and has no need of their lists, which each wait would enter and
/// leave under a lock.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rung: AtomicBool,
    listener: AtomicWaker,
}

impl Bell {
    pub(crate) fn ring(&self) {
        self.rung.store(true, Ordering::Release);
        self.listener.wake();
    }

    /// Returns after a ring, also one before the call. Only one may listen at a time. Dropped, it has missed nothing.
    pub(crate) async fn heard(&self) {
        poll_fn(|context| {
            // Before the look: a ring that comes after it wakes this listener.
            self.listener.register(context.waker());
            if self.rung.load(Ordering::Acquire) && self.rung.swap(false, Ordering::AcqRel) {
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

    use super::Bell;

    #[tokio::test]
    async fn rings_are_heard_once_whenever_they_came() {
        let bell = Bell::default();
        bell.ring();
        bell.ring();
        assert!(poll!(pin!(bell.heard())).is_ready());
        assert!(poll!(pin!(bell.heard())).is_pending(), "two rings that nobody heard are one");
        bell.ring();
        assert!(poll!(pin!(bell.heard())).is_ready(), "who has gone has missed nothing");
    }

    #[tokio::test]
    async fn a_ring_wakes_who_listens() {
        let bell = Arc::new(Bell::default());
        for _ in 0..1000 {
            let ringer = Arc::clone(&bell);
            let rings = std::thread::spawn(move || ringer.ring());
            // Longer than any wake takes.
            tokio::time::timeout(Duration::from_secs(20), bell.heard()).await.unwrap();
            rings.join().unwrap();
        }
    }
}
