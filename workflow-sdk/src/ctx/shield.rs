use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::{Ctx, RunCell};

/// A part of a workflow that neither a cancel nor the run's deadline interrupts: await it. Made by
/// [`Ctx::shield`].
#[must_use = "a shielded part does nothing until it is awaited"]
pub struct Shield<'a, F> {
    cell: &'a Arc<RunCell>,
    future: Pin<Box<F>>,
}

impl<'a, F> Shield<'a, F> {
    pub(super) fn new(cell: &'a Arc<RunCell>, future: F) -> Self {
        Self { cell, future: Box::pin(future) }
    }
}

impl<S> Ctx<S> {
    /// Lets this part of the workflow finish even if the run is canceled, or passes its deadline,
    /// in the middle of it.
    ///
    /// Calls that are first polled inside the part are shielded. Calls that are made inside but
    /// awaited outside are not. After the part, the first call that is not shielded fails with kind
    /// [`Canceled`](crate::ErrorKind::Canceled) (or [`Deadline`](crate::ErrorKind::Deadline)), as
    /// the pending call would have. The grace period continues meanwhile: when it is over, the run
    /// ends, shielded or not.
    ///
    /// # Errors
    /// The errors of the part itself.
    ///
    /// # Cancel safety
    /// Dropping the shield drops the part.
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    ///
    /// #[workflow]
    /// async fn transfer(ctx: &Ctx, cents: u64) -> Result<()> {
    ///     let both = async {
    ///         ctx.step("withdraw", async || ok(())).await?;
    ///         ctx.step("deposit", async || ok(())).await
    ///     };
    ///     ctx.shield(both).await
    /// }
    /// ```
    pub fn shield<F: Future>(&self, future: F) -> Shield<'_, F> {
        Shield::new(&self.cell, future)
    }

    /// Returns whether the run was told to end, by a cancel or by its deadline, and the workflow
    /// has received that. The answer is identical on every replay.
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    ///
    /// #[workflow]
    /// async fn index(ctx: &Ctx, pages: u32) -> Result<u32> {
    ///     for page in 0..pages {
    ///         let indexed = ctx.shield(ctx.step("page", async || ok(()))).await;
    ///         // A canceled run returns the number of pages that are done.
    ///         if indexed.is_err() || ctx.is_canceled() {
    ///             return Ok(page);
    ///         }
    ///     }
    ///     Ok(pages)
    /// }
    /// ```
    #[must_use]
    pub fn is_canceled(&self) -> bool {
        self.cell.interrupted().is_some_and(|interrupted| interrupted.delivered)
    }
}

impl<F: Future> Future for Shield<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let _shielding = Shielding::begin(self.cell);
        self.future.as_mut().poll(cx)
    }
}

/// While this value exists, calls that are first polled are shielded. It is dropped at the end of
/// the poll, even if the poll panics.
pub(super) struct Shielding<'a> {
    cell: &'a RunCell,
    outer: bool,
}

impl<'a> Shielding<'a> {
    pub(super) fn begin(cell: &'a RunCell) -> Self {
        Self { cell, outer: cell.with_machine(|machine| machine.shield(true)) }
    }
}

impl Drop for Shielding<'_> {
    fn drop(&mut self) {
        self.cell.with_machine(|machine| machine.shield(self.outer));
    }
}

impl<F> fmt::Debug for Shield<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shield").finish_non_exhaustive()
    }
}
