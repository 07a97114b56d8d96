use std::fmt;

use futures::future::BoxFuture;

use crate::model::{ErrorKind, StoredError, Timestamp};
use crate::transaction::OpenTransaction;

/// What a context needs from outside: the one door between workflow code and the engine.
pub trait Port: fmt::Debug + Send + Sync + 'static {
    /// The time by the database's clock.
    fn now(&self) -> Timestamp;

    /// Whether the body of a step may begin at this moment. Asked right before, for the body that was polled before may have
    /// held its thread for long.
    fn may_begin(&self) -> bool {
        true
    }

    /// Opens a transaction on the run's database, under the run's claim. Where the claim is lost it never answers, for then
    /// nothing of the run goes on.
    fn begin_transaction(&self) -> BoxFuture<'_, Result<OpenTransaction, StoredError>> {
        let refusal =
            StoredError::new(ErrorKind::Refused, "there is no database here to begin a transaction on").fatal();
        Box::pin(std::future::ready(Err(refusal)))
    }

    /// Something that the run waits for has moved: the drive is to look. Called from any thread.
    fn wake(&self);
}
