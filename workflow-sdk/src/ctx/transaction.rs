use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::transaction::Tx;
use crate::{Error, Result};
use workflow_engine::model::{Retry, StepKind};
use workflow_engine::replay::CallId;

use super::step::{BodyFuture, Step};
use super::{BodyError, Ctx, RunCell, StepValue};

impl<S> Ctx<S> {
    /// Runs a step whose body works in a transaction on the run's own database. The rows that the
    /// body writes, the outcome of the step, and the check that this worker still holds the claim
    /// on the run are committed together. So the effect takes place exactly once, even if processes
    /// are killed: if the outcome is not recorded, the rows are not there either.
    ///
    /// The body receives the [`Tx`], works on the connection that [`tx.sqlite()`](Tx::sqlite) or
    /// [`tx.postgres()`](Tx::postgres) returns, and returns its own result. The engine commits if
    /// the body returned a value. It rolls back if the body returned an error, panicked, was
    /// dropped or took too long. Effects outside of the database (a mail, a call of a service) are
    /// not rolled back: they belong in a [`Ctx::step`]. [`Client::start`](crate::Client::start) and
    /// [`Client::cancel`](crate::Client::cancel) join the transaction with `.within(&mut tx)`.
    ///
    /// **Keep it short.** SQLite has one writer: while a transaction is open, no run and no process
    /// can write anything else. A body that awaits another write (a `client.start(..)` without
    /// `.within(&mut tx)`) waits for itself, until its [timeout](Transaction::timeout) of 5 s ends
    /// it. On PostgreSQL, a transaction occupies a connection of the pool. At most half of the
    /// pool's connections can be in transactions at a time, and further transactions wait.
    ///
    /// # Errors
    /// See [`Ctx::step`]. If the database does not commit the transaction (a deferred constraint, a
    /// serialization failure), the attempt fails. The kind is
    /// [`Refused`](crate::ErrorKind::Refused) if the body kept its handle, or ended the transaction
    /// itself; in the latter case, the rows that the body committed stay.
    ///
    /// # Cancel safety
    /// Dropping the future rolls back, unless the body has ended: then the commit has been sent and
    /// is not canceled.
    ///
    /// The example of [`Tx`] shows SQL statements. Here they are inside the application's own
    /// `debit`.
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    ///
    /// # async fn debit(tx: &mut Tx, _cents: i64) -> Result<i64> { tx.sqlite().map(|_| 1) }
    /// #[workflow]
    /// async fn pay(ctx: &Ctx, cents: i64) -> Result<i64> {
    ///     ctx.transaction("debit", async |mut tx: Tx| {
    ///         let left = debit(&mut tx, cents).await?;
    ///         if left < 0 { Err(Error::fatal("not enough money")) } else { Ok(left) }
    ///     })
    ///     .await
    /// }
    /// ```
    #[track_caller]
    pub fn transaction<'a, B, F, T, E>(&'a self, name: impl AsRef<str>, body: B) -> Transaction<'a, T>
    where
        B: FnMut(Tx) -> F + Send + 'a,
        F: Future<Output = Result<T, E>> + Send + 'a,
        T: StepValue + 'a,
        E: BodyError + Send + 'a,
    {
        let call = self.call_named(name.as_ref(), Location::caller());
        let id = call.as_ref().ok().copied();
        let cell = &self.cell;
        // The body is called when its transaction is open, by a future that cannot borrow the body.
        let body = Arc::new(Mutex::new(body));
        let attempt = move || -> BodyFuture<'a, T> {
            let body = Arc::clone(&body);
            let call = move |tx| (body.lock().unwrap_or_else(PoisonError::into_inner))(tx);
            Box::pin(in_transaction(cell, id, call))
        };
        let mut step = Step::new(&self.cell, call, Box::new(attempt));
        step.options.kind = StepKind::Transaction;
        Transaction { step: step.timeout(Transaction::<T>::DEFAULT_TIMEOUT) }
    }
}

/// Runs one attempt, without its commit, which the drive sends.
async fn in_transaction<T, E, F>(cell: &RunCell, id: Option<CallId>, body: impl FnOnce(Tx) -> F) -> Result<T>
where
    F: Future<Output = Result<T, E>>,
    E: BodyError,
{
    let transaction = cell.port().begin_transaction().await?;
    // A call that was refused does not run its body.
    let Some(id) = id else { return Err(Error::fatal("the step was refused")) };
    cell.transaction_opened(id);
    let (tx, loan) = Tx::lend(transaction);
    let result = body(tx).await.map_err(BodyError::into_error);
    match (result, loan.end()) {
        (Ok(value), Ok(transaction)) => {
            cell.attach_transaction(id, transaction);
            Ok(value)
        }
        (Err(error), Ok(transaction)) => {
            transaction.roll_back().await;
            Err(error)
        }
        (Ok(_), Err(refusal)) => Err(refusal.into()),
        (Err(error), Err(_)) => Err(error),
    }
}

/// A builder for a transaction: set its options, then await it. Made by [`Ctx::transaction`].
#[must_use = "a transaction does nothing until it is awaited"]
pub struct Transaction<'a, T> {
    step: Step<'a, T>,
}

impl<T> Transaction<'_, T> {
    /// The default of [`Transaction::timeout`]: 5 s.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

    /// The maximum of [`Transaction::timeout`]: 10 s. All writers of a SQLite database wait that
    /// long, including the renewal of leases, which must succeed three times within a default
    /// lease.
    pub const MAX_TIMEOUT: Duration = Duration::from_secs(10);

    /// Sets the retry policy of failed attempts. Default: [`Retry::STEP_DEFAULT`].
    pub fn retry(self, retry: Retry) -> Self {
        Self { step: self.step.retry(retry) }
    }

    /// Limits the duration of the body in one attempt, counted from the moment its transaction is
    /// open. When it has passed, the body is dropped, its transaction is rolled back, and the
    /// attempt fails with an error of kind [`Timeout`](crate::ErrorKind::Timeout), which is
    /// retried. Default: 5 s. Range: at most 10 s; a longer timeout is shortened to 10 s.
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { step: self.step.timeout(timeout.min(Self::MAX_TIMEOUT)) }
    }
}

impl<'a, T: Send + 'a> Future for Transaction<'a, T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.step).poll(cx)
    }
}

impl<T> fmt::Debug for Transaction<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").field("step", &self.step).finish()
    }
}
