use serde::Serialize;

use crate::{Error, Result};
use workflow_engine::model::{ErrorKind, StoredError};
use workflow_engine::runtime::encode;

use super::Ctx;

impl<S> Ctx<S> {
    /// Ends this generation of the run and begins the next one with this input and an empty
    /// history. Use it for runs without an end, whose history would grow for ever. Return the
    /// returned value as it is: `return ctx.continue_as_new(input);`.
    ///
    /// The run keeps its id, key, tags, deadline, handles and waiters, the signals that it has not
    /// received yet, and its published values and streams. It gets a new [`Ctx::generation`], and
    /// with it new values of [`Ctx::idempotency_key`], [`Ctx::random`] and [`Ctx::uuid`], because
    /// other systems must not take the next generation for a repetition of this one. Steps that
    /// this generation left running are dropped. A start with the run's key returns this run,
    /// whatever the input, because the first input is not kept.
    ///
    /// The input must have the input type of this workflow. It is stored when the function has
    /// returned.
    ///
    /// # Errors
    /// Always returns an error: the value that makes the run continue as new. If the code does not
    /// return that value (but maps it to another error, or ignores it), the run does not continue
    /// as new. The error has kind [`Refused`](crate::ErrorKind::Refused) if the input cannot be
    /// encoded as JSON, if it exceeds the payload limit, or if the call is inside the body of a
    /// step. A run that returns the value while compensations are armed fails with kind `Refused`,
    /// and is undone: the next generation does not know them, so
    /// [disarm](crate::Compensation::disarm) each one before. If the input does not decode as the
    /// workflow's input type, the run fails with kind `Refused`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use workflow_sdk::prelude::*;
    ///
    /// #[workflow]
    /// async fn poll(ctx: &Ctx, seen: u64) -> Result<()> {
    ///     let mut seen = seen;
    ///     for _ in 0..1000 {
    ///         seen = ctx.step("look", async || ok(seen + 1)).await?;
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

    /// Returns the size, in bytes of JSON text, that an input for
    /// [`continue_as_new`](Ctx::continue_as_new) and each other payload may have.
    ///
    /// It is a [setting](crate::Connect::payload_limit) of the worker. So decide by it inside the
    /// body of a step, because a replay by another worker may find another limit.
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    ///
    /// #[workflow]
    /// async fn collect(ctx: &Ctx, seen: Vec<String>) -> Result<()> {
    ///     let bytes: usize = seen.iter().map(|text| text.len() + 3).sum();
    ///     if ctx.step("is small", async || ok(bytes + 2 <= ctx.payload_limit())).await? {
    ///         return ctx.continue_as_new(seen);
    ///     }
    ///     ok(())
    /// }
    /// ```
    #[must_use]
    pub fn payload_limit(&self) -> usize {
        self.cell.payload_limit()
    }

    /// Returns how often this run has [continued as new](Ctx::continue_as_new): 0 if it never has.
    #[must_use]
    pub fn generation(&self) -> u64 {
        u64::try_from(self.cell.generation()).unwrap_or(0)
    }
}
