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

/// The name of every such timeout in the history: `timeout`, `timeout:1`, ...
const NAME: &str = "timeout";

/// A future that has so much time: await it. See [`Ctx::timeout`].
#[must_use = "a timeout does nothing until it is awaited"]
pub struct Timeout<'a, T> {
    /// `None` once it is over.
    future: Option<BoxFuture<'a, Result<T>>>,
    sleep: Sleep<'a>,
    duration: Duration,
}

/// Nothing in it is pinned in place: its future is boxed.
impl<T> Unpin for Timeout<'_, T> {}

impl<S> Ctx<S> {
    /// Gives the future so much time, counted from the first poll. The end of that time is recorded, as that of
    /// [`Ctx::sleep`]: a run that is parked or whose process dies has no more time for it.
    ///
    /// For several calls, or for one with all of its retries. [`Step::timeout`](crate::Step::timeout) limits one attempt of
    /// one step, and is retried.
    ///
    /// Where both are ready, the future wins. In the history it is a sleep by the name `timeout`.
    ///
    /// # Errors
    /// Awaiting it gives the error of the future, or, when the time has come, one of kind [`Timeout`](ErrorKind::Timeout); the
    /// future is dropped then. The effect of a body that was dropped may have taken place.
    ///
    /// # Cancel safety
    /// Dropping it drops the future and ends the wait.
    ///
    /// ```
    /// use std::time::Duration;
    /// use workflow_sdk::prelude::*;
    ///
    /// #[workflow]
    /// async fn quote(ctx: &Ctx) -> Result<u32> {
    ///     let asked = ctx.step("ask", async || Ok::<_, Error>(42));
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
            "what ctx.timeout was given had not ended after {:?}; give it more time, or handle this error",
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
        // One that was refused must not let the future go on without its limit.
        let result = match timeout.sleep.refusal() {
            Some(refusal) => Err(refusal.into()),
            None => match future.as_mut().poll(cx) {
                Poll::Ready(result) => result,
                Poll::Pending => match Pin::new(&mut timeout.sleep).poll(cx) {
                    Poll::Ready(slept) => Err(slept.err().unwrap_or_else(|| timeout.time_is_up().into())),
                    Poll::Pending => return Poll::Pending,
                },
            },
        };
        // Both end here and not with this value, which a caller may keep.
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
