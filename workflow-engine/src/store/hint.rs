use std::fmt;

use async_trait::async_trait;

use super::DatabaseError;

/// Receives hints from other processes.
#[async_trait]
pub trait Listener: fmt::Debug + Send {
    /// Returns when another process may have changed something, and sometimes without a reason.
    ///
    /// # Errors
    /// [`DatabaseError`]; the listener cannot be used any more.
    async fn next(&mut self) -> Result<(), DatabaseError>;
}
