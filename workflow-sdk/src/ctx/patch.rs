use std::panic::Location;

use crate::Result;
use workflow_engine::model::{ErrorKind, NameSubject, StoredError, check_name};

use super::Ctx;

impl<S> Ctx<S> {
    /// Whether this run takes a change of the code: `true` for every run that comes to this place for the first time, `false`
    /// for a run that passed it before the change was there. A run never changes its answer, whenever it is replayed.
    ///
    /// Keep the old way until every run that was started before the change has ended; then call
    /// [`Ctx::deprecate_patch`] instead; once the runs that were under way then have ended too, nothing at all.
    ///
    /// What follows a `true` begins after it is committed: the first time it costs one commit.
    ///
    /// The name is 1 to 255 bytes without control characters. A name is one change at one place: called again from there (in
    /// a loop, say) it gives the same answer.
    ///
    /// # Errors
    /// Kind [`Refused`](crate::ErrorKind::Refused): for an invalid name, a name that another place uses too, a call inside the
    /// body of a step.
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    ///
    /// #[workflow]
    /// async fn checkout(ctx: &Ctx, order: String) -> Result<String> {
    ///     if ctx.patched("fraud-check")? {
    ///         ctx.step("check-fraud", async || Ok::<_, Error>(())).await?;
    ///     }
    ///     ctx.step("charge", async || Ok::<_, Error>(order.clone())).await
    /// }
    /// ```
    #[track_caller]
    pub fn patched(&self, name: impl AsRef<str>) -> Result<bool> {
        let (name, location) = (name.as_ref(), Location::caller());
        check_patch(name)?;
        let what = || format!("ctx.patched({name:?}) was called at {location}");
        Ok(self.cell.ask(what, |machine, now| machine.patched(name, location, now))?)
    }

    /// For code that has only the new way of a change that [`Ctx::patched`] brought in: a run that passed this place before
    /// the change does not fit such code. It diverges, with this place in its error, and waits for code that does.
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
    ///     ctx.step("check-fraud", async || Ok::<_, Error>(())).await?;
    ///     ctx.step("charge", async || Ok::<_, Error>(order.clone())).await
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
