//! Durable workflows as plain Rust.

mod backend;
mod failpoint;
mod model;

pub mod engine;

pub use backend::{BackendError, BackendErrorKind, CancelOutcome, ConnectError};
pub use model::{
    AttemptStatus, ErrorKind, InvalidName, NameSubject, Run, RunFilter, RunId, RunStatus, StepAttempt, StepKind,
    StoredError, Timestamp,
};
