use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use super::DatabaseError;

/// Tells the opened stores of a process from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreId(u64);

impl StoreId {
    /// An id that no other store of this process has.
    #[must_use]
    pub fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A transaction that the application began on its own connection, or the engine began for the body
/// of a step.
pub struct ForeignTransaction<'a> {
    /// The driver's connection: sqlx's `SqliteConnection` or `PgConnection`; in memory, the object
    /// that collects the writes.
    pub connection: &'a mut (dyn Any + Send),
    /// The kind of its database, as errors show it.
    pub database: &'static str,
    /// The store that began it, if one did.
    pub origin: Option<StoreId>,
}

impl fmt::Debug for ForeignTransaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignTransaction").field("database", &self.database).field("origin", &self.origin).finish()
    }
}

/// Why nothing was written in a transaction of the application.
#[derive(Debug, thiserror::Error)]
pub enum WithinError {
    /// The transaction is one of another kind of database.
    #[error("the transaction is one of {transaction}, the store is one of {store}")]
    OtherDatabase {
        /// The kind of the store.
        store: &'static str,
        /// The kind of the transaction's database.
        transaction: &'static str,
    },
    /// The isolation level of the transaction hides waits that have begun since its first
    /// statement.
    #[error("the transaction has the isolation level {level}")]
    Isolation {
        /// The level, as the database names it.
        level: String,
    },
    /// The database refused, or did not answer.
    #[error(transparent)]
    Database(#[from] DatabaseError),
}
