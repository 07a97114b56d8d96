//! Runs flows. The interpreter is one ordinary workflow: every value and every decision is a step
//! whose outcome is recorded, so no expression runs in a replay.
//!
//! | construct | key of its record |
//! |---|---|
//! | tool, recipe, handoff, set, jq, fail, items of a loop | `id` |
//! | a decision: `when`, `if`, `switch`, `branch`, `while`, `until`, `match` | `id?` |
//! | the key of a limit, the time of a wait `until` | `id?` |
//! | what a gate shows, the call that hands over, the arguments of a child, an event | `id!` |
//! | the answer of an approval | `id` |
//! | a sleep, an event, a child, an emission | `id/..` |
//! | `output` of a step without a body of its own | `id=` |
//! | whether a loop can continue as new | `id.next` |
//! | the delay before an attempt, the timeout of a block | `id.again/sleep`, `id.time/timeout` |
//! | `undo` | `id~` |
//! | steps of a branch, of an item or of a turn | `id/branch/..`, `id/3/..` |

mod approval;
mod block;
mod child;
mod choice;
mod dag;
mod decision;
mod emission;
mod evaluation;
mod external;
mod frame;
mod graph;
mod handoff;
mod knowledge;
mod mentions;
mod outcome;
mod parallel;
mod pure;
mod recipe;
mod repetition;
mod retry;
mod run;
mod siblings;
mod start;
mod step;
mod timeout;
mod tool;
mod undo;
mod visits;
mod wait;

use std::future::Future;
use std::sync::Arc;

use serde_json::Value;
use workflow_sdk::{Ctx, Result, RunsWith, Workflow};

use crate::FlowRuntime;

pub(crate) use evaluation::prepared_key;
pub use start::FlowStart;

/// The workflow that runs flows: see [`flow`].
#[derive(Debug, Clone, Copy)]
pub struct FlowWorkflow;

/// Returns the workflow that runs flows. Its name is `flow`, its version that of the language.
///
/// It runs in a worker whose state is a [`FlowRuntime`], and in one whose state contains a runtime
/// and implements `AsRef<FlowRuntime>`.
///
/// ```
/// use workflow_flows::{FlowRuntime, flow};
/// use workflow_sdk::Client;
/// use workflow_worker::Worker;
///
/// struct App {
///     flows: FlowRuntime,
/// }
///
/// impl AsRef<FlowRuntime> for App {
///     fn as_ref(&self) -> &FlowRuntime {
///         &self.flows
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let app = App { flows: FlowRuntime::builder().build() };
/// let worker = Worker::new(Client::connect("sqlite::memory:").await?, app).register(flow);
/// # drop(worker);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn flow() -> FlowWorkflow {
    FlowWorkflow
}

impl Workflow for FlowWorkflow {
    type State = FlowRuntime;
    type Input = FlowStart;
    type Output = Value;
    const NAME: &'static str = "flow";
    const VERSION: &'static str = "1";
    const IN_CODE: bool = false;

    fn run<'a>(ctx: &'a Ctx<FlowRuntime>, input: FlowStart) -> impl Future<Output = Result<Value>> + Send + 'a {
        run::run(ctx, input)
    }
}

impl<S: AsRef<FlowRuntime>> RunsWith<S> for FlowWorkflow {
    fn project(worker: &Arc<S>) -> Arc<FlowRuntime> {
        Arc::new(S::as_ref(worker).clone())
    }
}
