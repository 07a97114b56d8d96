use std::fmt;

use crate::model::{Admission, Breaker, ServiceReport, Timestamp};

/// What a context needs from outside: the one door between workflow code and the engine.
pub trait Port: fmt::Debug + Send + Sync + 'static {
    /// The time by the database's clock.
    fn now(&self) -> Timestamp;

    /// Whether the body of a step may begin at this moment. Asked right before, for the body that was polled before may have
    /// held its thread for long.
    fn may_begin(&self) -> bool {
        true
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

    /// Something that the run waits for has moved: the drive is to look. Called from any thread.
    fn wake(&self);
}
