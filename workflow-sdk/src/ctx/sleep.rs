use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::Result;
use workflow_engine::model::StoredError;
use workflow_engine::replay::{CallId, CallPoll, Delivered, Wait};

use super::RunCell;
use super::shield::Shielding;

/// The name of every sleep in the history: `sleep`, `sleep:1`, ...
pub(super) const NAME: &str = "sleep";

/// A durable wait: await it. Made by [`Ctx::sleep`](crate::Ctx::sleep) and
/// [`Ctx::sleep_until`](crate::Ctx::sleep_until).
#[must_use = "a sleep does nothing until it is awaited"]
#[derive(Debug)]
pub struct Sleep<'a> {
    cell: &'a Arc<RunCell>,
    call: Result<CallId, StoredError>,
    wait: Wait,
}

impl<'a> Sleep<'a> {
    pub(super) fn new(cell: &'a Arc<RunCell>, call: Result<CallId, StoredError>, wait: Wait) -> Self {
        Self { cell, call, wait }
    }

    /// Polls the sleep so that neither a cancel nor the run's deadline ends it.
    pub(super) fn poll_shielded(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let _shielding = Shielding::begin(self.cell);
        Pin::new(self).poll(cx)
    }

    /// Returns the reason if the call was refused.
    pub(super) fn refusal(&self) -> Option<StoredError> {
        self.call.as_ref().err().cloned()
    }

    pub(super) fn key(&self) -> Option<String> {
        self.call.as_ref().ok().map(|call| self.cell.step_key(*call))
    }

    /// Ends the wait, as dropping it does.
    pub(super) fn cancel(&self) {
        if let Ok(call) = self.call {
            self.cell.dropped(call);
        }
    }
}

impl Future for Sleep<'_> {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let call = match &self.call {
            Ok(call) => *call,
            Err(refusal) => return Poll::Ready(Err(refusal.clone().into())),
        };
        match self.cell.poll_sleep(call, self.wait, cx.waker()) {
            CallPoll::Ended(Delivered::Failed(error)) => Poll::Ready(Err(error.into())),
            CallPoll::Ended(Delivered::Kept | Delivered::Recorded(_)) => Poll::Ready(Ok(())),
            CallPoll::Pending | CallPoll::Start { .. } | CallPoll::Run => Poll::Pending,
        }
    }
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        self.cancel();
    }
}
