//! The usual imports of workflow code and applications: `use workflow_sdk::prelude::*;`.

#[cfg(feature = "macros")]
pub use workflow_macros::workflow;

pub use std::time::Duration;

pub use crate::{
    Breaker, Client, ClientError, Ctx, Either, Error, ErrorExt, ErrorKind, Result, Retry, RunFilter, RunHandle, RunId,
    RunStatus, Signal, SignalOutcome, StepError, Tx, Workflow, ok,
};
