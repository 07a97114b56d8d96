//! The error that workflow code sees and returns.

use std::fmt;
use std::time::Duration;

use crate::model::{ErrorKind, StoredError};
use crate::runtime::{StepError, keep_typed};

/// Any error, boxed.
pub type BoxError = Box<dyn std::error::Error + Send + Sync + 'static>;

/// What workflow code returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error in workflow code.
///
/// Any error turns into it by `?`. An error that comes back from a step is in the form in which it was stored: its
/// [kind](Error::kind), its [message](Error::message), the texts of its causes. That is so on the first run too, so code
/// that looks at it does the same whenever the run is replayed.
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
    /// The next input of a run that continues as new: then it is no error, but says so.
    next_input: Option<String>,
}

impl Error {
    /// An error with this text. A step that returns it is retried.
    pub fn msg(message: impl fmt::Display) -> Self {
        StoredError::new(ErrorKind::Application, message.to_string()).into()
    }

    /// An error after which a step is not attempted again, whatever was said of it before.
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

    /// An error after which a step is attempted again so much later, whatever its policy says about delays. The policy's
    /// number of attempts still holds. It undoes a `fatal` that was said before: what is said last holds.
    pub fn retry_after(delay: Duration, error: impl Into<BoxError>) -> Self {
        let mut error = Self::from_boxed(error.into());
        error.0.stored = StoredError { fatal: false, ..error.0.stored }.after(delay);
        error
    }

    /// Which cause it has.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.stored.kind
    }

    /// The error's own text, without its causes.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.stored.message
    }

    /// The texts of its causes, nearest first.
    #[must_use]
    pub fn causes(&self) -> &[String] {
        &self.0.stored.causes
    }

    /// The key of the step that failed with it.
    #[must_use]
    pub fn step_key(&self) -> Option<&str> {
        self.0.stored.step_key.as_deref()
    }

    /// Whether it ended, or would end, the retries of a step.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        self.0.stored.fatal
    }

    /// The error as the author's own value, if it is a `T`: `None` if it is of another type, if its value was not kept
    /// (see [`StepError`]), or if what was kept is no `T` any more.
    ///
    /// It is decoded from what is stored, so the first run and every replay get the same.
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

    /// Any error that a body may return, including this type in its boxed form.
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

    /// What [`Ctx::continue_as_new`](crate::Ctx::continue_as_new) gives. As an error it says what became of it.
    pub fn continue_with(next_input: String) -> Self {
        let message = "ctx.continue_as_new gave this, and it was not returned from the workflow as it is";
        let mut error = Self::from(StoredError::new(ErrorKind::Refused, message).fatal());
        error.0.next_input = Some(next_input);
        error
    }

    /// The next input of a run that continues as new.
    pub fn next_input(&self) -> Option<&str> {
        self.0.next_input.as_deref()
    }

    /// The next input, or the error in the form in which it is kept.
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

/// `Error` cannot be a `std::error::Error` itself, for then `?` could not turn every error into it. This is it in a box.
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

/// Says of the error of a result how a step goes on after it.
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
    /// No attempt follows: see [`Error::fatal`].
    ///
    /// # Errors
    /// The error, marked.
    fn fatal(self) -> Result<T>;

    /// The next attempt comes so much later: see [`Error::retry_after`].
    ///
    /// # Errors
    /// The error, marked.
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
