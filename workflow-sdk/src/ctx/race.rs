use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::Result;
use workflow_engine::model::{ErrorKind, StoredError};

use super::Ctx;
use super::branches::Branches;

/// The result of [`Ctx::select`]: the output of the future that ended first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Either<A, B> {
    /// The output of the first future.
    Left(A),
    /// The output of the second future.
    Right(B),
}

/// Two futures of which the first to end wins: await it. Made by [`Ctx::select`].
#[must_use = "a select does nothing until it is awaited"]
pub struct Select<A, B> {
    /// Both are `None` once one has won.
    a: Option<Pin<Box<A>>>,
    b: Option<Pin<Box<B>>>,
}

/// Many futures of which the first to end wins: await it. Made by [`Ctx::race`].
#[must_use = "a race does nothing until it is awaited"]
pub struct Race<'a, T> {
    running: Branches<'a, T>,
    is_over: bool,
    is_empty: bool,
}

/// No field is pinned in place, because the futures are boxed.
impl<T> Unpin for Race<'_, T> {}

impl<S> Ctx<S> {
    /// Polls both futures, `a` first, and returns the output of the one that ends first. If both
    /// are ready, it returns the output of `a`. The other future is dropped.
    ///
    /// A replay has the same winner, and does not run the body of the loser's step again. The loser
    /// may have had its effect nevertheless.
    ///
    /// # Cancel safety
    /// Dropping the select drops both futures.
    ///
    /// ```
    /// use std::time::Duration;
    /// use workflow_sdk::Either;
    /// use workflow_sdk::prelude::*;
    ///
    /// #[workflow]
    /// async fn ask(ctx: &Ctx) -> Result<String> {
    ///     let answer = ctx.step("ask", async || ok("yes".to_owned()));
    ///     match ctx.select(answer, ctx.sleep(Duration::from_secs(60))).await {
    ///         Either::Left(answer) => answer,
    ///         Either::Right(slept) => slept.map(|()| "no answer".to_owned()),
    ///     }
    /// }
    /// ```
    pub fn select<A: Future, B: Future>(&self, a: A, b: B) -> Select<A, B> {
        Select { a: Some(Box::pin(a)), b: Some(Box::pin(b)) }
    }

    /// Polls these futures in their order, and returns the number (from 0) and the output of the
    /// one that ends first. The others are dropped. See [`Ctx::select`].
    ///
    /// A race of thousands of futures is fine: after its first poll, each is polled only when it
    /// was woken.
    ///
    /// # Errors
    /// Awaiting it returns an error of kind [`Refused`](ErrorKind::Refused) if there are no
    /// futures, because nothing could ever end the race. The error of a future is an output like
    /// any other.
    ///
    /// # Cancel safety
    /// Dropping the race drops all futures.
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    ///
    /// #[workflow]
    /// async fn nearest(ctx: &Ctx, mirrors: Vec<String>) -> Result<String> {
    ///     let pings = mirrors.iter().map(|mirror| {
    ///         ctx.step("ping", async || ok(mirror.len()))
    ///     });
    ///     let (number, answer) = ctx.race(pings).await?;
    ///     answer?;
    ///     Ok(mirrors[number].clone())
    /// }
    /// ```
    pub fn race<'a, F>(&self, futures: impl IntoIterator<Item = F>) -> Race<'a, F::Output>
    where
        F: Future + Send + 'a,
    {
        let mut running = Branches::new();
        for (number, future) in futures.into_iter().enumerate() {
            running.insert(number, Box::pin(future));
        }
        Race { is_empty: running.len() == 0, is_over: false, running }
    }
}

impl<A: Future, B: Future> Future for Select<A, B> {
    type Output = Either<A::Output, B::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let select = &mut *self;
        let (Some(a), Some(b)) = (&mut select.a, &mut select.b) else { return Poll::Pending };
        let won = match a.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Either::Left(output)),
            Poll::Pending => b.as_mut().poll(cx).map(Either::Right),
        };
        if won.is_ready() {
            // Dropped now and not with the select, because a caller may keep the select.
            (select.a, select.b) = (None, None);
        }
        won
    }
}

impl<T> Future for Race<'_, T> {
    type Output = Result<(usize, T)>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.is_over {
            return Poll::Pending;
        }
        if self.is_empty {
            self.is_over = true;
            let message = "a race of no futures would never end; give ctx.race at least one, or do not call it";
            return Poll::Ready(Err(StoredError::new(ErrorKind::Refused, message).fatal().into()));
        }
        self.running.poll_next(cx).map(|won| {
            self.is_over = true;
            self.running.clear();
            Ok(won)
        })
    }
}

impl<A, B> fmt::Debug for Select<A, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Select").field("is_over", &self.a.is_none()).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Race<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Race").field("running", &self.running).finish_non_exhaustive()
    }
}
