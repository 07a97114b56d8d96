use std::fmt;
use std::sync::Arc;

use crate::workflow::RunsWith;
use workflow_engine::model::{ErrorKind, Retry, StoredError, unquoted};
use workflow_engine::runtime::round_trip;

use super::{Ctx, RunCell, WorkflowFuture, saga};

type Call = dyn Fn(Arc<RunCell>, String) -> WorkflowFuture + Send + Sync;

/// A workflow with its types erased: what a worker calls with a run's input.
#[derive(Clone)]
pub struct Entry {
    call: Arc<Call>,
    retry: Option<Retry>,
}

impl Entry {
    /// The workflow, in a worker with this state.
    #[must_use]
    pub fn new<S, W: RunsWith<S>>(worker_state: &Arc<S>) -> Self {
        let state = W::project(worker_state);
        let call: Arc<Call> = Arc::new(move |cell, input| {
            let ctx = Ctx::new(Arc::clone(&state), Arc::clone(&cell));
            Box::pin(async move {
                let function = async {
                    // In here, because an author's own decoder may panic, and panics are caught where this is polled.
                    let input = decode_input::<W::Input>(W::NAME, &input)?;
                    let output = match W::run(&ctx, input).await {
                        Ok(output) => output,
                        Err(error) => {
                            if let Some(input) = error.next_input() {
                                check_next_input::<W::Input>(W::NAME, input)?;
                            }
                            return Err(error);
                        }
                    };
                    Ok(round_trip(&format_args!("output of run {}", cell.run_id()), &output, cell.payload_limit())
                        .map_err(|error| StoredError::new(ErrorKind::Refused, error.to_string()).fatal())?
                        .0)
                };
                saga::run_compensations(&cell, W::RETRY, function).await
            })
        });
        Self { call, retry: W::RETRY }
    }

    /// What follows when the workflow fails: [`Workflow::RETRY`](crate::Workflow::RETRY).
    #[must_use]
    pub fn retry(&self) -> Option<Retry> {
        self.retry
    }

    /// The future of one drive of the run. Its error has kind [`ErrorKind::Refused`] if the input is no value of the
    /// workflow's input type.
    #[must_use]
    pub fn call(&self, cell: Arc<RunCell>, input: String) -> WorkflowFuture {
        (self.call)(cell, input)
    }
}

fn decode_input<I: serde::de::DeserializeOwned>(workflow: &str, input: &str) -> Result<I, StoredError> {
    serde_json::from_str(input).map_err(unquoted).map_err(|error| {
        let type_name = std::any::type_name::<I>();
        let message = format!(
            "the input of workflow {workflow:?} is no {type_name}: {error}; \
             start the run again with an input of that type"
        );
        StoredError::new(ErrorKind::Refused, message).fatal()
    })
}

/// Before the old generation is gone: afterwards nobody could mend the input.
fn check_next_input<I: serde::de::DeserializeOwned>(workflow: &str, input: &str) -> Result<(), StoredError> {
    serde_json::from_str::<I>(input).map(drop).map_err(unquoted).map_err(|error| {
        let type_name = std::any::type_name::<I>();
        let message = format!(
            "the input of ctx.continue_as_new is no {type_name}: {error}; workflow {workflow:?} continues with an input of that type"
        );
        StoredError::new(ErrorKind::Refused, message).fatal()
    })
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").finish_non_exhaustive()
    }
}
