use std::fmt;
use std::sync::Arc;

use crate::workflow::RunsWith;
use workflow_engine::model::{ErrorKind, Retry, StoredError, unquoted};
use workflow_engine::runtime::{decode, round_trip};

use super::{Ctx, RunCell, WorkflowFuture, saga};

type Call = dyn Fn(Arc<RunCell>, String) -> WorkflowFuture + Send + Sync;

/// A workflow with its types erased. A worker calls it with a run's input.
#[derive(Clone)]
pub struct Entry {
    call: Arc<Call>,
    retry: Option<Retry>,
}

impl Entry {
    /// Creates the entry of a workflow in a worker with this state.
    #[must_use]
    pub fn new<S, W: RunsWith<S>>(worker_state: &Arc<S>) -> Self {
        let state = W::project(worker_state);
        let call: Arc<Call> = Arc::new(move |cell, input| {
            let ctx = Ctx::new(Arc::clone(&state), Arc::clone(&cell));
            Box::pin(async move {
                let function = async {
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

    /// Returns the retry policy of the workflow: [`Workflow::RETRY`](crate::Workflow::RETRY).
    #[must_use]
    pub fn retry(&self) -> Option<Retry> {
        self.retry
    }

    /// Returns the future of one drive of the run. Its error has kind [`ErrorKind::Refused`] if the
    /// input does not decode as the workflow's input type.
    #[must_use]
    pub fn call(&self, cell: Arc<RunCell>, input: String) -> WorkflowFuture {
        (self.call)(cell, input)
    }
}

fn decode_input<I: serde::de::DeserializeOwned>(workflow: &str, input: &str) -> Result<I, StoredError> {
    decode(input).map_err(unquoted).map_err(|error| {
        let type_name = std::any::type_name::<I>();
        let message = format!(
            "the input of workflow {workflow:?} does not decode as {type_name}: {error}; \
             start the run again with an input of that type"
        );
        StoredError::new(ErrorKind::Refused, message).fatal()
    })
}

/// Checks the input while the old generation is still stored. Afterwards a wrong input could not be
/// repaired.
fn check_next_input<I: serde::de::DeserializeOwned>(workflow: &str, input: &str) -> Result<(), StoredError> {
    decode::<I>(input).map(drop).map_err(unquoted).map_err(|error| {
        let type_name = std::any::type_name::<I>();
        let message = format!(
            "the input of ctx.continue_as_new does not decode as {type_name}: {error}; \
             workflow {workflow:?} continues with an input of that type"
        );
        StoredError::new(ErrorKind::Refused, message).fatal()
    })
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").finish_non_exhaustive()
    }
}
