//! Authors' own error types: whether a step is retried after an error, and how its value is stored.
//!
//! [`Error`](crate::runtime::Error) converts from every error type by `?`, so some types cannot
//! have a conversion of their own. Each type is therefore registered when the program is loaded,
//! and looked up when one of its values becomes an `Error`.

use std::error::Error as StdError;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::model::{StoredError, TypedPayload};
use crate::runtime::{PayloadError, round_trip};

/// The advice of an error about the next attempt of its step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetryAdvice {
    /// The step's retry policy (`Step::retry`) decides.
    Policy,
    /// No attempt follows.
    Never,
    /// The next attempt starts after exactly this delay. The policy's number of attempts still
    /// holds.
    After(Duration),
}

/// An author's own error type. It decides whether its step is retried, and its values can be read
/// back.
///
/// Derive it together with `Serialize`, `Deserialize` and an implementation of `std::error::Error`.
/// A value converts into an [`Error`](crate::runtime::Error) by `?`, as every error does, and is
/// stored with it. [`Error::downcast`](crate::runtime::Error::downcast) returns the value on the
/// first run, after every replay, and to a client whose run failed ([`StoredError::downcast`]).
/// `.fatal()` and `.retry_after(..)` at a call override the advice of the type.
///
/// ```
/// use std::time::Duration;
///
/// use serde::{Deserialize, Serialize};
/// use workflow_sdk::prelude::*;
///
/// #[derive(Debug, thiserror::Error, Serialize, Deserialize, StepError)]
/// enum CardError {
///     #[error("the card was stolen")]
///     #[retry(never)]
///     Stolen,
///     #[error("the bank is busy")]
///     #[retry(after = pause)]
///     Busy { pause: Duration },
///     #[error("the bank is away")]
///     Away,
/// }
///
/// # async fn charge(_cents: u64) -> Result<u64, CardError> { Err(CardError::Stolen) }
/// #[workflow]
/// async fn pay(ctx: &Ctx, cents: u64) -> Result<String> {
///     match ctx.step("charge", || charge(cents)).await {
///         Ok(number) => Ok(format!("paid, number {number}")),
///         Err(error) => match error.downcast::<CardError>() {
///             Some(CardError::Stolen) => Ok("call the police".into()),
///             _ => Err(error),
///         },
///     }
/// }
/// ```
///
/// # Stored value
/// The value is stored as JSON text of at most 64 KiB ([`TypedPayload::MAX_BYTES`]). A value that
/// is larger, or that cannot be written and read back, is not stored. The error is then stored with
/// its text, its advice, and a last cause that says why its value is missing. A step whose effect
/// failed must not fail differently because its error is large.
///
/// # Name
/// A stored value is found by [`StepError::NAME`], which is the path of the type unless
/// `#[step_error(name = "...")]` sets another name. Set the name before you rename or move a type
/// if unfinished runs may hold its values, because values are returned only to a type with their
/// name.
///
/// # Which errors are examined
/// The error that a body or a workflow returns is examined, also inside of
/// [`Error::fatal`](crate::runtime::Error::fatal) and
/// [`Error::retry_after`](crate::runtime::Error::retry_after). Its [`source`](StdError::source)s,
/// and errors inside of another error type, are not.
///
/// Always derive this trait: an implementation by hand is not registered and has no effect.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an error type of steps",
    note = "add `StepError`, `serde::Serialize` and `serde::Deserialize` to its `#[derive(..)]`"
)]
pub trait StepError: StdError + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The name under which values are stored.
    const NAME: &'static str;

    /// Returns the advice about the next attempt after this error.
    fn retry_advice(&self) -> RetryAdvice;
}

