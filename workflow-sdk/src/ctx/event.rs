use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Result;
use workflow_engine::model::{
    EmittingStep, ErrorKind, EventName, NameSubject, NamesSignal, NewEmission, SignalKey, StepKind, StoredError,
    check_name,
};
use workflow_engine::replay::{CallId, SignalWait};
use workflow_engine::runtime::round_trip;

use super::inbox_wait::InboxWait;
use super::{Ctx, RunCell, Step, step};

impl<S> Ctx<S> {
    /// Waits for an event with this name and the [key](EventCall::key) that is set next. An event
    /// that is [emitted](crate::Client::emit) reaches every run that waits for its name and key at
    /// that commit. Nothing is kept for later waits.
    ///
    /// Returns `None` only if a [timeout](WaitForEvent::timeout) was set and has passed. A run that
    /// waits occupies no worker.
    ///
    /// # A wait that misses nothing
    /// A wait is registered by the commit that records its beginning. The application may emit the
    /// event just before that commit. So the run waits first and looks second: a step that is
    /// polled after the wait begins only once the wait is registered. The application does the
    /// reverse: it writes what has happened first and emits the event second, or both in [one
    /// transaction](crate::Emit::within).
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    /// # async fn find_payment(_order: &str) -> Result<Option<u64>> { Ok(None) }
    ///
    /// #[workflow]
    /// async fn ship(ctx: &Ctx, order: String) -> Result<u64> {
    ///     let paid = ctx.event::<u64>("order.paid").key(&order);
    ///     let look = ctx.step("find payment", || find_payment(&order));
    ///     // `select` polls the wait first.
    ///     match futures::future::select(paid, look).await {
    ///         futures::future::Either::Left((paid, _)) => Ok(paid?.unwrap_or_default()),
    ///         futures::future::Either::Right((found, paid)) => match found? {
    ///             Some(cents) => Ok(cents),
    ///             None => Ok(paid.await?.unwrap_or_default()),
    ///         },
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    /// Awaiting the wait returns an error of kind [`Refused`](ErrorKind::Refused) for an invalid
    /// name or key, a wait inside the body of a step, or a payload that does not decode as `T`. The
    /// kind is [`Canceled`](ErrorKind::Canceled) or [`Deadline`](ErrorKind::Deadline) if the run is
    /// told to end while it waits.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait. An event that reaches the wait in the same moment is lost
    /// to this run, although the emission counts it.
    #[track_caller]
    pub fn event<T: DeserializeOwned + Send>(&self, name: impl NamesSignal<T>) -> EventCall<'_, T> {
        let (name, location) = (name.signal_name(), Location::caller());
        let call = checked(NameSubject::Event, name).and_then(|()| self.call_own(name, location));
        EventCall { cell: &self.cell, call, name: name.to_owned(), payload: PhantomData }
    }

    /// Emits an event, as a step: it is delivered to every run that waits for this name and key at
    /// that commit, once, however often this run is resumed. Returns the number of runs that it was
    /// delivered to.
    ///
    /// # Errors
    /// Awaiting it returns an error of kind [`Refused`](ErrorKind::Refused) for an invalid name or
    /// key, or a payload that cannot be stored.
    ///
    /// # Cancel safety
    /// See [`Ctx::step`].
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    ///
    /// #[workflow]
    /// async fn pay(ctx: &Ctx, order: String) -> Result<u64> {
    ///     ctx.emit_event("order.paid", &order, &500_u64).await
    /// }
    /// ```
    #[track_caller]
    pub fn emit_event<'a, T>(&'a self, name: impl NamesSignal<T>, key: impl AsRef<str>, payload: &T) -> Step<'a, u64>
    where
        T: Serialize + DeserializeOwned,
    {
        let name = name.signal_name();
        let emission = self.new_emission(name, key.as_ref(), payload);
        let call = self.call_own(&format!("emit {name}"), Location::caller());
        let cell = &self.cell;
        let body = move || -> step::BodyFuture<'a, u64> {
            // Identical in every attempt of this step, so the event is emitted once.
            let key = SignalKey::of_step(cell.idempotency_key()).as_str().to_owned();
            let by = Some(EmittingStep { run_id: cell.run_id(), key });
            let emission = emission.clone().map(|emission| NewEmission { by, ..emission });
            Box::pin(async move { cell.port().emit(emission?).await })
        };
        Step::new(cell, call, Box::new(body))
    }

    fn new_emission<T>(&self, name: &str, key: &str, payload: &T) -> Result<NewEmission, StoredError>
    where
        T: Serialize + DeserializeOwned,
    {
        checked(NameSubject::Event, name)?;
        checked(NameSubject::EventKey, key)?;
        let subject = format!("event {name:?}");
        let (payload, _) = round_trip(&subject, payload, self.cell.payload_limit())
            .map_err(|error| StoredError::new(ErrorKind::Refused, error.to_string()).fatal())?;
        Ok(NewEmission { event: EventName { name: name.to_owned(), key: key.to_owned() }, payload, by: None })
    }
}

fn checked(subject: NameSubject, name: &str) -> Result<(), StoredError> {
    check_name(subject, name).map_err(|error| StoredError::new(ErrorKind::Refused, error.to_string()).fatal())
}

/// A wait for an event that still needs its key. Made by [`Ctx::event`].
#[must_use = "a wait for an event needs its key: .key(..)"]
pub struct EventCall<'a, T> {
    cell: &'a Arc<RunCell>,
    call: Result<CallId, StoredError>,
    name: String,
    payload: PhantomData<fn() -> T>,
}

impl<'a, T> EventCall<'a, T> {
    /// Sets the key of the event, such as the number of an order. Range: 1 to 255 bytes without
    /// control characters. A run that waited for the event before its code changed the key goes on
    /// with the key that was recorded.
    pub fn key(self, key: impl AsRef<str>) -> WaitForEvent<'a, T> {
        let key = key.as_ref();
        let call = self.call.and_then(|call| checked(NameSubject::EventKey, key).map(|()| call));
        let event = EventName { name: self.name, key: key.to_owned() };
        let wait = SignalWait { kind: StepKind::Event, name: None, timeout: None, to: None, event: Some(event) };
        WaitForEvent { inbox: InboxWait::new(self.cell, call, wait), payload: PhantomData }
    }
}

impl<T> fmt::Debug for EventCall<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventCall").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A builder for a wait for an event: set its options, then await it. Made by [`EventCall::key`].
#[must_use = "a wait does nothing until it is awaited"]
pub struct WaitForEvent<'a, T> {
    inbox: InboxWait<'a>,
    payload: PhantomData<fn() -> T>,
}

impl<T> WaitForEvent<'_, T> {
    /// Sets how long to wait, counted from the first poll. An event that is emitted before the
    /// timeout is recorded ends the wait, even if the time has passed. Default: without a limit.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.inbox.wait.timeout = Some(timeout);
        self
    }
}

impl<T: DeserializeOwned> Future for WaitForEvent<'_, T> {
    type Output = Result<Option<T>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.inbox.poll(cx, |wait| format!("event {:?}", wait.event.as_ref().map_or("", |event| &event.name)))
    }
}

impl<T> fmt::Debug for WaitForEvent<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitForEvent").field("wait", &self.inbox.wait).finish_non_exhaustive()
    }
}
