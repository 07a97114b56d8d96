//! The client, which an application uses to start, inspect, signal and cancel runs.

mod approval;
mod audit;
mod awaited;
mod backfill;
mod cancel;
mod connect;
mod deletion;
mod emission;
mod error;
mod explanation;
mod explanation_read;
mod export;
mod fork;
mod handle;
mod limit;
mod open;
mod pause;
mod pool;
mod publish;
mod queue;
mod result_watch;
mod retry_run;
mod schedule;
mod schedule_handle;
mod signal;
mod single;
mod start;
mod stream;
mod timeout;
mod trigger;
mod within;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::operate::{ChangeWatch, Operate};
use crate::workflow::Workflow;
use serde_json::Value;
use workflow_engine::executor::Executor;
use workflow_engine::model::{
    DEFAULT_SIGNAL_LIMIT, NameSubject, NewAudit, Run, RunFilter, RunId, RunSummary, StepAttempt, check_name,
};
use workflow_engine::observe::Observers;
use workflow_engine::store::{CodedStore, Coding, Store};

pub use approval::{ApprovalKind, Decide, PendingApproval};
pub use awaited::Awaited;
pub use backfill::{Backfill, BackfillPreview, BackfillReport};
pub use cancel::Cancel;
pub use connect::Connect;
pub use emission::{Emit, emit};
pub use error::ClientError;
pub use explanation::Explanation;
pub use export::{Export, run_history};
pub use fork::{FORKED_FROM, Fork};
pub use handle::RunHandle;
pub use limit::{LimitHandle, call_waiting_seats};
pub(crate) use open::open_transferable;
pub use open::{migration_script, open};
pub use pool::ApplicationPool;
pub use queue::QueueHandle;
use result_watch::ResultWatch;
pub use retry_run::RetryRun;
pub use schedule::ScheduleInfo;
pub use schedule_handle::ScheduleHandle;
pub use signal::SendSignal;
pub use single::{InvalidSingle, MAX_SINGLE_TIME, Single};
pub use start::{DEFAULT_QUEUE, DEFAULT_VERSION, Start};
pub use stream::RunStream;
pub use trigger::Trigger;
pub use within::ApplicationTransaction;

/// A client: starts workflow runs and inspects, signals and cancels them. Cheap to clone; the
/// clones share connections and the executor.
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

#[derive(Clone)]
struct Inner {
    store: Arc<dyn Store>,
    executor: Executor,
    results: Arc<ResultWatch>,
    changes: Arc<ChangeWatch>,
    payload_limit: usize,
    signal_limit: u32,
    /// `None`: calls wait as long as the store lets them.
    call_timeout: Option<Duration>,
    coding: Coding,
    observers: Observers,
    /// The audit row that the writes of this client leave.
    audit: Option<NewAudit>,
}

impl Client {
    /// Connects to the database at this URL: `sqlite://path/to/file.db` (created if missing),
    /// `sqlite::memory:` (gone with the client), `postgres://user@host/database`. Brings the schema
    /// up to date.
    ///
    /// Returns a builder: set its options, then await it. Await it inside a tokio runtime that
    /// outlives the client.
    ///
    /// # Errors
    /// Awaiting the builder returns [`ConnectError`](crate::ConnectError).
    pub fn connect(url: impl Into<String>) -> Connect {
        Connect::new(connect::Database::Url(url.into()))
    }

    /// Connects to a database in memory: the `MemoryDatabase` of crate `workflow-testing`. Each
    /// client on one database behaves like a separate process. Only the options
    /// [`Connect::payload_limit`], [`Connect::signal_limit`] and [`Connect::codec`] apply.
    ///
    /// # Errors
    /// None.
    pub fn in_memory(database: impl Into<Arc<dyn Store>>) -> Connect {
        Connect::new(connect::Database::Open(database.into()))
    }

    /// Returns a client over an open store. For tests that put a faulty store below a client.
    #[doc(hidden)]
    #[must_use]
    pub fn over(store: Arc<dyn Store>, payload_limit: usize) -> Self {
        Self::observed(store, (payload_limit, DEFAULT_SIGNAL_LIMIT), None, Coding::default(), Observers::default())
    }

