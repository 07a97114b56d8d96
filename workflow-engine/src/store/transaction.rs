use std::any::Any;
use std::fmt;

use async_trait::async_trait;

use super::{AttemptWrite, DatabaseError, StoreId};

/// A step's transaction that is open.
pub type OpenTransaction = Box<dyn StepTransaction>;

/// An open transaction for the body of one step. Dropping it rolls back.
///
/// It is the one write beside the executor's batches: an author's statements cannot be queued, for the author waits for
/// the answer to each before the next.
#[async_trait]
pub trait StepTransaction: fmt::Debug + Send {
    /// The driver's connection: sqlx's `SqliteConnection` or `PgConnection`; in memory, what joins the transaction.
    fn connection(&mut self) -> &mut (dyn Any + Send);

    /// The kind of database, as people call it.
    fn database(&self) -> &'static str;

    /// The store that began it.
    fn store(&self) -> StoreId;

    /// Writes the outcome of the step and commits it with all that was done in the transaction, if the claim is still the
    /// run's current one; the fence holds until the commit. A row that is final already is never written twice: then nothing
    /// is committed.
    async fn commit(self: Box<Self>, outcome: AttemptWrite) -> StepCommit;

    /// Ends it without an effect.
    async fn roll_back(self: Box<Self>);
}

/// What became of the commit of a step's transaction.
#[derive(Debug)]
pub enum StepCommit {
    /// All of it is in the database.
    Committed,
    /// The claim is not the run's current one. Nothing was changed.
    Lost,
    /// Nothing was changed.
    RolledBack(DatabaseError),
    /// The body ended the transaction itself, or went on after an error that ended it. What was done after that was rolled
    /// back.
    Broken(DatabaseError),
    /// The database did not answer: all of it is in the database, or nothing. [`Store::recorded`] knows.
    Unknown(DatabaseError),
}
