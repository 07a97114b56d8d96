//! When those who were answered have sent what they send next: then nothing more comes until others are answered, and the writer may make
//! ready what has come.

use std::sync::Arc;

use tokio::sync::{Notify, mpsc};

/// So often in a row nobody has sent when it is quiet. One who is answered sends at his first turn or soon after, unless his step waits for
/// something else: at 500 drives on one thread nobody sent any more after one turn without a message.
const QUIET_TURNS: usize = 3;

/// After so many it is not awaited any longer: who sends without an end would keep a thread busy with nothing else. A runtime gives another
/// turn after 61 tasks, so it is four thousand of them.
const MOST_TURNS: usize = 64;

/// Looks at the queue from the runtime of those who send.
pub(super) struct Quiet<M> {
    queue: mpsc::WeakSender<M>,
    notify: Arc<Notify>,
}

impl<M> Quiet<M> {
    pub(super) fn new(queue: mpsc::WeakSender<M>, notify: Arc<Notify>) -> Self {
        Self { queue, notify }
    }

    /// Gives everybody a turn until nobody sends, and says so; unless it `is_over`, for there are others to be answered.
    pub(super) async fn wait_and_tell(&self, is_over: impl Fn() -> bool) {
        let mut quiet_turns = 0;
        for _ in 0..MOST_TURNS {
            let Some(before) = self.room() else { return };
            tokio::task::yield_now().await;
            if is_over() {
                return;
            }
            quiet_turns = if self.room() == Some(before) { quiet_turns + 1 } else { 0 };
            if quiet_turns == QUIET_TURNS {
                self.notify.notify_one();
                return;
            }
        }
    }

    /// `None`: nobody sends any more.
    fn room(&self) -> Option<usize> {
        self.queue.upgrade().map(|queue| queue.capacity())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use futures::FutureExt;

    use super::*;

    /// Senders that send after so many turns.
    async fn after_turns(turns: usize, senders: usize) -> (mpsc::Receiver<()>, Arc<Notify>) {
        let (sender, receiver) = mpsc::channel(1000);
        let notify = Arc::new(Notify::new());
        let quiet = Quiet::new(sender.downgrade(), Arc::clone(&notify));
        for _ in 0..senders {
            let sender = sender.clone();
            tokio::spawn(async move {
                for _ in 0..turns {
                    tokio::task::yield_now().await;
                }
                sender.send(()).await
            });
        }
        tokio::spawn(async move { quiet.wait_and_tell(|| false).await }).await.unwrap();
        (receiver, notify)
    }

    #[tokio::test]
    async fn it_is_quiet_once_all_have_sent() {
        for turns in [0, 1] {
            let (receiver, notify) = after_turns(turns, 300).await;
            assert_eq!(receiver.len(), 300);
            assert!(notify.notified().now_or_never().is_some());
        }
    }

    #[tokio::test]
    async fn who_sends_without_an_end_is_not_waited_for() {
        let (sender, mut receiver) = mpsc::channel(1000);
        let notify = Arc::new(Notify::new());
        let quiet = Quiet::new(sender.downgrade(), Arc::clone(&notify));
        let endless = tokio::spawn(async move {
            while sender.send(()).await.is_ok() {
                tokio::task::yield_now().await;
            }
        });
        tokio::spawn(async move { quiet.wait_and_tell(|| false).await }).await.unwrap();
        assert!(notify.notified().now_or_never().is_none());
        receiver.close();
        endless.await.unwrap();
    }

    #[tokio::test]
    async fn nobody_is_told_while_there_are_others_to_be_answered() {
        let (sender, _receiver) = mpsc::channel::<()>(1);
        let notify = Arc::new(Notify::new());
        Quiet::new(sender.downgrade(), Arc::clone(&notify)).wait_and_tell(|| true).await;
        let queue = sender.downgrade();
        drop(sender);
        Quiet::new(queue, Arc::clone(&notify)).wait_and_tell(|| false).await;
        assert!(notify.notified().now_or_never().is_none());
    }
}
