use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::replay::{CallId, StepOptions};

use super::{Result, RunCell};

/// The future of a running compensation.
pub type CompensationFuture<'a> = Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;

type Run = dyn for<'a> FnOnce(&'a Arc<RunCell>, CallId, StepOptions) -> CompensationFuture<'a> + Send;

/// An armed compensation. It runs if the run fails or is canceled.
pub struct ArmedCompensation {
    /// The call that holds the compensation's key.
    pub call: CallId,
    /// The kind, retry policy and timeout of the compensation's step.
    pub options: StepOptions,
    /// Starts the compensation's step.
    pub run: Box<Run>,
}

impl ArmedCompensation {
    /// Attempts the compensation until its outcome is final.
    pub fn run(self, cell: &Arc<RunCell>) -> CompensationFuture<'_> {
        (self.run)(cell, self.call, self.options)
    }
}

impl std::fmt::Debug for ArmedCompensation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ArmedCompensation").field("call", &self.call).finish_non_exhaustive()
    }
}
