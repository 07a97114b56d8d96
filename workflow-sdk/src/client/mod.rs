//! What an application calls: connect, start, look, cancel.

mod connect;
mod error;
mod export;
mod handle;
mod result_watch;
mod start;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod within;

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::backend::{Backend, CancelOutcome, Outcome, Write};
use crate::executor::Executor;
use crate::model::{Run, RunFilter, RunId, StepAttempt};
use crate::workflow::Workflow;

use result_watch::ResultWatch;

pub use connect::Connect;
pub use error::ClientError;
pub use export::{Export, run_history};
pub use handle::RunHandle;
pub use start::{DEFAULT_QUEUE, DEFAULT_VERSION, Start};
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub use within::ApplicationTransaction;

/// An application's hand on its runs. Cheap to clone; the clones share connections and the executor.
///
/// ```
/// use workflow_sdk::prelude::*;
///
/// #[workflow]
/// async fn checkout(ctx: &Ctx, order: String) -> Result<String> {
///     Ok(order)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("sqlite::memory:").await?;
/// let run = client.start(checkout, "order 42".to_string()).key("order-42").await?;
/// assert_eq!(run.status().await?, RunStatus::Pending);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    backend: Arc<dyn Backend>,
    executor: Executor,
    results: Arc<ResultWatch>,
    payload_limit: usize,
}

impl Client {
    /// Connects to the database of this URL: `sqlite://path/to/file.db` (created if missing), `sqlite::memory:` (gone with
    /// the client), `postgres://user@host/database`. Brings the schema up to date.
    ///
    /// Returns a builder: set its options, then await it, inside of a tokio runtime, which the client then lives on.
    ///
    /// # Errors
    /// Awaiting it gives [`ConnectError`](crate::ConnectError).
    pub fn connect(url: impl Into<String>) -> Connect {
        Connect::new(url.into())
    }

    /// Over an open backend. For tests that put a faulty one below a client.
    #[doc(hidden)]
    #[must_use]
    pub fn over(backend: Arc<dyn Backend>, payload_limit: usize) -> Self {
        let executor = Executor::start(Arc::clone(&backend));
        let results = ResultWatch::new(Arc::clone(&backend), Arc::clone(executor.hub()));
        Self(Arc::new(Inner { backend, executor, results, payload_limit }))
    }

    /// Starts a run of this workflow. Returns a builder: set its options, then await it.
    ///
    /// # Errors
    /// Awaiting it gives [`ClientError`]: [`Payload`](ClientError::Payload), [`Name`](ClientError::Name),
    /// [`KeyConflict`](ClientError::KeyConflict), or one of the database.
    ///
    /// # Cancel safety
    /// Dropping the awaited future leaves it open whether the run was started; start it again with the same key.
    pub fn start<W: Workflow>(&self, workflow: W, input: W::Input) -> Start<W::Output> {
        let _ = workflow;
        Start::of_workflow::<W>(self, &input)
    }

    /// Starts a run of a workflow whose code this program does not have, with JSON as its input.
    ///
    /// # Errors
    /// As [`Client::start`]. A worker fails the run if the input does not decode.
    pub fn start_by_name(&self, name: impl Into<String>, input: &Value) -> Start<Value> {
        Start::by_name(self, name.into(), input)
    }

    /// Starts a run for each input, committed together, up to 4096 a transaction. The handles are in the order of the
    /// inputs.
    ///
    /// # Errors
    /// As [`Client::start`]. If an input is refused, none is started; if the database fails, some may have been.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open which runs were started.
    pub async fn start_many<W: Workflow>(
        &self,
        workflow: W,
        inputs: impl IntoIterator<Item = W::Input>,
    ) -> Result<Vec<RunHandle<W::Output>>, ClientError> {
        let _ = workflow;
        start::start_many(self, inputs.into_iter().map(|input| Start::of_workflow::<W>(self, &input))).await
    }

    /// A handle of the run with this id.
    ///
    /// # Errors
    /// [`ClientError::UnknownRun`], or one of the database.
    pub async fn handle<O>(&self, id: RunId) -> Result<RunHandle<O>, ClientError> {
        self.run(id).await?;
        Ok(RunHandle::new(self.clone(), id))
    }

    /// The run as it stands.
    ///
    /// # Errors
    /// [`ClientError::UnknownRun`], or one of the database.
    pub async fn run(&self, id: RunId) -> Result<Run, ClientError> {
        self.0.backend.run(id).await?.ok_or(ClientError::UnknownRun { run_id: id })
    }

    /// Every attempt of every step of a run: outcomes in the order in which they were delivered, then what is not final.
    ///
    /// # Errors
    /// [`ClientError::UnknownRun`], or one of the database.
    pub async fn history(&self, id: RunId) -> Result<Vec<StepAttempt>, ClientError> {
        let history = self.0.backend.history(id).await?;
        if history.is_empty() {
            self.run(id).await?;
        }
        Ok(history)
    }

    /// One page of the runs that fit the filter, newest first. The page that follows begins
    /// [after](RunFilter::after) the last run of this one; there is none after a page that is not full.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn list(&self, filter: &RunFilter) -> Result<Vec<Run>, ClientError> {
        Ok(self.0.backend.list(filter).await?)
    }

    /// The run with everything that is recorded of it, to be replayed elsewhere: its JSON is a test's input. Returns a builder:
    /// await it.
    ///
    /// It holds the input and every recorded value: keep it where the data itself may be kept.
    ///
    /// # Errors
    /// Awaiting it gives [`ClientError::UnknownRun`], or one of the database.
    ///
    /// # Cancel safety
    /// It only reads.
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    ///
    /// #[workflow]
    /// async fn checkout(ctx: &Ctx, order: String) -> Result<String> {
    ///     Ok(order)
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = Client::connect("sqlite::memory:").await?;
    /// let run = client.start(checkout, "order 42".to_string()).await?;
    /// let history = client.export(run.id()).await?;
    /// assert_eq!(history.run.input, "\"order 42\"");
    /// assert!(history.to_json().contains("\"format\": 1"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn export(&self, id: RunId) -> Export {
        Export::new(self.clone(), id)
    }

    /// Cancels a run. One that no worker holds is canceled when this returns; a running one is dropped by its worker,
    /// within a heartbeat, and ends canceled unless it ended first.
    ///
    /// # Errors
    /// [`ClientError::UnknownRun`], or one of the database.
    pub async fn cancel(&self, id: RunId) -> Result<CancelOutcome, ClientError> {
        match self.commit(Write::Cancel(id)).await? {
            Outcome::Canceled(CancelOutcome::Unknown) => Err(ClientError::UnknownRun { run_id: id }),
            Outcome::Canceled(outcome) => Ok(outcome),
            other => Err(ClientError::unexpected(other)),
        }
    }

    pub(crate) async fn commit(&self, write: Write) -> Result<Outcome, ClientError> {
        Ok(self.0.executor.commit(write).await?)
    }

    /// The executor of this process. For the worker.
    #[doc(hidden)]
    #[must_use]
    pub fn executor(&self) -> &Executor {
        &self.0.executor
    }

    /// The database. For the worker.
    #[doc(hidden)]
    #[must_use]
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.0.backend
    }

    /// Largest payload, in bytes of JSON text. For the worker.
    #[doc(hidden)]
    #[must_use]
    pub fn payload_limit(&self) -> usize {
        self.0.payload_limit
    }

    fn results(&self) -> &Arc<ResultWatch> {
        &self.0.results
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("backend", &self.0.backend).finish_non_exhaustive()
    }
}