    /// Returns a client over an open store, with a codec and observers.
    fn observed(
        store: Arc<dyn Store>,
        (payload_limit, signal_limit): (usize, u32),
        call_timeout: Option<Duration>,
        coding: Coding,
        observers: Observers,
    ) -> Self {
        let store: Arc<dyn Store> = Arc::new(CodedStore::new(store, coding.clone()));
        let executor = Executor::start(Arc::clone(&store), observers.clone());
        let results = ResultWatch::new(Arc::clone(&store), Arc::clone(executor.notifier()));
        Self(Arc::new(Inner {
            store,
            executor,
            results,
            changes: Arc::default(),
            payload_limit,
            signal_limit,
            call_timeout,
            coding,
            observers,
            audit: None,
        }))
    }

    /// Starts a run of this workflow. Returns a builder: set its options, then await it.
    ///
    /// # Errors
    /// Awaiting the builder returns [`Payload`](ClientError::Payload), [`Name`](ClientError::Name),
    /// [`Tags`](ClientError::Tags), [`Gate`](ClientError::Gate),
    /// [`KeyConflict`](ClientError::KeyConflict), [`QueueFull`](ClientError::QueueFull) or
    /// [`Database`](ClientError::Database). With [`Start::single`], [`Start::debounce`] or
    /// [`Start::once_per`] also [`Single`](ClientError::Single),
    /// [`SingleTaken`](ClientError::SingleTaken) and [`SingleBusy`](ClientError::SingleBusy).
    ///
    /// # Cancel safety
    /// If the awaited future is dropped, the run may or may not have been started. Start it again
    /// with the same key.
    pub fn start<W: Workflow>(&self, workflow: W, input: W::Input) -> Start<W::Output> {
        let _ = workflow;
        Start::of_workflow::<W>(self, &input)
    }

    /// Starts a run of this workflow, for callers that have its type and no value of it.
    #[doc(hidden)]
    pub fn start_of<W: Workflow>(&self, input: &W::Input) -> Start<W::Output> {
        Start::of_workflow::<W>(self, input)
    }

    /// Starts a run of a workflow whose code this program does not have, with JSON as its input.
    /// Its queue, gate and version are those that the builder sets, because the attribute of the
    /// workflow is a part of its code: without them, the run waits in [`DEFAULT_QUEUE`], behind no
    /// gate.
    ///
    /// # Errors
    /// See [`Client::start`]. A worker fails the run if the input does not decode.
    pub fn start_by_name(&self, name: impl Into<String>, input: &Value) -> Start<Value> {
        Start::by_name(self, name.into(), input)
    }

    /// Starts one run per input, with at most 4096 runs per transaction. The handles come in the
    /// order of the inputs.
    ///
    /// # Errors
    /// See [`Client::start`]. If an input is refused, no run is started; if the database fails,
    /// some runs may have been started. A queue without room for all takes the first ones and
    /// refuses each of the others; the error is that of the first refused one.
    ///
    /// # Cancel safety
    /// If the future is dropped, any of the runs may have been started.
    pub async fn start_many<W: Workflow>(
        &self,
        workflow: W,
        inputs: impl IntoIterator<Item = W::Input>,
    ) -> Result<Vec<RunHandle<W::Output>>, ClientError> {
        let _ = workflow;
        start::start_many(self, inputs.into_iter().map(|input| Start::of_workflow::<W>(self, &input))).await
    }

    /// Returns a handle of the run with this id.
    ///
    /// # Errors
    /// [`ClientError::UnknownRun`], [`ClientError::Database`].
    pub async fn handle<O>(&self, id: RunId) -> Result<RunHandle<O>, ClientError> {
        self.run(id).await?;
        Ok(RunHandle::new(self.clone(), id))
    }

