use std::fmt;
use std::future::Future;
use std::pin::Pin;

use futures::future::BoxFuture;

use crate::model::{
    Admission, Breaker, ErrorKind, NewSignal, RunId, ServiceReport, SignalOutcome, StoredError, Timestamp,
};
use crate::runtime::Result;
use crate::store::OpenTransaction;

/// A future of the engine, boxed.
pub type PortFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What a context needs from outside: the one door between workflow code and the engine.
pub trait Port: fmt::Debug + Send + Sync + 'static {
    /// The time by the database's clock.
    fn now(&self) -> Timestamp;

    /// Whether the body of a step may begin at this moment. Asked right before, for the body that was polled before may have
    /// held its thread for long.
    fn may_begin(&self) -> bool {
        true
    }

    /// Sends a signal to another run. Says what became of it after the commit.
    fn signal(&self, signal: NewSignal) -> PortFuture<Result<SignalOutcome>>;

    /// Opens a transaction on the run's database, under the run's claim. Where the claim is lost it never answers, for then
    /// nothing of the run goes on.
    fn begin_transaction(&self) -> BoxFuture<'_, Result<OpenTransaction, StoredError>> {
        let refusal =
            StoredError::new(ErrorKind::Refused, "there is no database here to begin a transaction on").fatal();
        Box::pin(std::future::ready(Err(refusal)))
    }

    /// Whether an attempt of a step with this breaker may begin at this moment. Default: always.
    ///
    /// # Errors
    /// The instant before which it may not.
    fn breaker_admits(&self, _breaker: &Breaker) -> Result<Admission, Timestamp> {
        Ok(Admission::default())
    }

    /// What an attempt that was admitted has shown. Default: nobody wants to know.
    fn breaker_report(&self, _breaker: &Breaker, _admission: Admission, _report: ServiceReport<'_>) {}

    /// Who watches the bodies of this run. Default: nobody.
    fn watch(&self) -> Option<&dyn BodyWatch> {
        None
    }

    /// Something that the run waits for has moved: the drive is to look. Called from any thread.
    fn wake(&self);
}

/// The attempt of a step whose body a thread is at.
#[derive(Clone, Copy, Debug)]
pub struct BodyAtHand<'a> {
    /// The run.
    pub run_id: RunId,
    /// The step's key.
    pub step_key: &'a str,
    /// The attempt, from 1.
    pub attempt: u32,
}

/// Who watches bodies: a test kit.
pub trait BodyWatch: fmt::Debug + Send + Sync {
    /// A body begins. What this gives is awaited before the body is polled.
    fn begins(&self, body: BodyAtHand<'_>) -> Option<PortFuture<()>>;

    /// This thread calls, polls or drops the body.
    fn enters(&self, body: BodyAtHand<'_>);

    /// It is done with what it entered last.
    fn leaves(&self);

    /// This thread, which may be any, wakes something of this run.
    fn woken(&self, run_id: RunId);
}
