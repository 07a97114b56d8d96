use serde::Serialize;

use crate::{Error, Result};
use workflow_engine::model::{ErrorKind, StoredError};
use workflow_engine::runtime::encode;

use super::Ctx;

impl<S> Ctx<S> {
    /// Ends this generation of the run and begins the next one with this input and an empty history: for runs without an end,
    /// whose history would grow for ever. Return what it gives, as it is: `return ctx.continue_as_new(input);`.
    ///
    /// It stays the same run: its id, key, tags, deadline, handle and waiters, the signals that nobody has received yet,
    /// published values and streams. What changes is [`Ctx::generation`], and with it [`Ctx::idempotency_key`],
    /// [`Ctx::random`] and [`Ctx::uuid`]: outside systems must not take the next generation for a repetition of this one.
    /// Steps that this generation left running are dropped. A start with the run's key gives this run, whatever the input: the
    /// first one is not kept.
    ///
    /// The input must be one of this workflow; it is stored when the function has returned.
    ///
    /// # Errors
    /// Always: the value that says so. Code that does not return it (that maps it to another error, or looks at it and goes
    /// on) does not continue as new. In its place an error of kind [`Refused`](crate::ErrorKind::Refused), for an input that
    /// is no JSON or larger than the limit of a payload, or for a call inside the body of a step. An input that is none of this
    /// workflow fails the run, with that kind.
    ///
    /// ```
    /// use std::time::Duration;
    /// use workflow_sdk::prelude::*;
    ///
    /// #[workflow]
    /// async fn poll(ctx: &Ctx, seen: u64) -> Result<()> {
    ///     let mut seen = seen;
    ///     for _ in 0..1000 {
    ///         seen = ctx.step("look", async || Ok::<_, Error>(seen + 1)).await?;
    ///         ctx.sleep(Duration::from_secs(60)).await?;
    ///     }
    ///     ctx.continue_as_new(seen)
    /// }
    /// ```
    #[track_caller]
    pub fn continue_as_new<T>(&self, input: impl Serialize) -> Result<T> {
        let location = std::panic::Location::caller();
        let what = || format!("ctx.continue_as_new was called at {location}");
        self.cell.ask(what, |_, _| Ok(()))?;
        let subject = format!("next input of run {}", self.run_id());
        let input = encode(&subject, &input, self.cell.payload_limit())
            .map_err(|error| StoredError::new(ErrorKind::Refused, error.to_string()).fatal())?;
        Err(Error::continue_with(input))
    }

    /// How often this run has [continued as new](Ctx::continue_as_new): 0 for a run that never did.
    #[must_use]
    pub fn generation(&self) -> u64 {
        u64::try_from(self.cell.generation()).unwrap_or(0)
    }
}
