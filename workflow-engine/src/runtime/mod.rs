//! Connects the calls of a workflow with the worker that drives it: the run cell, the poller, and
//! the values and errors that cross between them.

mod cell;
mod compensation;
mod error;
mod fingerprint;
#[cfg(test)]
mod fingerprint_tests;
mod payload;
mod poller;
mod port;
mod step_error;

pub use cell::{InBody, RunCell, RunSettings, TransactionCommit};
pub use compensation::{ArmedCompensation, CompensationFuture};
pub use error::{BoxError, Error, ErrorExt, Result, ok};
pub use fingerprint::fingerprint;
pub use payload::{
    DEFAULT_PAYLOAD_LIMIT, PayloadError, decode, encode, encode_readable, round_trip, round_trip_for_caller,
};
pub use poller::{Polled, Poller, WorkflowFuture, panic_error};
pub use port::{BodyAttempt, BodyHooks, Port, PortFuture};
pub(crate) use step_error::keep_typed;
pub use step_error::{Registered, RetryAdvice, RetryDelay, StepError};
