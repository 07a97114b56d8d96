use std::panic::Location;

use crate::Result;
use workflow_engine::model::{ErrorKind, NameSubject, StoredError, check_name};

use super::Ctx;

impl<S> Ctx<S> {
    /// Returns whether this run takes a change of the code: `true` for a run that reaches this
    /// place for the first time, `false` for a run that passed it before the change was made. A run
    /// gets one answer, and every replay repeats it.
    ///
    /// Keep the old code path until every run that was started before the change has ended. Then
    /// call [`Ctx::deprecate_patch`] instead. Once the runs that were unfinished at that time have
    /// ended too, remove the call.
    ///
    /// Calls after a `true` begin only after the answer is committed: the first time, it costs one
    /// commit.
    ///
    /// Range of the name: 1 to 255 bytes without control characters. A name stands for one change
    /// at one place. Another call from that place (in a loop, say) returns the answer of the first.
    ///
    /// # Errors
    /// An error of kind [`Refused`](crate::ErrorKind::Refused) for an invalid name, a name that
    /// another place uses too, or a call inside the body of a step.
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    ///
    /// #[workflow]
    /// async fn checkout(ctx: &Ctx, order: String) -> Result<String> {
    ///     if ctx.patched("fraud-check")? {
    ///         ctx.step("check-fraud", async || ok(())).await?;
    ///     }
    ///     ctx.step("charge", async || ok(order.clone())).await
    /// }
    /// ```
    #[track_caller]
    pub fn patched(&self, name: impl AsRef<str>) -> Result<bool> {
        let (name, location) = (name.as_ref(), Location::caller());
        check_patch(name)?;
        let what = || format!("ctx.patched({name:?}) was called at {location}");
        Ok(self.cell.ask(what, |machine, now| machine.patched(name, location, now))?)
    }

    /// Declares that the code has only the new path of a change that [`Ctx::patched`] introduced. A
    /// run that passed this place before the change does not fit such code. It diverges, with this
    /// place in its error, and waits for code that fits.
    ///
    /// # Errors
    /// See [`Ctx::patched`].
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    ///
    /// #[workflow]
    /// async fn checkout(ctx: &Ctx, order: String) -> Result<String> {
    ///     ctx.deprecate_patch("fraud-check")?;
    ///     ctx.step("check-fraud", async || ok(())).await?;
    ///     ctx.step("charge", async || ok(order.clone())).await
    /// }
    /// ```
    #[track_caller]
    pub fn deprecate_patch(&self, name: impl AsRef<str>) -> Result<()> {
        let (name, location) = (name.as_ref(), Location::caller());
        check_patch(name)?;
        let what = || format!("ctx.deprecate_patch({name:?}) was called at {location}");
        Ok(self.cell.ask(what, |machine, now| machine.deprecate_patch(name, location, now))?)
    }
}

fn check_patch(name: &str) -> Result<(), StoredError> {
    check_name(NameSubject::Patch, name)
        .map_err(|error| StoredError::new(ErrorKind::Refused, error.to_string()).fatal())
}
