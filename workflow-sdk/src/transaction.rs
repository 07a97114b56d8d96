//! The access of a step's body to the transaction of its step.

#[cfg(any(feature = "sqlite", feature = "postgres"))]
use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::Result;
use workflow_engine::model::{ErrorKind, StoredError};
use workflow_engine::store::{ForeignTransaction, OpenTransaction};

/// The transaction of a step, for use in the step's body: see
/// [`Ctx::transaction`](crate::Ctx::transaction).
///
/// The handle belongs to the body and ends with it. The engine begins, commits and rolls back; the
/// body must not. A transaction that the body begins through the driver (`Connection::begin`) is a
/// savepoint inside this one. Leave the session unchanged: use `SET LOCAL`, not `SET`, because the
/// connection serves other transactions afterwards.
///
/// If the handle outlives the body, the attempt fails and nothing is committed. On SQLite, nothing
/// else can be written before that handle is dropped.
///
/// ```
/// use workflow_sdk::prelude::*;
/// use workflow_sdk::sqlx;
///
/// #[workflow]
/// async fn pay(ctx: &Ctx, cents: i64) -> Result<i64> {
///     ctx.transaction("debit", async |mut tx: Tx| {
///         let sql = "UPDATE accounts SET cents = cents - $1 WHERE id = 1 RETURNING cents";
///         let left: i64 = sqlx::query_scalar(sql).bind(cents).fetch_one(tx.sqlite()?).await?;
///         if left < 0 { Err(Error::fatal("not enough money")) } else { Ok(left) }
///     })
///     .await
/// }
/// ```
pub struct Tx {
    /// `None` only after the drop has begun.
    open: Option<OpenTransaction>,
    loan: Arc<Loan>,
}

/// The transaction of a step was used after the end of the step's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the transaction is over: it ended with the body of its step; use it only inside of that body")]
pub struct TransactionOver;

/// The state of a transaction while a body runs, shared by the step and the body's handle.
#[derive(Debug)]
pub(crate) struct Loan(Mutex<LoanState>);

#[derive(Debug)]
enum LoanState {
    /// The body has the transaction.
    Lent,
    /// The body has returned the transaction by dropping its handle.
    Returned(OpenTransaction),
    /// The body has ended.
    Over,
}

impl Loan {
    fn state(&self) -> MutexGuard<'_, LoanState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the loan together with the body. Returns the transaction if the body has returned it;
    /// otherwise the body's handle is refused from now on.
    pub(crate) fn end(&self) -> Result<OpenTransaction, StoredError> {
        match std::mem::replace(&mut *self.state(), LoanState::Over) {
            LoanState::Returned(open) => Ok(open),
            LoanState::Lent | LoanState::Over => {
                let message = "the body ended, but the handle of its transaction was kept elsewhere; the transaction is rolled back \
                     when the handle is dropped (until then SQLite can write nothing else); keep the handle inside the body";
                Err(StoredError::new(ErrorKind::Refused, message).fatal())
            }
        }
    }
}

impl Tx {
    pub(crate) fn lend(open: OpenTransaction) -> (Self, Arc<Loan>) {
        let loan = Arc::new(Loan(Mutex::new(LoanState::Lent)));
        (Self { open: Some(open), loan: Arc::clone(&loan) }, loan)
    }

    /// Returns the connection, on a SQLite database. Use it like any connection of sqlx.
    ///
    /// # Errors
    /// Kind [`Refused`](ErrorKind::Refused): the database is another one, or the body has ended.
    #[cfg(feature = "sqlite")]
    pub fn sqlite(&mut self) -> Result<&mut sqlx::SqliteConnection> {
        let refusal = self.wrong("SQLite", "tx.postgres()");
        self.connection_of().map_err(over)?.ok_or_else(|| refusal.into())
    }

    /// Returns the connection, on a PostgreSQL database. Use it like any connection of sqlx.
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
        // Every store with tables has one of these names.
        if !["SQLite", "PostgreSQL"].contains(&database) {
            let message = format!(
                "this transaction is on {database}, which has no tables and takes no SQL; test this body \
                 on SQLite (a file in a temporary directory), or keep its statements behind the worker's state"
            );
            return StoredError::new(ErrorKind::Refused, message).fatal();
        }
        let message = format!("this transaction is on {database}, not on {asked}; use {instead}");
        StoredError::new(ErrorKind::Refused, message).fatal()
    }

    /// Returns the connection, if it has this type.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    fn connection_of<C: Any>(&mut self) -> Result<Option<&mut C>, TransactionOver> {
        Ok(self.opened()?.connection().downcast_mut())
    }

    /// Returns the transaction in the form that stores take.
    pub(crate) fn foreign(&mut self) -> Result<ForeignTransaction<'_>, TransactionOver> {
        let open = self.opened()?;
        let (database, origin) = (open.database(), Some(open.store()));
        Ok(ForeignTransaction { connection: open.connection(), database, origin })
    }

    fn opened(&mut self) -> Result<&mut OpenTransaction, TransactionOver> {
        if matches!(*self.loan.state(), LoanState::Over) {
            return Err(TransactionOver);
        }
        self.open.as_mut().ok_or(TransactionOver)
    }
}

/// The error is fatal, because no further attempt could succeed.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
fn over(error: TransactionOver) -> StoredError {
    StoredError::new(ErrorKind::Refused, error.to_string()).fatal()
}

impl Drop for Tx {
    fn drop(&mut self) {
        let Some(open) = self.open.take() else { return };
        let mut state = self.loan.state();
        if matches!(*state, LoanState::Lent) {
            *state = LoanState::Returned(open);
        }
    }
}

impl fmt::Debug for Tx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tx").field("open", &self.open).finish_non_exhaustive()
    }
}
