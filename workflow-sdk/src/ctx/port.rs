use std::fmt;

use crate::model::Timestamp;

/// What a context needs from outside: the one door between workflow code and the engine.
pub trait Port: fmt::Debug + Send + Sync + 'static {
    /// The time by the database's clock.
    fn now(&self) -> Timestamp;

    /// Something that the run waits for has moved: the drive is to look. Called from any thread.
    fn wake(&self);
}
