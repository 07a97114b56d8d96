//! Durable workflows as plain Rust.

// The expansion of `#[workflow]` names this crate as a user does.
extern crate self as workflow_sdk;

mod backend;
mod client;
mod ctx;
mod error;
mod executor;
mod failpoint;
mod model;
mod payload;
mod replay;
mod workflow;

pub mod engine;
pub mod prelude;

pub use backend::{BackendError, BackendErrorKind, CancelOutcome, ConnectError};
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub use client::ApplicationTransaction;
pub use client::{Client, ClientError, Connect, DEFAULT_QUEUE, DEFAULT_VERSION, RunHandle, Start};
pub use ctx::{Ctx, Sleep, Step};
pub use error::{BoxError, Error, ErrorExt, Result};
pub use model::{
    AttemptStatus, ErrorKind, InvalidName, NameSubject, Retry, Run, RunFilter, RunId, RunStatus, StepAttempt, StepKind,
    StoredError, Timestamp,
};
pub use payload::{DEFAULT_PAYLOAD_LIMIT, PayloadError};
pub use workflow::{__private, RunsWith, Workflow};

/// The database driver, in the version whose transactions [`Start::within`] takes.
pub use sqlx;

#[cfg(feature = "macros")]
pub use workflow_macros::workflow;
