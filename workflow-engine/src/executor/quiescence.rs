//! Detects when every sender that was just answered has queued its next write.
//!
//! From then on the batch grows only by other senders' writes, so the executor can hand it to the
//! store while the batch before it is still being committed.

use std::sync::Arc;

use tokio::sync::{Notify, mpsc};

/// Scheduler turns without a new message after which the senders count as drained. A sender that
/// was answered sends in its first turn or soon after, unless its step waits for something else.
/// One turn is enough for hundreds of drives on one thread; the others are a margin.
const QUIET_TURNS: usize = 3;

/// Scheduler turns after which the wait is given up. Senders without a pause would otherwise keep a
/// thread busy with nothing but this. A turn comes once per 61 tasks that the runtime polls.
const MAX_TURNS: usize = 64;

/// Watches a channel from the runtime of its senders.
pub(super) struct Quiescence<M> {
    channel: mpsc::WeakSender<M>,
    notify: Arc<Notify>,
}

impl<M> Quiescence<M> {
    /// Watches `channel`, and notifies `notify`.
    pub(super) fn new(channel: mpsc::WeakSender<M>, notify: Arc<Notify>) -> Self {
        Self { channel, notify }
    }

    /// Lets the other tasks of the runtime run until they send nothing more, then notifies. Gives
    /// up without a notification as soon as `is_over` returns `true`: more senders are to be
    /// answered.
    pub(super) async fn wait_and_notify(&self, is_over: impl Fn() -> bool) {
        let mut quiet_turns = 0;
        for _ in 0..MAX_TURNS {
            let Some(before) = self.capacity() else { return };
            tokio::task::yield_now().await;
            if is_over() {
                return;
            }
            quiet_turns = if self.capacity() == Some(before) { quiet_turns + 1 } else { 0 };
            if quiet_turns == QUIET_TURNS {
                self.notify.notify_one();
                return;
            }
        }
    }

    /// Returns the free room of the channel, or `None` if no sender is left.
    fn capacity(&self) -> Option<usize> {
        self.channel.upgrade().map(|channel| channel.capacity())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use futures::FutureExt;

    use super::*;

    /// Starts senders that send after this many turns, and waits for their quiescence.
    async fn after_turns(turns: usize, senders: usize) -> (mpsc::Receiver<()>, Arc<Notify>) {
        let (sender, receiver) = mpsc::channel(1000);
        let notify = Arc::new(Notify::new());
        let quiescence = Quiescence::new(sender.downgrade(), Arc::clone(&notify));
        for _ in 0..senders {
            let sender = sender.clone();
            tokio::spawn(async move {
                for _ in 0..turns {
                    tokio::task::yield_now().await;
                }
                sender.send(()).await
            });
        }
        tokio::spawn(async move { quiescence.wait_and_notify(|| false).await }).await.unwrap();
        (receiver, notify)
    }

    #[tokio::test]
    async fn quiescence_begins_when_all_have_sent() {
        for turns in [0, 1] {
            let (receiver, notify) = after_turns(turns, 300).await;
            assert_eq!(receiver.len(), 300);
            assert!(notify.notified().now_or_never().is_some());
        }
    }

    #[tokio::test]
    async fn a_sender_without_a_pause_is_not_awaited_for_ever() {
        let (sender, mut receiver) = mpsc::channel(1000);
        let notify = Arc::new(Notify::new());
        let quiescence = Quiescence::new(sender.downgrade(), Arc::clone(&notify));
        let endless = tokio::spawn(async move {
            while sender.send(()).await.is_ok() {
                tokio::task::yield_now().await;
            }
        });
        tokio::spawn(async move { quiescence.wait_and_notify(|| false).await }).await.unwrap();
        assert!(notify.notified().now_or_never().is_none());
        receiver.close();
        endless.await.unwrap();
    }

    #[tokio::test]
    async fn nothing_is_notified_while_more_senders_are_to_be_answered() {
        let (sender, _receiver) = mpsc::channel::<()>(1);
        let notify = Arc::new(Notify::new());
        Quiescence::new(sender.downgrade(), Arc::clone(&notify)).wait_and_notify(|| true).await;
        let channel = sender.downgrade();
        drop(sender);
        Quiescence::new(channel, Arc::clone(&notify)).wait_and_notify(|| false).await;
        assert!(notify.notified().now_or_never().is_none());
    }
}
