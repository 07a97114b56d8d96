//! The hand of a body on the transaction of its step.

#[cfg(any(feature = "sqlite", feature = "postgres"))]
use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::Result;
use workflow_engine::model::{ErrorKind, StoredError};
use workflow_engine::store::{ForeignTransaction, OpenTransaction};

/// The transaction of a step, for its body: see [`Ctx::transaction`](crate::Ctx::transaction).
///
/// It belongs to the body and ends with it. The engine begins, commits and rolls back: the body must not. A transaction
/// that it begins on the connection by the driver (`Connection::begin`) is a savepoint inside of this one. Leave the session
/// as it was: use `SET LOCAL`, not `SET`, for the connection serves others afterwards.
///
/// A handle that outlives its body is refused: the attempt fails, nothing is committed. On SQLite nothing else can be written
/// before such a handle is dropped.
///
/// ```
/// use workflow_sdk::prelude::*;
/// use workflow_sdk::sqlx;
///
/// #[workflow]
/// async fn pay(ctx: &Ctx, cents: i64) -> Result<i64> {
///     ctx.transaction("debit", async |mut tx: Tx| {
///         let debit = sqlx::query_scalar("UPDATE accounts SET cents = cents - $1 WHERE id = 1 RETURNING cents");
///         let left: i64 = debit.bind(cents).fetch_one(tx.sqlite()?).await?;
///         if left < 0 { Err(Error::fatal("not enough money")) } else { Ok(left) }
///     })
///     .await
/// }
/// ```
pub struct Tx {
    /// There until it is dropped.
    open: Option<OpenTransaction>,
    loan: Arc<Loan>,
}

/// The transaction of a step was used after the end of its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the transaction is over: it ended with the body of its step; use it only inside of that body")]
pub struct TransactionOver;

/// Where a transaction is while a body runs.
#[derive(Debug)]
pub(crate) struct Loan(Mutex<Standing>);

#[derive(Debug)]
enum Standing {
    /// The body has it.
    Lent,
    /// The body has given it back, by dropping its handle.
    Returned(OpenTransaction),
    /// The body has ended.
    Over,
}

impl Loan {
    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The body has ended: what it was lent comes back, or is refused from now on.
    pub(crate) fn end(&self) -> Result<OpenTransaction, StoredError> {
        match std::mem::replace(&mut *self.standing(), Standing::Over) {
            Standing::Returned(open) => Ok(open),
            Standing::Lent | Standing::Over => {
                let message = "the body ended, but its transaction is still held: somewhere else its handle was kept, and it is \
                     rolled back when that is dropped (until then SQLite can write nothing else); keep the handle inside of the body";
                Err(StoredError::new(ErrorKind::Refused, message).fatal())
            }
        }
    }
}

impl Tx {
    pub(crate) fn lend(open: OpenTransaction) -> (Self, Arc<Loan>) {
        let loan = Arc::new(Loan(Mutex::new(Standing::Lent)));
        (Self { open: Some(open), loan: Arc::clone(&loan) }, loan)
    }

    /// The connection, on a SQLite database. Use it as any connection of sqlx's.
    ///
    /// # Errors
    /// Kind [`Refused`](ErrorKind::Refused): the database is another one, or the body has ended.
    #[cfg(feature = "sqlite")]
    pub fn sqlite(&mut self) -> Result<&mut sqlx::SqliteConnection> {
        let refusal = self.wrong("SQLite", "tx.postgres()");
        self.connection_of().map_err(over)?.ok_or_else(|| refusal.into())
    }

    /// The connection, on a PostgreSQL database. Use it as any connection of sqlx's.
    ///
    /// # Errors
    /// Kind [`Refused`](ErrorKind::Refused): the database is another one, or the body has ended.
    #[cfg(feature = "postgres")]
    pub fn postgres(&mut self) -> Result<&mut sqlx::PgConnection> {
        let refusal = self.wrong("PostgreSQL", "tx.sqlite()");
        self.connection_of().map_err(over)?.ok_or_else(|| refusal.into())
    }

    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    fn wrong(&self, asked: &str, instead: &str) -> StoredError {
        let database = self.open.as_ref().map_or("another database", |open| open.database());
        // No store with tables answers to another name.
        if !["SQLite", "PostgreSQL"].contains(&database) {
            let message = format!(
                "this transaction is one of {database}, which has no tables and takes no SQL; test this body \
                 on SQLite (a file in a temporary directory), or keep its statements behind the worker's state"
            );
            return StoredError::new(ErrorKind::Refused, message).fatal();
        }
        let message = format!("this transaction is one of {database}, not of {asked}; use {instead}");
        StoredError::new(ErrorKind::Refused, message).fatal()
    }

    /// The connection, if it is of this type.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    fn connection_of<C: Any>(&mut self) -> Result<Option<&mut C>, TransactionOver> {
        Ok(self.opened()?.connection().downcast_mut())
    }

    /// The transaction as stores take it.
    pub(crate) fn foreign(&mut self) -> Result<ForeignTransaction<'_>, TransactionOver> {
        let open = self.opened()?;
        let (database, origin) = (open.database(), Some(open.store()));
        Ok(ForeignTransaction { connection: open.connection(), database, origin })
    }

    fn opened(&mut self) -> Result<&mut OpenTransaction, TransactionOver> {
        if matches!(*self.loan.standing(), Standing::Over) {
            return Err(TransactionOver);
        }
        self.open.as_mut().ok_or(TransactionOver)
    }
}

/// Fatal: no attempt after it could do better.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
fn over(error: TransactionOver) -> StoredError {
    StoredError::new(ErrorKind::Refused, error.to_string()).fatal()
}

impl Drop for Tx {
    fn drop(&mut self) {
        let Some(open) = self.open.take() else { return };
        let mut standing = self.loan.standing();
        if matches!(*standing, Standing::Lent) {
            *standing = Standing::Returned(open);
        }
    }
}

impl fmt::Debug for Tx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tx").field("open", &self.open).finish_non_exhaustive()
    }
}