impl StoredError {
    /// Returns the error as the author's own value, for an error that was read from a run or from
    /// its history. [`Error::downcast`](crate::runtime::Error::downcast) does this in workflow
    /// code.
    ///
    /// ```
    /// use serde::{Deserialize, Serialize};
    /// use workflow_sdk::{ClientError, StepError};
    ///
    /// #[derive(Debug, thiserror::Error, Serialize, Deserialize, StepError)]
    /// #[error("{sku} is sold out")]
    /// struct SoldOut {
    ///     sku: String,
    /// }
    ///
    /// fn sold_out(error: &ClientError) -> Option<SoldOut> {
    ///     match error {
    ///         ClientError::RunFailed { error, .. } => error.downcast(),
    ///         _ => None,
    ///     }
    /// }
    /// ```
    #[must_use]
    pub fn downcast<T: StepError>(&self) -> Option<T> {
        self.payload.as_ref()?.decode(T::NAME)
    }
}

/// A type that derives `StepError`, with its type erased.
#[derive(Debug)]
pub struct Registered {
    name: &'static str,
    describe: fn(&(dyn StdError + 'static)) -> Option<Described>,
}

inventory::collect!(Registered);

impl Registered {
    /// Creates the entry of the type `T`.
    #[must_use]
    pub const fn of<T: StepError>() -> Self {
        Self { name: T::NAME, describe: describe::<T> }
    }
}

/// The description that a registered type gives of one of its values.
struct Described {
    advice: RetryAdvice,
    /// The value as JSON text, or the reason why it cannot be stored.
    json: Result<String, String>,
}

fn describe<T: StepError>(error: &(dyn StdError + 'static)) -> Option<Described> {
    let error = error.downcast_ref::<T>()?;
    let json = match round_trip("it", error, TypedPayload::MAX_BYTES) {
        Ok((json, _)) => Ok(json),
        // The text of `TooLarge` would point the reader to an option that does not change this
        // limit.
        Err(PayloadError::TooLarge { bytes, limit, .. }) => Err(format!("it is {bytes} bytes, the limit is {limit}")),
        Err(why) => Err(why.to_string()),
    };
    Some(Described { advice: error.retry_advice(), json })
}

/// Adds the advice and the value of `error` to `stored` if the type of `error` is registered.
///
/// The search is linear, because a program has few such types and searches only after a failure.
pub(crate) fn keep_typed(error: &(dyn StdError + 'static), stored: StoredError) -> StoredError {
    let described = inventory::iter::<Registered>().find_map(|entry| Some((entry.name, (entry.describe)(error)?)));
    let Some((name, described)) = described else { return stored };
    let stored = match described.advice {
        RetryAdvice::Policy => stored,
        RetryAdvice::Never => stored.fatal(),
        RetryAdvice::After(delay) => stored.after(delay),
    };
    match described.json.and_then(|json| unambiguous(name).map(|()| json)) {
        Ok(json) => stored.with_payload(TypedPayload::new(name, json)),
        Err(why) => stored.without_payload(name, &why),
    }
}

/// Refuses a name that several types have, because they could read each other's values.
fn unambiguous(name: &str) -> Result<(), String> {
    match inventory::iter::<Registered>().filter(|entry| entry.name == name).count() {
        0 | 1 => Ok(()),
        types => Err(format!("{types} types have this name; give each its own with `#[step_error(name = \"...\")]`")),
    }
}

/// A field type that `#[retry(after = ..)]` accepts.
#[diagnostic::on_unimplemented(
    message = "`#[retry(after = ..)]` names a field of type `Duration` or `Option<Duration>`, found `{Self}`",
    label = "this is not a delay"
)]
pub trait RetryDelay {
    /// Returns the advice of the field's value.
    fn advice(&self) -> RetryAdvice;
}

impl RetryDelay for Duration {
    fn advice(&self) -> RetryAdvice {
        RetryAdvice::After(*self)
    }
}

impl RetryDelay for Option<Duration> {
    fn advice(&self) -> RetryAdvice {
        self.map_or(RetryAdvice::Policy, RetryAdvice::After)
    }
}
