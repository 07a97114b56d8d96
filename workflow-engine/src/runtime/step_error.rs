//! Authors' own error types: how a step goes on after one, and how its value is kept.
//!
//! [`Error`](crate::Error) takes any error by `?`, so there can be no second conversion for some of them. Each type is
//! therefore registered when the program is loaded, and looked up when one of its values becomes an `Error`.

use std::error::Error as StdError;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::model::{StoredError, TypedPayload};
use crate::runtime::{PayloadError, round_trip};

/// What an error says about the next attempt of its step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetryAdvice {
    /// The step's [policy](crate::Step::retry) decides.
    Policy,
    /// No attempt follows.
    Never,
    /// The next attempt comes so much later. The policy's number of attempts still holds.
    After(Duration),
}

/// An author's own error type, which says how a step goes on after it and comes back as a value.
///
/// Derive it beside `Serialize`, `Deserialize` and an implementation of `std::error::Error`. Its values then turn into an
/// [`Error`](crate::Error) by `?` as those of every type do, and are stored with it:
/// [`Error::downcast`](crate::Error::downcast) gives them back on the first run, after any replay, and to a client whose run
/// failed ([`StoredError::downcast`]). What `.fatal()` and `.retry_after(..)` say at a call outweighs what the type says.
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
/// # What is kept
/// The value as JSON text, at most 64 KiB ([`TypedPayload::MAX_BYTES`]). A value that is larger, or that cannot be written
/// and read back, is not kept: the error stands in the history all the same, with its text, its advice, and a last cause
/// that says why there is no value. A step whose effect failed must not fail differently because its error is large.
///
/// # Its name
/// A value is found again by [`StepError::NAME`], which is the path of the type unless `#[step_error(name = "...")]` says
/// otherwise. Set the name before you rename or move a type of which unfinished runs may hold values: they come back only
/// to a type of the same name.
///
/// # Which errors are looked at
/// The error that a body or a workflow returns, also inside of [`Error::fatal`](crate::Error::fatal) and the like; not its
/// [`source`](StdError::source)s, nor what another error type wraps.
///
/// An implementation by hand is not registered, so nothing would ask it: derive it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an error type of steps",
    note = "add `StepError`, `serde::Serialize` and `serde::Deserialize` to its `#[derive(..)]`"
)]
pub trait StepError: StdError + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The name under which values are kept.
    const NAME: &'static str;

    /// How the step goes on after this error.
    fn retry_advice(&self) -> RetryAdvice;
}

impl StoredError {
    /// The error as the author's own value: what [`Error::downcast`](crate::Error::downcast) gives in workflow code, for an
    /// error that was read from a run or from its history.
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
    /// This type.
    #[must_use]
    pub const fn of<T: StepError>() -> Self {
        Self { name: T::NAME, describe: describe::<T> }
    }
}

/// What a registered type says of one of its values.
struct Described {
    advice: RetryAdvice,
    /// The value as JSON text, or why it cannot be kept.
    json: Result<String, String>,
}

fn describe<T: StepError>(error: &(dyn StdError + 'static)) -> Option<Described> {
    let error = error.downcast_ref::<T>()?;
    let json = match round_trip("it", error, TypedPayload::MAX_BYTES) {
        Ok((json, _)) => Ok(json),
        // Its own text would send the reader to an option that does not move this limit.
        Err(PayloadError::TooLarge { bytes, limit, .. }) => Err(format!("it is {bytes} bytes, the limit is {limit}")),
        Err(why) => Err(why.to_string()),
    };
    Some(Described { advice: error.retry_advice(), json })
}

/// Adds to `stored` what the type of `error` says, if it is registered.
///
/// The search is linear: a program has few such types, and looks for one only when something has failed.
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

/// Two types of one name could read each other's values.
fn unambiguous(name: &str) -> Result<(), String> {
    match inventory::iter::<Registered>().filter(|entry| entry.name == name).count() {
        0 | 1 => Ok(()),
        types => Err(format!("{types} types have this name; give each its own with `#[step_error(name = \"...\")]`")),
    }
}

/// A field that `#[retry(after = ..)]` can name.
#[diagnostic::on_unimplemented(
    message = "`#[retry(after = ..)]` names a field of type `Duration` or `Option<Duration>`, found `{Self}`",
    label = "this is no delay"
)]
pub trait RetryDelay {
    /// What the value says.
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
