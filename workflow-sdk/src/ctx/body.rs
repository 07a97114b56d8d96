use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{BoxError, Error};

/// A value that the body of a step may return: it can be stored, read back and sent to another
/// thread. Implemented for every such type.
///
/// The stored value is what the workflow gets, on the first run and on every replay.
#[diagnostic::on_unimplemented(
    message = "a step cannot return `{Self}`, because its value cannot be stored and read back",
    label = "the value of this step is `{Self}`",
    note = "derive `serde::Serialize` and `serde::Deserialize`; the type must own its data and be `Send`",
    note = "a step whose value is not needed returns `()`"
)]
pub trait StepValue: Serialize + DeserializeOwned + Send {}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned + Send> StepValue for T {}

/// An error that the body of a step may return: [`Error`], a `String`, or any error that can be
/// sent to another thread. Implemented for every such type.
#[diagnostic::on_unimplemented(
    message = "a step cannot fail with `{Self}`",
    label = "the error of this step is `{Self}`",
    note = "an error of a step implements `std::error::Error + Send + Sync + 'static`, or is a `String`, a `&'static str` or `workflow_sdk::Error`",
    note = "for any other error write `.map_err(|error| Error::msg(error))` in the body"
)]
pub trait BodyError {
    /// Returns the error as an error of workflow code.
    fn into_error(self) -> Error;
}

#[diagnostic::do_not_recommend]
impl<E: Into<BoxError>> BodyError for E {
    fn into_error(self) -> Error {
        Error::from_boxed(self.into())
    }
}
