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

/// Tells whether a database has changed.
#[async_trait]
pub trait ChangeStore {
    /// Returns a text that differs from an earlier one if a transaction has committed in between,
    /// by whichever process and in whichever order the transactions began. It may also differ
    /// without a reason. Only texts of one handle can be compared. A read that begins later sees
    /// every commit that the text counts.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails or does not answer.
    async fn data_version(&self) -> Result<String, DatabaseError>;
}
