use std::any::Any;
use std::fmt;

use async_trait::async_trait;

use super::{AttemptWrite, DatabaseError, StoreId};

/// The open transaction of a step.
pub type OpenTransaction = Box<dyn StepTransaction>;

/// An open transaction for the body of one step. Dropping it rolls back.
///
/// Its commit is the one write that does not pass through the executor: an author waits for the
/// answer to each statement, so the statements cannot be queued.
#[async_trait]
pub trait StepTransaction: fmt::Debug + Send {
    /// Returns the driver's connection: sqlx's `SqliteConnection` or `PgConnection`; in memory, the
    /// object that collects the writes.
    fn connection(&mut self) -> &mut (dyn Any + Send);

    /// Returns the kind of the database, as errors show it.
    fn database(&self) -> &'static str;

    /// Returns the id of the store that began the transaction.
    fn store(&self) -> StoreId;

    /// Writes the outcome of the step and commits it together with the author's changes, if the
    /// claim is still the current one of its run. The fence holds until the commit. If the row is
    /// final already, nothing is committed.
    async fn commit(self: Box<Self>, outcome: AttemptWrite) -> StepCommit;

    /// Rolls the transaction back.
    async fn roll_back(self: Box<Self>);
}

/// The outcome of the commit of a step's transaction.
#[derive(Debug)]
pub enum StepCommit {
    /// Everything was committed.
    Committed,
    /// The claim is not the current one of its run. Nothing was changed.
    Lost,
    /// Nothing was changed.
    RolledBack(DatabaseError),
    /// The body ended the transaction itself, or went on after an error that ended it. Everything
    /// after that was rolled back.
    Broken(DatabaseError),
    /// The database did not answer: either everything was committed or nothing.
    /// [`Store::recorded`](super::Store::recorded) tells which.
    Unknown(DatabaseError),
}
