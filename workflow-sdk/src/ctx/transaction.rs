use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::BoxError;
use crate::transaction::Tx;
use crate::{Error, Result};
use workflow_engine::model::{Retry, StepKind};
use workflow_engine::replay::CallId;

use super::step::{BodyFuture, Step};
use super::{Ctx, RunCell};

impl<S> Ctx<S> {
    /// A step whose body works in a transaction on the run's own database: the rows that the body writes, the outcome of the
    /// step and the check that this worker still holds the run are committed together. So its effect is there exactly once,
    /// whatever is killed when: where the outcome is not recorded, the rows are not there either.
    ///
    /// The body gets the [`Tx`], works on the connection that [`tx.sqlite()`](Tx::sqlite) or [`tx.postgres()`](Tx::postgres)
    /// gives, and returns; the engine commits if it returned a value, and rolls back if it returned an error, panicked,
    /// was dropped or took too long. What leaves the database (a mail, a call of a service) is not undone by that: it belongs
    /// into a [`Ctx::step`]. [`Client::start`](crate::Client::start) and [`Client::cancel`](crate::Client::cancel) join the
    /// transaction with `.within(&mut tx)`.
    ///
    /// **Keep it short.** On SQLite there is one writer: while a transaction is open nothing else is written, by no run and
    /// no process. A body that awaits another write (a `client.start(..)` without `.within(&mut tx)`) waits for itself, until
    /// its [timeout](Transaction::timeout) of 5 s ends it. On PostgreSQL it has a connection of the pool; half of the pool's
    /// connections can be in transactions at a time, and further ones wait.
    ///
    /// # Errors
    /// As [`Ctx::step`]. A transaction that the database does not commit (a deferred constraint, a serialization failure) is
    /// a failed attempt. Kind [`Refused`](crate::ErrorKind::Refused): the body kept its handle, or ended the transaction
    /// itself; in the latter case what it committed stays.
    ///
    /// # Cancel safety
    /// Dropping the future rolls back, unless the body has ended: then the commit is on its way and not called back.
    ///
    /// Statements stand in the example of [`Tx`]; here they are the application's own `debit`.
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
        T: Serialize + DeserializeOwned + Send + 'a,
        E: Into<BoxError> + Send + 'a,
    {
        let call = self.call_named(name.as_ref(), Location::caller());
        let id = call.as_ref().ok().copied();
        let cell = &self.cell;
        // The body is called when its transaction is open, by a future that cannot borrow it.
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

/// One attempt, but for its commit: that is the drive's.
async fn in_transaction<T, E, F>(cell: &RunCell, id: Option<CallId>, body: impl FnOnce(Tx) -> F) -> Result<T>
where
    F: Future<Output = Result<T, E>>,
    E: Into<BoxError>,
{
    let transaction = cell.port().begin_transaction().await?;
    // A call that was refused has no body.
    let Some(id) = id else { return Err(Error::fatal("the step was refused")) };
    cell.transaction_opened(id);
    let (tx, loan) = Tx::lend(transaction);
    let result = body(tx).await.map_err(|error| Error::from_boxed(error.into()));
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

/// A transaction that was called: set its options, then await it.
#[must_use = "a transaction does nothing until it is awaited"]
pub struct Transaction<'a, T> {
    step: Step<'a, T>,
}

impl<T> Transaction<'_, T> {
    /// Default of [`Transaction::timeout`]: 5 s.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

    /// Longest [`Transaction::timeout`]: 10 s. All writers of a SQLite database wait as long, the renewal of leases too, which
    /// must come through three times in a default lease.
    pub const MAX_TIMEOUT: Duration = Duration::from_secs(10);

    /// What follows a failed attempt. Default: [`Retry::STEP_DEFAULT`].
    pub fn retry(self, retry: Retry) -> Self {
        Self { step: self.step.retry(retry) }
    }

    /// How long the body of one attempt may take, from the moment at which its transaction is open; after it the body is
    /// dropped, its transaction rolled back, and the attempt failed with an error of kind
    /// [`Timeout`](crate::ErrorKind::Timeout), which is retried. Default: 5 s. Range: up to 10 s; more is taken as that.
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { step: self.step.timeout(timeout.min(Self::MAX_TIMEOUT)) }
    }
}

impl<'a, T: Serialize + DeserializeOwned + Send + 'a> Future for Transaction<'a, T> {
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
