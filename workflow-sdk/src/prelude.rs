//! What workflow code and applications usually need: `use workflow_sdk::prelude::*;`.

#[cfg(feature = "macros")]
pub use workflow_macros::workflow;

pub use crate::{
    Client, Ctx, Error, ErrorExt, ErrorKind, Result, Retry, RunHandle, RunId, RunStatus, Signal, SignalOutcome,
    StepError, Workflow,
};
