use std::panic::Location;

use serde::Serialize;

use crate::Result;
use workflow_engine::model::{ErrorKind, NameSubject, StoredError, check_name};
use workflow_engine::runtime::encode;

use super::Ctx;

impl<S> Ctx<S> {
    /// Publishes a value under a name, for [`RunHandle::state`](crate::RunHandle::state) to read: the last one counts. It goes
    /// into a commit that comes anyway, and the workflow does not wait for it. A replay does not publish again.
    ///
    /// May be called inside the body of a step too, to show how far it has come; what an attempt that is cut off published
    /// stays until the next one publishes. The name is 1 to 255 bytes without control characters.
    ///
    /// # Errors
    /// Kind [`Refused`](crate::ErrorKind::Refused): for an invalid name, a value that is no JSON or larger than the limit of a
    /// payload. Nothing is published then, and the run can go on.
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    ///
    /// #[workflow]
    /// async fn import(ctx: &Ctx, files: Vec<String>) -> Result<usize> {
    ///     for (done, file) in files.iter().enumerate() {
    ///         ctx.publish("progress", &done)?;
    ///         ctx.step("import", async || Ok::<_, Error>(file.len())).await?;
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

    /// Appends an item to a stream of the run, which [`RunHandle::stream`](crate::RunHandle::stream) follows. It goes into a
    /// commit that comes anyway, and the workflow does not wait for it. Each item is there once and in order, whatever is
    /// killed: a replay does not emit again.
    ///
    /// Items stay until the run is deleted, also when it [continues as new](Ctx::continue_as_new). Each counts as a step
    /// towards the limit of the history. The name is 1 to 255 bytes without control characters.
    ///
    /// # Errors
    /// Kind [`Refused`](crate::ErrorKind::Refused): for an invalid name, an item that is no JSON or larger than the limit of a
    /// payload, a call inside the body of a step. Nothing is emitted then, and the run can go on.
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    ///
    /// #[workflow]
    /// async fn import(ctx: &Ctx, files: Vec<String>) -> Result<usize> {
    ///     for file in &files {
    ///         let bytes = ctx.step("import", async || Ok::<_, Error>(file.len())).await?;
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
