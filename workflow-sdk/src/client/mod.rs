//! What an application calls: connect, start, look, cancel.

mod approval;
mod cancel;
mod connect;
mod error;
mod explanation;
mod export;
mod fork;
mod handle;
mod live;
mod open;
mod result_watch;
mod retry_run;
mod signal;
mod start;
mod stream;
mod within;

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::workflow::Workflow;
use workflow_engine::executor::Executor;
use workflow_engine::model::{Run, RunFilter, RunId, StepAttempt};
use workflow_engine::store::{
    CodedStore, Coding, DatabaseError, DatabaseErrorKind, Outcome, PauseOutcome, ResumeOutcome, Store, Write,
};

use result_watch::ResultWatch;

pub use approval::{Decide, PendingApproval};
pub use cancel::Cancel;
pub use connect::Connect;
pub use error::ClientError;
pub use explanation::{Awaited, Explanation};
pub use export::{Export, run_history};
pub use fork::{FORKED_FROM, Fork};
pub use handle::RunHandle;
pub use open::open;
pub use retry_run::RetryRun;
pub use signal::SendSignal;
pub use start::{DEFAULT_QUEUE, DEFAULT_VERSION, Start};
pub use stream::RunStream;
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
    store: Arc<dyn Store>,
    executor: Executor,
    results: Arc<ResultWatch>,
    payload_limit: usize,
    coding: Coding,
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
        Connect::new(connect::Database::Url(url.into()))
    }

    /// Connects to a database in memory: the `MemoryDatabase` of crate `workflow-testing`. Each client on one database behaves
    /// like a separate process. Of the options only [`Connect::payload_limit`] and [`Connect::codec`] apply.
    ///
    /// # Errors
    /// None.
    pub fn in_memory(database: impl Into<Arc<dyn Store>>) -> Connect {
        Connect::new(connect::Database::Open(database.into()))
    }

    /// Over an open store. For tests that put a faulty one below a client.
    #[doc(hidden)]
    #[must_use]
    pub fn over(store: Arc<dyn Store>, payload_limit: usize) -> Self {
        Self::coded(store, payload_limit, Coding::default())
    }

    /// The same, with a codec.
    #[doc(hidden)]
    #[must_use]
    pub fn coded(store: Arc<dyn Store>, payload_limit: usize, coding: Coding) -> Self {
        let store: Arc<dyn Store> = Arc::new(CodedStore::new(store, coding.clone()));
        let executor = Executor::start(Arc::clone(&store));
        let results = ResultWatch::new(Arc::clone(&store), Arc::clone(executor.hub()));
        Self(Arc::new(Inner { store, executor, results, payload_limit, coding }))
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

    /// As [`Client::start`], where there is a type and no value of it.
    #[doc(hidden)]
    pub fn start_of<W: Workflow>(&self, input: &W::Input) -> Start<W::Output> {
        Start::of_workflow::<W>(self, input)
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
        self.0.store.run(id).await?.ok_or(ClientError::UnknownRun { run_id: id })
    }

    /// Every attempt of every step of a run: outcomes in the order in which they were delivered, then what is not final. Of a
    /// stream only its last item, without its value: [`RunHandle::stream`] gives them all. Of a run that continued as new
    /// only the present generation.
    ///
    /// # Errors
    /// [`ClientError::UnknownRun`], or one of the database.
    pub async fn history(&self, id: RunId) -> Result<Vec<StepAttempt>, ClientError> {
        let history = self.0.store.history(id).await?;
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
        Ok(self.0.store.list(filter).await?)
    }

    /// Tries a failed run again from where it failed. Returns a builder: set its options, then await it.
    ///
    /// Finished steps keep their outcomes and do not run again. The step whose failure ended the run is attempted again at
    /// once, as often as its policy says, and so is every step that failed after it; failures that the workflow had handled
    /// before stay handled. Where the workflow failed by itself (an error of its own, a panic) and no step failed last, it is
    /// called again with the same outcomes: it ends as before, unless its code has changed.
    ///
    /// The run is pending and due when this returns; [`Run::attempt`] is one higher. A parent that waited for the run has its
    /// failure already, and is not told of a later end.
    ///
    /// # Errors
    /// Awaiting it gives [`ClientError`]: [`UnknownRun`](ClientError::UnknownRun), [`NotFailed`](ClientError::NotFailed),
    /// [`Compensated`](ClientError::Compensated), [`DeadlinePassed`](ClientError::DeadlinePassed), or one of the database.
    ///
    /// # Cancel safety
    /// Dropping the awaited future leaves it open whether the run is tried again.
    ///
    /// ```no_run
    /// // no_run: it needs a run that has failed.
    /// # use workflow_sdk::{Client, ClientError, RunId};
    /// # async fn again(client: Client, id: RunId) -> Result<(), ClientError> {
    /// let run = client.retry(id).await?;
    /// let output: serde_json::Value = run.result().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn retry(&self, id: RunId) -> RetryRun<Value> {
        RetryRun::new(self, id)
    }

    /// Keeps a run from going on until it is [resumed](Client::resume). A running one lets the steps that run end, begins no
    /// others and is given back by its worker: at once if that is in this process, else within a heartbeat; if nothing was left
    /// to do, it ends. Sleeps and deadlines go on meanwhile. Pausing twice is pausing once, and a cancel ends the pause.
    ///
    /// # Errors
    /// [`ClientError::UnknownRun`], or one of the database.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open whether the run is paused; it may be called again.
    ///
    /// ```
    /// # use workflow_sdk::prelude::*;
    /// use workflow_sdk::{PauseOutcome, ResumeOutcome};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = Client::connect("sqlite::memory:").await?;
    /// let run = client.start_by_name("checkout", &42.into()).await?;
    /// assert_eq!(client.pause(run.id()).await?, PauseOutcome::Paused);
    /// assert_eq!(client.resume(run.id()).await?, ResumeOutcome::Resumed);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn pause(&self, id: RunId) -> Result<PauseOutcome, ClientError> {
        match self.commit(Write::Pause(id)).await? {
            Outcome::Paused(PauseOutcome::Unknown) => Err(ClientError::UnknownRun { run_id: id }),
            Outcome::Paused(outcome) => Ok(outcome),
            other => Err(ClientError::unexpected(other)),
        }
    }

    /// Lets a paused run go on: at once if it became due meanwhile, else when it is due.
    ///
    /// # Errors
    /// [`ClientError::UnknownRun`], or one of the database.
    ///
    /// # Cancel safety
    /// As [`Client::pause`].
    pub async fn resume(&self, id: RunId) -> Result<ResumeOutcome, ClientError> {
        match self.commit(Write::Resume(id)).await? {
            Outcome::Resumed(ResumeOutcome::Unknown) => Err(ClientError::UnknownRun { run_id: id }),
            Outcome::Resumed(outcome) => Ok(outcome),
            other => Err(ClientError::unexpected(other)),
        }
    }

    /// Says what a run waits for. A run that is due, but whose version or queue no live worker serves, is told from one that
    /// waits for its turn.
    ///
    /// # Errors
    /// [`ClientError::UnknownRun`], or one of the database.
    ///
    /// ```
    /// # use workflow_sdk::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = Client::connect("sqlite::memory:").await?;
    /// let run = client.start_by_name("checkout", &42.into()).version("9").await?;
    /// let why = client.explain(run.id()).await?.to_string();
    /// assert!(why.ends_with("but no worker serves checkout version 9 in queue default; no worker knows checkout"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn explain(&self, id: RunId) -> Result<Explanation, ClientError> {
        let store = &self.0.store;
        let run = self.run(id).await?;
        let history = match store.history(id).await {
            _ if run.status.is_terminal() => Vec::new(),
            // What the run waits for at last is in its own row.
            Err(DatabaseError { kind: DatabaseErrorKind::Codec, .. }) => Vec::new(),
            history => history?,
        };
        // Asked for even if the run is not due yet: it may become due before the time is read.
        let workers = if run.status.is_terminal() { Vec::new() } else { store.workers().await? };
        let now = store.next_due(&[]).await?.now;
        Ok(Explanation::of(&run, &history, &workers, now))
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
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.0.store
    }

    /// Largest payload, in bytes of JSON text. For the worker.
    #[doc(hidden)]
    #[must_use]
    pub fn payload_limit(&self) -> usize {
        self.0.payload_limit
    }

    /// The stored form of payloads, for transactions that go past the executor.
    #[doc(hidden)]
    #[must_use]
    pub fn coding(&self) -> &Coding {
        &self.0.coding
    }

    fn results(&self) -> &Arc<ResultWatch> {
        &self.0.results
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("store", &self.0.store).finish_non_exhaustive()
    }
}
