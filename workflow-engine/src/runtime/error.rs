//! The error type of workflow code.

use std::fmt;
use std::time::Duration;

use crate::model::{ErrorKind, StoredError};
use crate::runtime::{StepError, keep_typed};

/// Any boxed error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync + 'static>;

/// The result type of workflow code.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Returns `Ok(value)` with the error type [`Error`], for a body that cannot fail.
///
/// `ok(value)` is short for `Ok::<_, Error>(value)`: nothing in such a body tells the compiler the
/// error type.
///
/// ```
/// use workflow_sdk::prelude::*;
///
/// #[workflow]
/// async fn greet(ctx: &Ctx, name: String) -> Result<String> {
///     ctx.step("greet", async || ok(format!("hello, {name}"))).await
/// }
/// ```
///
/// # Errors
/// None.
pub fn ok<T>(value: T) -> Result<T> {
    Ok(value)
}

/// An error in workflow code.
///
/// Any error converts into it by `?`. An error that a step returns has its stored form: its
/// [kind](Error::kind), its [message](Error::message) and the texts of its causes. It has this form
/// on the first run too, so code that examines it takes the same path on every replay.
///
/// ```
/// use workflow_sdk::{Error, ErrorKind};
///
/// fn parse(text: &str) -> Result<u32, Error> {
///     Ok(text.parse::<u32>()?)
/// }
///
/// let error = parse("x").unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Application);
/// assert_eq!(error.message(), "invalid digit found in string");
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    stored: StoredError,
    source: Option<BoxError>,
    /// The next input of a run that continues as new. The value then carries it and is not a
    /// failure.
    next_input: Option<String>,
}

impl Error {
    /// Creates an error with this text. A step that returns it is retried.
    pub fn msg(message: impl fmt::Display) -> Self {
        StoredError::new(ErrorKind::Application, message.to_string()).into()
    }

    /// Creates an error after which a step is not attempted again. Overrides every earlier
    /// [`Error::retry_after`].
    ///
    /// ```
    /// use workflow_sdk::Error;
    ///
    /// assert!(Error::fatal("the card was stolen").is_fatal());
    /// ```
    pub fn fatal(error: impl Into<BoxError>) -> Self {
        let mut error = Self::from_boxed(error.into());
        error.0.stored = StoredError { retry_after_us: None, ..error.0.stored }.fatal();
        error
    }

    /// Creates an error after which a step is attempted again after exactly `delay`, overriding the
    /// delays of its retry policy. The policy's number of attempts still holds. Overrides an
    /// earlier [`Error::fatal`].
    pub fn retry_after(delay: Duration, error: impl Into<BoxError>) -> Self {
        let mut error = Self::from_boxed(error.into());
        error.0.stored = StoredError { fatal: false, ..error.0.stored }.after(delay);
        error
    }

