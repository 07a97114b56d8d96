//! The order of commits in a store that wraps another one.

use std::pin::pin;
use std::task::Poll;

use futures::poll;
use tokio::sync::Mutex;

/// Keeps the order of commits, for a wrapper that awaits something before it calls the inner store.
///
/// A store applies batches in the order of the calls, so the wrapper must not call for a later
/// batch while it still awaits something for an earlier one.
#[derive(Debug, Default)]
pub struct CommitOrder(Mutex<()>);

impl CommitOrder {
    /// Awaits `before`, then makes the call that `commit` returns for its result.
    ///
    /// The calls are made in the order in which the futures of this method are first polled.
    /// Several calls may be under way at once.
    pub async fn call<B, C: Future>(&self, before: impl Future<Output = B>, commit: impl FnOnce(B) -> C) -> C::Output {
        let turn = self.0.lock().await;
        let mut call = pin!(commit(before.await));
        // The inner store counts a call from its first poll.
        let first = poll!(&mut call);
        drop(turn);
        match first {
            Poll::Ready(answer) => answer,
            Poll::Pending => call.await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex as Log;

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn a_call_does_not_overtake_one_that_still_awaits_something() {
        let (order, log) = (CommitOrder::default(), Log::new(Vec::new()));
        let note = |entry: &'static str| log.lock().map(|mut log| log.push(entry)).unwrap_or_default();
        let (history, read) = oneshot::channel::<()>();
        let (_database, answer) = oneshot::channel::<()>();
        let mut first = pin!(order.call(read, |_| async {
            note("first");
            let _ = answer.await;
        }));
        let mut second = pin!(order.call(async {}, |()| async { note("second") }));
        assert!(poll!(&mut first).is_pending() && poll!(&mut second).is_pending());
        assert!(log.lock().is_ok_and(|log| log.is_empty()));
        assert!(history.send(()).is_ok());
        assert!(poll!(&mut first).is_pending(), "the database has not answered");
        assert!(poll!(&mut second).is_ready(), "the second call is made while the first is under way");
        assert!(log.lock().is_ok_and(|log| *log == ["first", "second"]));
    }
}
