use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::Result;
use workflow_engine::model::{Decision, StepKind, StoredError};
use workflow_engine::replay::{CallId, CallPoll, SignalWait};

use super::{Ctx, RunCell, signal};

impl<S> Ctx<S> {
    /// A gate that somebody has to open: waits until the application [approves](crate::Client::approve) or
    /// [rejects](crate::Client::reject), and gives who did and why. Those that wait are listed by
    /// [`Client::approvals`](crate::Client::approvals).
    ///
    /// Gives `None` only if a [timeout](WaitForApproval::timeout) was set and is over. To ask somebody else after a while, let
    /// a timeout end and ask again, or race two approvals.
    ///
    /// # Errors
    /// Awaiting it gives an error of kind [`Refused`](crate::ErrorKind::Refused) for an invalid name, or inside the body of
    /// a step. A rejection is no error.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait; the approval is no longer listed.
    ///
    /// ```
    /// use std::time::Duration;
    /// use workflow_sdk::prelude::*;
    ///
    /// #[workflow]
    /// async fn ship(ctx: &Ctx) -> Result<bool> {
    ///     let day = Duration::from_secs(86_400);
    ///     let decision = match ctx.approval("ship over 10k").to("ops").timeout(day).await? {
    ///         Some(decision) => Some(decision),
    ///         None => ctx.approval("ship over 10k, late").to("head of ops").await?,
    ///     };
    ///     Ok(decision.is_some_and(|decision| decision.approved))
    /// }
    /// ```
    #[track_caller]
    pub fn approval(&self, name: impl AsRef<str>) -> WaitForApproval<'_> {
        let call = self.call_named(name.as_ref(), Location::caller());
        let wait = SignalWait { kind: StepKind::Approval, name: None, timeout: None, to: None };
        WaitForApproval { cell: &self.cell, call, wait }
    }
}

/// An approval that is asked for: set its options, then await it.
#[must_use = "nobody is asked until this is awaited"]
#[derive(Debug)]
pub struct WaitForApproval<'a> {
    cell: &'a Arc<RunCell>,
    call: Result<CallId, StoredError>,
    wait: SignalWait,
}

impl WaitForApproval<'_> {
    /// Who is asked: a person, a group, whatever the application finds its approvers by. Default: nobody in particular.
    pub fn to(mut self, approver: impl Into<String>) -> Self {
        self.wait.to = Some(approver.into());
        self
    }

    /// How long to wait, from the first poll, before giving up. Default: for ever.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.wait.timeout = Some(timeout);
        self
    }
}

impl Future for WaitForApproval<'_> {
    type Output = Result<Option<Decision>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let call = match &self.call {
            Ok(call) => *call,
            Err(refusal) => return Poll::Ready(Err(refusal.clone().into())),
        };
        match self.cell.poll_signal(call, || self.wait.clone(), cx.waker()) {
            CallPoll::Ended(delivered) => Poll::Ready(signal::received(delivered, "of an approval")),
            CallPoll::Pending | CallPoll::Start { .. } | CallPoll::Run => Poll::Pending,
        }
    }
}

impl Drop for WaitForApproval<'_> {
    fn drop(&mut self) {
        if let Ok(call) = self.call {
            self.cell.dropped(call);
        }
    }
}
