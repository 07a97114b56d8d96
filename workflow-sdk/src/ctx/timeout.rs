use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::BoxError;
use crate::{Error, Result};
use workflow_engine::model::{ErrorKind, StoredError};
use workflow_engine::replay::Wait;

use super::branches::BoxFuture;
use super::{Ctx, Sleep};

/// The name of every timeout in the history: `timeout`, `timeout:1`, ...
const NAME: &str = "timeout";

/// A future with a time limit: await it. Made by [`Ctx::timeout`].
#[must_use = "a timeout does nothing until it is awaited"]
pub struct Timeout<'a, T> {
    /// `None` once the timeout has ended.
    future: Option<BoxFuture<'a, Result<T>>>,
    sleep: Sleep<'a>,
    duration: Duration,
}

/// No field is pinned in place, because the future is boxed.
impl<T> Unpin for Timeout<'_, T> {}

impl<S> Ctx<S> {
    /// Limits the time of this future, counted from the first poll. The end of the time is
    /// recorded, like the end of [`Ctx::sleep`], so a parked run or a dead process does not extend
    /// it.
    ///
    /// Use it for several calls, or for one call with all of its retries.
    /// [`Step::timeout`](crate::Step::timeout) limits one attempt of one step, which is then
    /// retried.
    ///
    /// If the future is ready when the time has passed, the future wins. In the history, the
    /// timeout is a sleep with the name `timeout`. If the run is told to end, the calls of the
    /// future end as they do without a timeout, and a [shielded](Ctx::shield) part goes on.
    ///
    /// # Errors
    /// Awaiting it returns the error of the future. If the time has passed, the future is dropped
    /// and the error has kind [`Timeout`](ErrorKind::Timeout). The effect of a dropped body may
    /// have taken place.
    ///
    /// # Cancel safety
    /// Dropping the timeout drops the future and ends the wait.
    ///
    /// ```
    /// use std::time::Duration;
    /// use workflow_sdk::prelude::*;
    ///
    /// #[workflow]
    /// async fn quote(ctx: &Ctx) -> Result<u32> {
    ///     let asked = ctx.step("ask", async || ok(42));
    ///     match ctx.timeout(Duration::from_secs(600), asked).await {
    ///         Err(error) if error.kind() == ErrorKind::Timeout => Ok(0),
    ///         answer => answer,
    ///     }
    /// }
    /// ```
    #[track_caller]
    pub fn timeout<'a, T, E>(
        &'a self,
        duration: Duration,
        future: impl Future<Output = Result<T, E>> + Send + 'a,
    ) -> Timeout<'a, T>
    where
        E: Into<BoxError>,
    {
        let call = self.call_own(NAME, Location::caller());
        let future = async move { future.await.map_err(|error| Error::from_boxed(error.into())) };
        Timeout { future: Some(Box::pin(future)), sleep: Sleep::new(&self.cell, call, Wait::For(duration)), duration }
    }
}

impl<T> Timeout<'_, T> {
    fn time_is_up(&self) -> StoredError {
        let message = format!(
            "the future of ctx.timeout had not ended after {:?}; give it more time, or handle this error",
            self.duration
        );
        let error = StoredError::new(ErrorKind::Timeout, message);
        match self.sleep.key() {
            Some(key) => error.of_step(&key),
            None => error,
        }
    }
}

impl<T> Future for Timeout<'_, T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let timeout = &mut *self;
        let Some(future) = &mut timeout.future else { return Poll::Pending };
        // If the sleep was refused, the future must not continue without its limit.
        let result = match timeout.sleep.refusal() {
            Some(refusal) => Err(refusal.into()),
            None => match future.as_mut().poll(cx) {
                Poll::Ready(result) => result,
                // The calls of the future take an interruption themselves, if not shielded.
                Poll::Pending => match timeout.sleep.poll_shielded(cx) {
                    Poll::Ready(slept) => Err(slept.err().unwrap_or_else(|| timeout.time_is_up().into())),
                    Poll::Pending => return Poll::Pending,
                },
            },
        };
        // The future and the sleep end now, because a caller may keep this value.
        timeout.future = None;
        timeout.sleep.cancel();
        Poll::Ready(result)
    }
}

impl<T> fmt::Debug for Timeout<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timeout").field("duration", &self.duration).field("sleep", &self.sleep).finish_non_exhaustive()
    }
}
