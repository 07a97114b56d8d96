use std::panic::Location;

use serde::Serialize;

use crate::Result;
use workflow_engine::model::{ErrorKind, NameSubject, StoredError, check_name};
use workflow_engine::runtime::encode;

use super::Ctx;

impl<S> Ctx<S> {
    /// Publishes a value under a name, for [`RunHandle::state`](crate::RunHandle::state) to read.
    /// Only the last value counts. It is written with a commit that the run makes anyway, and the
    /// workflow does not wait for it. A replay does not publish again.
    ///
    /// It may also be called inside the body of a step, to show progress. The value that an
    /// interrupted attempt published stays until the next attempt publishes. Range of the name: 1
    /// to 255 bytes without control characters.
    ///
    /// # Errors
    /// An error of kind [`Refused`](crate::ErrorKind::Refused) for an invalid name, or for a value
    /// that cannot be encoded as JSON or exceeds the payload limit. Nothing is published then, and
    /// the run can continue.
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    ///
    /// #[workflow]
    /// async fn import(ctx: &Ctx, files: Vec<String>) -> Result<usize> {
    ///     for (done, file) in files.iter().enumerate() {
    ///         ctx.publish("progress", &done)?;
    ///         ctx.step("import", async || ok(file.len())).await?;
    ///     }
    ///     Ok(files.len())
    /// }
    /// ```
    pub fn publish<T: Serialize + ?Sized>(&self, name: impl AsRef<str>, value: &T) -> Result<()> {
        let name = name.as_ref();
        check(NameSubject::Published, name)?;
        let value = self.text("published value", name, value);
        Ok(self.cell.publish(name, value)?)
    }

    /// Appends an item to a stream of the run, which
    /// [`RunHandle::stream`](crate::RunHandle::stream) follows. The item is written with a commit
    /// that the run makes anyway, and the workflow does not wait for it. The stream contains each
    /// item once and in order, even if processes are killed: a replay does not emit again.
    ///
    /// Items stay until the run is deleted, even if it [continues as new](Ctx::continue_as_new).
    /// Each item counts as a step towards the limit of the history. Range of the name: 1 to 255
    /// bytes without control characters.
    ///
    /// # Errors
    /// An error of kind [`Refused`](crate::ErrorKind::Refused) for an invalid name, for an item
    /// that cannot be encoded as JSON or exceeds the payload limit, or for a call inside the body
    /// of a step. Nothing is emitted then, and the run can continue.
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    ///
    /// #[workflow]
    /// async fn import(ctx: &Ctx, files: Vec<String>) -> Result<usize> {
    ///     for file in &files {
    ///         let bytes = ctx.step("import", async || ok(file.len())).await?;
    ///         ctx.emit("log", &format!("{file}: {bytes} bytes"))?;
    ///     }
    ///     Ok(files.len())
    /// }
    /// ```
    #[track_caller]
    pub fn emit<T: Serialize + ?Sized>(&self, name: impl AsRef<str>, item: &T) -> Result<()> {
        let (name, location) = (name.as_ref(), Location::caller());
        check(NameSubject::Stream, name)?;
        let item = self.text("item of stream", name, item);
        let what = || format!("ctx.emit({name:?}) was called at {location}");
        Ok(self.cell.ask(what, |machine, now| machine.emit(name, item, now))?)
    }

    fn text<T: Serialize + ?Sized>(&self, what: &str, name: &str, value: &T) -> Result<String, StoredError> {
        let subject = format!("{what} {name:?} of run {}", self.run_id());
        encode(&subject, value, self.cell.payload_limit())
            .map_err(|error| StoredError::new(ErrorKind::Refused, error.to_string()).fatal())
    }
}

fn check(subject: NameSubject, name: &str) -> Result<(), StoredError> {
    check_name(subject, name).map_err(|error| StoredError::new(ErrorKind::Refused, error.to_string()).fatal())
}