    /// Finds the run of this workflow that was started with this idempotency key. Returns `None` if
    /// there is none.
    ///
    /// # Errors
    /// [`ClientError::Name`] for a key that no run can have; [`ClientError::Database`].
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    ///
    /// #[workflow]
    /// async fn checkout(ctx: &Ctx, order: u64) -> Result<u64> {
    ///     ok(order)
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = Client::connect("sqlite::memory:").await?;
    /// let started = client.start(checkout, 42).key("order-42").await?;
    /// let found = client.find(checkout, "order-42").await?;
    /// assert_eq!(found.map(|run| run.id()), Some(started.id()));
    /// assert!(client.find(checkout, "order-43").await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn find<W: Workflow>(&self, workflow: W, key: &str) -> Result<Option<RunHandle<W::Output>>, ClientError> {
        let _ = workflow;
        check_name(NameSubject::Key, key)?;
        let found = self.read(self.0.store.find(W::NAME, key)).await?;
        Ok(found.map(|id| RunHandle::new(self.clone(), id)))
    }

    /// Reads a run.
    ///
    /// # Errors
    /// [`ClientError::UnknownRun`], [`ClientError::Database`].
    pub async fn run(&self, id: RunId) -> Result<Run, ClientError> {
        self.read(self.0.store.run(id)).await?.ok_or(ClientError::UnknownRun { run_id: id })
    }

    /// Reads every attempt of every step of a run: outcomes in the order of their delivery, then
    /// attempts that are not final. Of each stream it returns only the last item, without its
    /// value; [`RunHandle::stream`] returns all items. Of a run that continued as new it returns
    /// only the present generation.
    ///
    /// # Errors
    /// [`ClientError::UnknownRun`], [`ClientError::Database`].
    pub async fn history(&self, id: RunId) -> Result<Vec<StepAttempt>, ClientError> {
        let history = self.read(self.0.store.history(id)).await?;
        if history.is_empty() {
            self.run(id).await?;
        }
        Ok(history)
    }

    /// Reads one page of the runs that match the filter, newest first, without their payloads. For
    /// the next page, set [`RunFilter::after`] to the last run of this one. A page that is not full
    /// is the last one.
    ///
    /// If few runs match, and no index serves the filter, the call reads until the page is full or
    /// no run is left. [`OperateRuns::runs`](crate::operate::OperateRuns::runs) searches in parts,
    /// by more conditions.
    ///
    /// # Errors
    /// [`ClientError::Database`] if the database cannot be reached.
    pub async fn list(&self, filter: &RunFilter) -> Result<Vec<RunSummary>, ClientError> {
        self.read(self.0.store.list(filter)).await
    }

    /// Returns everything that an operator does, as requests and answers that can be serialized.
    ///
    /// ```
    /// # use workflow_sdk::prelude::*;
    /// use workflow_sdk::operate::ListRuns;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = Client::connect("sqlite::memory:").await?;
    /// let run = client.start_by_name("checkout", &42.into()).tag("region", "eu").await?;
    /// let page = client.operate().runs(ListRuns::new("tag.region:eu".parse()?)).await?;
    /// assert_eq!(page.items.first().map(|found| found.id), Some(run.id()));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn operate(&self) -> &dyn Operate {
        self
    }

    /// Tries a failed run again from where it failed. Returns a builder: set its options, then
    /// await it.
    ///
    /// Finished steps keep their outcomes and do not run again. The step whose failure ended the
    /// run is attempted again at once, as often as its policy says, and so is every step that
    /// failed after it. Failures that the workflow had handled before stay handled. If the workflow
    /// failed by itself (an error of its own, a panic) and no step failed last, it is called again
    /// with the same outcomes. It then ends as before, unless its code has changed. Waits, sleeps
    /// and timeouts begin anew, with their whole time; so does a child that has not succeeded.
    ///
    /// When this returns, the run is pending and due, and [`Run::attempt`] is one higher. A parent
    /// that waited for the run has its failure. It learns of a later end if it is retried too.
    ///
    /// # Errors
    /// Awaiting the builder returns [`UnknownRun`](ClientError::UnknownRun),
    /// [`NotFailed`](ClientError::NotFailed), [`Compensated`](ClientError::Compensated),
    /// [`DeadlinePassed`](ClientError::DeadlinePassed),
    /// [`SingleTakenSince`](ClientError::SingleTakenSince) or [`Database`](ClientError::Database).
    ///
    /// # Cancel safety
    /// If the awaited future is dropped, the run may or may not be tried again.
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

    /// Returns the executor of this process. For the worker.
    #[doc(hidden)]
    #[must_use]
    pub fn executor(&self) -> &Executor {
        &self.0.executor
    }

    /// Returns the store. For the worker.
    #[doc(hidden)]
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.0.store
    }

    /// Returns the size limit of a payload, in bytes of JSON text. For the worker.
    #[doc(hidden)]
    #[must_use]
    pub fn payload_limit(&self) -> usize {
        self.0.payload_limit
    }

    /// Returns how many signals may wait in the inbox of a run. For the worker.
    #[doc(hidden)]
    #[must_use]
    pub fn signal_limit(&self) -> u32 {
        self.0.signal_limit
    }

    /// Returns the codec of payloads. For the worker.
    #[doc(hidden)]
    #[must_use]
    pub fn coding(&self) -> &Coding {
        &self.0.coding
    }

    /// Returns the observers of this client. For the worker.
    #[doc(hidden)]
    #[must_use]
    pub fn observers(&self) -> &Observers {
        &self.0.observers
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("store", &self.0.store).finish_non_exhaustive()
    }
}
