//! The usual imports of workflow code and applications: `use workflow_sdk::prelude::*;`.

#[cfg(feature = "macros")]
pub use workflow_macros::workflow;

pub use crate::{
    Breaker, Client, Ctx, Error, ErrorExt, ErrorKind, Result, Retry, RunHandle, RunId, RunStatus, Signal,
    SignalOutcome, StepError, Tx, Workflow,
};