    /// Returns the cause of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.stored.kind
    }

    /// Returns the error's own text, without its causes.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.stored.message
    }

    /// Returns the texts of the error's causes, nearest first.
    #[must_use]
    pub fn causes(&self) -> &[String] {
        &self.0.stored.causes
    }

    /// Returns the key of the step that failed with this error.
    #[must_use]
    pub fn step_key(&self) -> Option<&str> {
        self.0.stored.step_key.as_deref()
    }

    /// Returns whether the error ended, or would end, the retries of a step.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        self.0.stored.fatal
    }

    /// Returns the error as the author's own value. Returns `None` if the error has another type,
    /// if its value was not stored (see [`StepError`]), or if the stored value does not decode as
    /// `T`.
    ///
    /// The value is decoded from its stored form, so the first run and every replay get equal
    /// values.
    ///
    /// ```
    /// use serde::{Deserialize, Serialize};
    /// use workflow_sdk::{Error, StepError};
    ///
    /// #[derive(Debug, PartialEq, thiserror::Error, Serialize, Deserialize, StepError)]
    /// enum CardError {
    ///     #[error("the card has {missing} cents too little")]
    ///     Declined { missing: u64 },
    /// }
    ///
    /// let error = Error::from(CardError::Declined { missing: 5 });
    /// assert_eq!(error.downcast::<CardError>(), Some(CardError::Declined { missing: 5 }));
    /// assert_eq!(Error::msg("no card").downcast::<CardError>(), None);
    /// ```
    #[must_use]
    pub fn downcast<T: StepError>(&self) -> Option<T> {
        self.0.stored.downcast()
    }

    /// Converts any error that a body may return, including a boxed error of this type.
    pub fn from_boxed(error: BoxError) -> Self {
        match error.downcast::<Carrier>() {
            Ok(carrier) => carrier.0,
            Err(error) => Self(Box::new(Inner {
                stored: keep_typed(error.as_ref(), StoredError::from_error(ErrorKind::Application, error.as_ref())),
                source: Some(error),
                next_input: None,
            })),
        }
    }

    /// Creates the value that `Ctx::continue_as_new` returns. If it is used as an error, its text
    /// says that it was not returned from the workflow.
    pub fn continue_with(next_input: String) -> Self {
        let message = "ctx.continue_as_new gave this, and it was not returned from the workflow as it is";
        let mut error = Self::from(StoredError::new(ErrorKind::Refused, message).fatal());
        error.0.next_input = Some(next_input);
        error
    }

    /// Returns the next input of a run that continues as new.
    pub fn next_input(&self) -> Option<&str> {
        self.0.next_input.as_deref()
    }

    /// Returns the next input of a run that continues as new, or else the error in its stored form.
    pub fn into_end(self) -> std::result::Result<String, StoredError> {
        match self.0.next_input {
            Some(input) => Ok(input),
            None => Err(self.0.stored),
        }
    }

    /// Returns the error in the form in which it is stored.
    pub fn into_stored(self) -> StoredError {
        self.0.stored
    }
}

impl From<StoredError> for Error {
    fn from(stored: StoredError) -> Self {
        Self(Box::new(Inner { stored, source: None, next_input: None }))
    }
}

impl<E> From<E> for Error
where
    E: std::error::Error + Send + Sync + 'static,
{
    fn from(error: E) -> Self {
        Self::from_boxed(Box::new(error))
    }
}

/// An [`Error`] in a box. `Error` itself cannot implement `std::error::Error`, because then `?`
/// could not convert every error into it.
struct Carrier(Error);

impl From<Error> for BoxError {
    fn from(error: Error) -> Self {
        Box::new(Carrier(error))
    }
}

impl From<Error> for Box<dyn std::error::Error> {
    fn from(error: Error) -> Self {
        Box::new(Carrier(error))
    }
}

impl std::error::Error for Carrier {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.0.source.as_deref().and_then(std::error::Error::source)
    }
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.stored.fmt(f)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.0.stored, self.kind())
    }
}

/// Marks the error of a result as fatal, or sets the delay before the next attempt.
///
/// ```
/// use std::time::Duration;
/// use workflow_sdk::ErrorExt;
///
/// let refused = Err::<(), _>("card refused").fatal();
/// assert!(refused.unwrap_err().is_fatal());
/// let busy = Err::<(), _>("too many requests").retry_after(Duration::from_secs(30));
/// assert!(!busy.unwrap_err().is_fatal());
/// ```
pub trait ErrorExt<T> {
    /// Marks the error as fatal, so that no attempt follows: see [`Error::fatal`].
    ///
    /// # Errors
    /// The marked error.
    fn fatal(self) -> Result<T>;

    /// Sets the delay before the next attempt: see [`Error::retry_after`].
    ///
    /// # Errors
    /// The marked error.
    fn retry_after(self, delay: Duration) -> Result<T>;
}

impl<T, E: Into<BoxError>> ErrorExt<T> for std::result::Result<T, E> {
    fn fatal(self) -> Result<T> {
        self.map_err(Error::fatal)
    }

    fn retry_after(self, delay: Duration) -> Result<T> {
        self.map_err(|error| Error::retry_after(delay, error))
    }
}
