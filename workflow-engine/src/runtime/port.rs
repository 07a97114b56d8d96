use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;

use futures::future::BoxFuture;

use crate::model::{
    Admission, Breaker, ErrorKind, NewEmission, NewSignal, RunId, ServiceReport, SignalOutcome, StoredError, Timestamp,
};
use crate::observe::Observers;
use crate::runtime::Result;
use crate::store::OpenTransaction;

/// A boxed future of the engine.
pub type PortFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The interface through which workflow code reaches the engine. It is the only one.
pub trait Port: fmt::Debug + Send + Sync + 'static {
    /// Returns the time of the database's clock.
    fn now(&self) -> Timestamp;

    /// Returns whether the body of a step may begin now. It is called immediately before each body,
    /// because the body polled before it may have blocked the thread for a long time.
    fn may_begin(&self) -> bool {
        true
    }

    /// Sends a signal to another run. Returns the result after the commit.
    fn signal(&self, signal: NewSignal) -> PortFuture<Result<SignalOutcome>>;

    /// Delivers an event to every run that waits for it. Returns their number after the commit.
    /// Default: the event is refused.
    fn emit(&self, emission: NewEmission) -> PortFuture<Result<u64>> {
        let why = format!("there is no database here to emit the event {:?} in", emission.event.name);
        let refusal = StoredError::new(ErrorKind::Refused, why).fatal();
        Box::pin(std::future::ready(Err(refusal.into())))
    }

    /// Opens a transaction on the run's database, under the run's claim. If the claim is lost, the
    /// future never completes, because nothing of the run may continue.
    fn begin_transaction(&self) -> BoxFuture<'_, Result<OpenTransaction, StoredError>> {
        let refusal =
            StoredError::new(ErrorKind::Refused, "there is no database here to begin a transaction on").fatal();
        Box::pin(std::future::ready(Err(refusal)))
    }

    /// Asks whether an attempt of a step with this breaker may begin now. Default: it may.
    ///
    /// # Errors
    /// The time before which the attempt may not begin.
    fn breaker_admits(&self, _breaker: &Breaker) -> Result<Admission, Timestamp> {
        Ok(Admission::default())
    }

    /// Reports what an admitted attempt has shown. Default: the report is ignored.
    fn breaker_report(&self, _breaker: &Breaker, _admission: Admission, _report: ServiceReport<'_>) {}

    /// Takes note that the workflow calls the step with this key at this place of its code. Every
    /// call does this at its first poll, on every replay, so it must be cheap. Default: nothing is
    /// noted.
    fn note_call(&self, _key: &str, _location: &'static Location<'static>) {}

    /// Returns the observer of this run's bodies. Default: none.
    fn body_hooks(&self) -> Option<&dyn BodyHooks> {
        None
    }

    /// Notifies the drive that something has changed that the run waits for. Called from any
    /// thread.
    fn wake(&self);

    /// Logs a warning, once for each subject. `message` contains no values. Default: no log.
    fn warn_once(&self, _subject: &str, _message: &str) {}

    /// Returns the observers of the run. Default: nothing observes.
    fn observers(&self) -> Option<&Observers> {
        None
    }
}

/// The attempt of a step whose body a thread enters.
#[derive(Clone, Copy, Debug)]
pub struct BodyAttempt<'a> {
    /// The run.
    pub run_id: RunId,
    /// The step's key.
    pub step_key: &'a str,
    /// The number of the attempt, from 1.
    pub attempt: u32,
}

/// Observes bodies. A test kit implements it.
pub trait BodyHooks: fmt::Debug + Send + Sync {
    /// Called when a body begins. The returned future is awaited before the body is polled.
    fn begins(&self, body: BodyAttempt<'_>) -> Option<PortFuture<()>>;

    /// Called when this thread begins to call, poll or drop the body.
    fn enters(&self, body: BodyAttempt<'_>);

    /// Called when this thread leaves the body that it entered last.
    fn leaves(&self);

    /// Called when this thread, which may be any thread, wakes something of this run.
    fn woken(&self, run_id: RunId);
}
