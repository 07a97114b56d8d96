use std::future::Future;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Ctx, Result, Retry};

/// A workflow: what `#[workflow]` makes of an `async fn`.
///
/// The attribute emits a unit struct of the function's name that implements this trait, so `client.start(checkout, order)`
/// and `worker.register(checkout)` are typed end to end.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a workflow",
    note = "mark an `async fn(ctx: &Ctx<S>, input: I) -> Result<O>` with `#[workflow]` and pass its name"
)]
pub trait Workflow: Send + Sync + 'static {
    /// What [`Ctx::state`] gives: clients of other systems, configuration. `()` for a workflow without.
    type State: Send + Sync + 'static;
    /// What a run is started with.
    type Input: Serialize + DeserializeOwned + Send + 'static;
    /// What a run ends with.
    type Output: Serialize + DeserializeOwned + Send + 'static;
    /// The name under which runs are stored. Renaming it orphans the runs that have not ended.
    const NAME: &'static str;
    /// The version under which runs are stored. A run stays on the version that it was started with.
    const VERSION: &'static str;
    /// What follows when the function fails: `None` for nothing, for its steps were retried already. Otherwise the run waits
    /// for the delay of the policy and goes on where it failed: finished steps keep their outcomes, the failed one is
    /// attempted again. A fatal error, a cancel, a deadline and a refusal are not followed by another attempt.
    const RETRY: Option<Retry> = None;

    /// The function.
    fn run<'a>(ctx: &'a Ctx<Self::State>, input: Self::Input)
    -> impl Future<Output = Result<Self::Output>> + Send + 'a;
}

/// A workflow that runs in a worker whose state is `S`: one with the same state, or one without state.
#[diagnostic::on_unimplemented(
    message = "a worker with state `{S}` cannot run the workflow `{Self}`",
    label = "this workflow needs another state",
    note = "a workflow on `&Ctx<App>` needs `Worker::new(client, App {{ .. }})`; a workflow on `&Ctx` runs in any worker"
)]
pub trait RunsWith<S>: Workflow {
    /// The workflow's state, from the worker's.
    fn project(worker: &Arc<S>) -> Arc<Self::State>;
}

/// What the expansions of `#[workflow]` and `#[derive(StepError)]` call.
#[doc(hidden)]
pub mod __private {
    pub use inventory::submit;
    pub use workflow_engine::runtime::{Registered, RetryDelay};

    /// The result type of a workflow function, under whatever alias it was written.
    #[diagnostic::on_unimplemented(
        message = "a workflow returns a `Result` whose error is `Into<workflow_sdk::Error>`, found `{Self}`",
        label = "write `Result<T>` here"
    )]
    pub trait WorkflowResult {
        /// What it gives on success.
        type Output;
        /// The same with the error of the crate.
        fn into_result(self) -> crate::Result<Self::Output>;
    }

    impl<T, E: Into<crate::Error>> WorkflowResult for Result<T, E> {
        type Output = T;

        fn into_result(self) -> crate::Result<T> {
            self.map_err(Into::into)
        }
    }
}
