use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::replay::{CallId, StepOptions};

use super::{Result, RunCell};

/// The future of a running compensation.
pub type Compensating<'a> = Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;

type Run = dyn for<'a> FnOnce(&'a Arc<RunCell>, CallId, StepOptions) -> Compensating<'a> + Send;

/// An armed compensation. It runs if the run fails or is canceled.
pub struct Armed {
    /// The call that holds the compensation's key.
    pub call: CallId,
    /// The kind, retry policy and timeout of the compensation's step.
    pub options: StepOptions,
    /// Starts the compensation's step.
    pub run: Box<Run>,
}

impl Armed {
    /// Attempts the compensation until its outcome is final.
    pub fn run(self, cell: &Arc<RunCell>) -> Compensating<'_> {
        (self.run)(cell, self.call, self.options)
    }
}

impl std::fmt::Debug for Armed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Armed").field("call", &self.call).finish_non_exhaustive()
    }
}
