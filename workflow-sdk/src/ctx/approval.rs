use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::Result;
use workflow_engine::model::{Decision, StepKind};
use workflow_engine::replay::SignalWait;

use super::Ctx;
use super::inbox_wait::InboxWait;

impl<S> Ctx<S> {
    /// Waits until the application [approves](crate::Client::approve) or
    /// [rejects](crate::Client::reject), and returns the [`Decision`] with the name of the person
    /// that decided. [`Client::approvals`](crate::Client::approvals) lists the approvals that runs
    /// wait for.
    ///
    /// Returns `None` only if a [timeout](WaitForApproval::timeout) was set and has passed. To ask
    /// another person after a while, let a timeout pass and ask again, or race two approvals.
    ///
    /// # Errors
    /// Awaiting it returns an error of kind [`Refused`](crate::ErrorKind::Refused) for an invalid
    /// name or inside the body of a step, and of kind [`Canceled`](crate::ErrorKind::Canceled) or
    /// [`Deadline`](crate::ErrorKind::Deadline) if the run is told to end while it waits. A
    /// rejection is not an error.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait, and the approval leaves the list.
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
        let wait = SignalWait { kind: StepKind::Approval, name: None, timeout: None, to: None, event: None };
        WaitForApproval { inbox: InboxWait::new(&self.cell, call, wait) }
    }
}

/// A builder for an approval that a run waits for: set its options, then await it. Made by
/// [`Ctx::approval`].
#[must_use = "nothing is asked until this is awaited"]
#[derive(Debug)]
pub struct WaitForApproval<'a> {
    inbox: InboxWait<'a>,
}

impl WaitForApproval<'_> {
    /// Sets the person or group that is asked, by which the application finds its approvers.
    /// Default: none.
    pub fn to(mut self, approver: impl Into<String>) -> Self {
        self.inbox.wait.to = Some(approver.into());
        self
    }

    /// Sets how long to wait, counted from the first poll. Default: without a limit.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.inbox.wait.timeout = Some(timeout);
        self
    }
}

impl Future for WaitForApproval<'_> {
    type Output = Result<Option<Decision>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.inbox.poll(cx, |_| "an approval".into())
    }
}
