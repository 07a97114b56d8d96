use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Error, Result};
use workflow_engine::model::NamesSignal;
use workflow_engine::model::{
    ErrorKind, NameSubject, NewSignal, RunId, SignalKey, SignalOutcome, StepKind, StoredError, check_name,
};
use workflow_engine::replay::SignalWait;
use workflow_engine::runtime::round_trip;

use super::inbox_wait::InboxWait;
use super::{Ctx, Step, step};

impl<S> Ctx<S> {
    /// Waits for a signal with this name. A signal lies in the run's inbox from the moment it was
    /// sent, before or after the wait began. Signals with one name are received in the order in
    /// which they were accepted, each by one wait.
    ///
    /// Returns `None` only if a [timeout](WaitForSignal::timeout) was set and has passed. A run
    /// that waits occupies no worker.
    ///
    /// A wait that loses a race and is dropped consumes nothing: its signal stays for the next
    /// wait. A wait that is kept, like one that `futures::future::select` returns, continues to
    /// wait and takes the next signal: drop it, or await it later.
    ///
    /// # Errors
    /// Awaiting it returns an error of kind [`Refused`](ErrorKind::Refused) for an invalid name, a
    /// wait inside the body of a step, or a payload that does not decode as `T`; in the last case,
    /// the signal is consumed. The kind is [`Canceled`](ErrorKind::Canceled) or
    /// [`Deadline`](ErrorKind::Deadline) if the run is told to end while it waits.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait. A signal that the wait has not returned yet stays in the
    /// inbox, unless the wait was kept without being polled while the signal arrived.
    ///
    /// ```
    /// use std::time::Duration;
    /// use workflow_sdk::prelude::*;
    ///
    /// #[workflow]
    /// async fn order(ctx: &Ctx) -> Result<bool> {
    ///     let paid = ctx.signal::<u64>("paid").timeout(Duration::from_secs(86_400)).await?;
    ///     Ok(paid.is_some_and(|cents| cents >= 500))
    /// }
    /// ```
    #[track_caller]
    pub fn signal<T: DeserializeOwned + Send>(&self, name: impl NamesSignal<T>) -> WaitForSignal<'_, T> {
        let (name, location) = (name.signal_name(), Location::caller());
        let call = check_name(NameSubject::Signal, name)
            .map_err(|error| StoredError::new(ErrorKind::Refused, error.to_string()).fatal())
            .and_then(|()| self.call_own(name, location));
        let wait =
            SignalWait { kind: StepKind::Signal, name: Some(name.to_owned()), timeout: None, to: None, event: None };
        WaitForSignal { inbox: InboxWait::new(&self.cell, call, wait), payload: PhantomData }
    }

    /// Sends a signal to another run, as a step: the signal is accepted once, however often this
    /// run is resumed.
    ///
    /// # Errors
    /// Awaiting it returns an error of kind [`Refused`](ErrorKind::Refused) for an invalid name or
    /// a payload that cannot be stored. If there is no such run, the error is fatal and has kind
    /// [`Application`](ErrorKind::Application). If the run has ended, that is not an error: see
    /// [`SignalOutcome::Finished`].
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    ///
    /// #[workflow]
    /// async fn notify(ctx: &Ctx, other: RunId) -> Result<SignalOutcome> {
    ///     ctx.send_signal(other, "ready", &true).await
    /// }
    /// ```
    #[track_caller]
    pub fn send_signal<'a, T>(
        &'a self,
        run_id: RunId,
        name: impl NamesSignal<T>,
        payload: &T,
    ) -> Step<'a, SignalOutcome>
    where
        T: Serialize + DeserializeOwned,
    {
        let name = name.signal_name();
        let signal = self.new_signal(run_id, name, payload);
        let call = self.call_own(&format!("send {name}"), Location::caller());
        let cell = &self.cell;
        let body = move || -> step::BodyFuture<'a, SignalOutcome> {
            // Identical in every attempt of this step of this run, so a signal is accepted only
            // once.
            let key = SignalKey::of_step(cell.idempotency_key());
            let signal = signal.clone().map(|signal| NewSignal { key, ..signal });
            Box::pin(async move {
                match cell.port().signal(signal?).await? {
                    SignalOutcome::Full => Err(Error::msg(format!("the inbox of run {run_id} is full"))),
                    SignalOutcome::Unknown => Err(Error::fatal(format!("there is no run {run_id} in this database"))),
                    outcome => Ok(outcome),
                }
            })
        };
        Step::new(cell, call, Box::new(body))
    }

    fn new_signal<T>(&self, run_id: RunId, name: &str, payload: &T) -> Result<NewSignal, StoredError>
    where
        T: Serialize + DeserializeOwned,
    {
        let refused = |reason: String| StoredError::new(ErrorKind::Refused, reason).fatal();
        check_name(NameSubject::Signal, name).map_err(|error| refused(error.to_string()))?;
        let subject = format!("signal {name:?} to run {run_id}");
        let (payload, _) =
            round_trip(&subject, payload, self.cell.payload_limit()).map_err(|error| refused(error.to_string()))?;
        Ok(NewSignal { run_id, name: name.to_owned(), payload, key: SignalKey::generate(), limit: None })
    }
}

/// A builder for a wait for a signal: set its options, then await it. Made by [`Ctx::signal`].
#[must_use = "a wait does nothing until it is awaited"]
pub struct WaitForSignal<'a, T> {
    inbox: InboxWait<'a>,
    payload: PhantomData<fn() -> T>,
}

impl<T> WaitForSignal<'_, T> {
    /// Sets how long to wait, counted from the first poll. With zero, the wait looks into the inbox
    /// once and ends. Default: without a limit.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.inbox.wait.timeout = Some(timeout);
        self
    }
}

impl<T: DeserializeOwned> Future for WaitForSignal<'_, T> {
    type Output = Result<Option<T>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.inbox.poll(cx, |wait| format!("signal {:?}", wait.name.as_deref().unwrap_or_default()))
    }
}

impl<T> fmt::Debug for WaitForSignal<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitForSignal").field("wait", &self.inbox.wait).finish_non_exhaustive()
    }
}
