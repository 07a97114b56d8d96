use std::fmt;
use std::future::Future;
use std::pin::Pin;

use crate::Result;
use crate::model::{NewSignal, SignalOutcome, Timestamp};

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

    /// Something that the run waits for has moved: the drive is to look. Called from any thread.
    fn wake(&self);
}
