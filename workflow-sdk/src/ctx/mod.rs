//! The API of workflow code. It reaches the store and the clock only through [`Port`].

mod approval;
mod body;
mod branches;
mod child;
mod child_handle;
mod compensation;
mod continue_as_new;
mod dry_replay;
mod entry;
mod event;
mod inbox_wait;
mod map;
mod patch;
mod publish;
mod race;
mod replayed;
mod saga;
mod scope;
mod shield;
mod signal;
mod sleep;
mod step;
mod timeout;
mod transaction;

use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use uuid::Uuid;

use workflow_engine::model::{ErrorKind, NameSubject, RunId, StoredError, Timestamp, TraceContext, check_name};
use workflow_engine::replay::{CallId, Wait};
use workflow_engine::runtime::{Polled, Poller, Port, PortFuture, RunCell, RunSettings, WorkflowFuture};
use workflow_engine::schedule::Occurrence;

pub use approval::WaitForApproval;
pub use body::{BodyError, StepValue};
pub use child::{Child, DetachedChild, MAX_CHILD_DEPTH};
pub use child_handle::ChildHandle;
pub use compensation::Compensation;
pub use dry_replay::dry_replay;
pub use entry::Entry;
pub use event::{EventCall, WaitForEvent};
pub use map::{CollectResults, Map};
pub use race::{Either, Race, Select};
pub use replayed::{Misfit, Replayed};
pub use saga::run_compensations;
pub use scope::Scope;
pub use shield::Shield;
pub use signal::WaitForSignal;
pub use sleep::Sleep;
pub use step::Step;
pub use timeout::Timeout;
pub use transaction::Transaction;

/// The workflow's context: runs durable steps, sleeps and waits, and supplies time and randomness
/// that are identical on every replay.
///
/// A workflow receives it by reference. So concurrent branches (`futures::join!`) can share it, and
/// `tokio::spawn` cannot move it to another task.
///
/// # Rules for workflow code
/// When a run resumes, its function is called again from its beginning, and every finished step
/// returns its recorded value. So, outside of steps, the function must behave identically whenever
/// it receives identical values. Time, randomness, files, network and other tasks belong in steps,
/// or come from [`Ctx::now`], [`Ctx::random`] and [`Ctx::uuid`].
///
/// Use ordinary concurrency: `futures::join!`, `futures::try_join!`, `FuturesUnordered`, `select`.
/// [`Ctx::map`] runs a function for many items, and [`Ctx::scope`] gives a branch its own keys. A
/// call takes its key when it is made, so calls of one name that are made in random order could
/// swap their values. If a macro polls its branches in changing order (`futures::select!`, or the
/// `select!` and `join!` of tokio without `biased`), make the calls before it, or give them
/// different names.
///
/// A body is usually `|| app.charge(&order)` for one call, and `async || { .. }` for several
/// statements. Both borrow what they use. It may be called once per attempt, so a body that moves a
/// value clones it first. A body that cannot fail ends with [`ok`](crate::ok).
pub struct Ctx<S = ()> {
    state: Arc<S>,
    cell: Arc<RunCell>,
    /// The prefix of each key: empty, or ends with `/`.
    scope: Arc<str>,
    /// The reason why this context refuses every call, if its scope could not be opened.
    refused: Option<Arc<StoredError>>,
}

impl<S> Ctx<S> {
    /// Creates a context over this run. Called by the worker, not by authors.
    #[doc(hidden)]
    pub fn new(state: Arc<S>, cell: Arc<RunCell>) -> Self {
        Self { state, cell, scope: Arc::from(""), refused: None }
    }

    /// Returns the state that the worker was given for its workflows.
    #[must_use]
    pub fn state(&self) -> &S {
        &self.state
    }

    /// Runs a durable step: its body runs, its value is committed, and no replay runs the body
    /// again.
    ///
    /// Returns a builder that is itself a future: nothing happens before it is polled. The future
    /// returns the *stored* value, decoded, on the first run as on a replay. A body may be called
    /// several times: once per attempt, and once more if its process dies after the effect and
    /// before the commit. So pass [`Ctx::idempotency_key`] to other systems.
    ///
    /// The name identifies the step in the history, after the names of its [scopes](Ctx::scope).
    /// Range: 1 to 255 bytes without control characters. A repeated name gets `:1`, `:2`, ... in
    /// the order of calls.
    ///
    /// # Errors
    /// Awaiting it returns the body's last error once its [retries](Step::retry) are used up. The
    /// kind is [`Timeout`](crate::ErrorKind::Timeout) or [`Panic`](crate::ErrorKind::Panic) if the
    /// last attempt took too long or panicked. It is [`Refused`](crate::ErrorKind::Refused) for an
    /// invalid name, a value that cannot be stored or read back, or a step inside the body of a
    /// step. It is [`Canceled`](crate::ErrorKind::Canceled) or
    /// [`Deadline`](crate::ErrorKind::Deadline) if the run is told to end while the step is
    /// pending.
    ///
    /// # Cancel safety
    /// Dropping the future drops the body. The step then has no outcome, or has one that no replay
    /// delivers.
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    ///
    /// #[workflow]
    /// async fn greet(ctx: &Ctx, name: String) -> Result<String> {
    ///     ctx.step("greet", async || ok(format!("hello, {name}"))).await
    /// }
    /// ```
    #[track_caller]
    pub fn step<'a, B, F, T, E>(&'a self, name: impl AsRef<str>, mut body: B) -> Step<'a, T>
    where
        B: FnMut() -> F + Send + 'a,
        F: Future<Output = Result<T, E>> + Send + 'a,
        T: StepValue + 'a,
        E: BodyError,
    {
        let call = self.call_named(name.as_ref(), Location::caller());
        let body = move || -> step::BodyFuture<'a, T> {
            let attempt = body();
            Box::pin(async move { attempt.await.map_err(BodyError::into_error) })
        };
        Step::new(&self.cell, call, Box::new(body))
    }

    /// Waits durably for this duration, counted from the first poll. The run occupies no worker
    /// meanwhile, and it wakes on time after any crash.
    ///
    /// # Errors
    /// Awaiting it returns an error of kind [`Canceled`](crate::ErrorKind::Canceled) or
    /// [`Deadline`](crate::ErrorKind::Deadline) if the run is told to end while the sleep is
    /// pending, and of kind [`Refused`](crate::ErrorKind::Refused) for a sleep inside the body of a
    /// step.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait.
    ///
    /// ```
    /// use std::time::Duration;
    /// use workflow_sdk::prelude::*;
    ///
    /// #[workflow]
    /// async fn remind(ctx: &Ctx) -> Result<()> {
    ///     ctx.sleep(Duration::from_secs(86_400)).await?;
    ///     ctx.step("mail", async || ok(())).await
    /// }
    /// ```
    #[track_caller]
    pub fn sleep(&self, duration: Duration) -> Sleep<'_> {
        Sleep::new(&self.cell, self.call_own(sleep::NAME, Location::caller()), Wait::For(duration))
    }

    /// Waits durably until this instant. If the instant has passed, the wait ends at once. See
    /// [`Ctx::sleep`].
    ///
    /// # Errors
    /// See [`Ctx::sleep`].
    #[track_caller]
    pub fn sleep_until(&self, instant: impl Into<Timestamp>) -> Sleep<'_> {
        Sleep::new(&self.cell, self.call_own(sleep::NAME, Location::caller()), Wait::Until(instant.into()))
    }

    /// Returns the time of the last delivered outcome, or of the first claim if there is none. It
    /// is identical on every replay.
    #[must_use]
    pub fn now(&self) -> SystemTime {
        self.cell.now().into()
    }

    /// Returns a random number that is identical on every replay, because it is derived from the
    /// run's id and the order of calls. Inside the body of a step it is derived from the step's key
    /// and is identical in every attempt. Do not use it for secrets.
    ///
    /// Numbers count in the order of calls: new code that draws one more shifts all later ones of a
    /// run that is under way. Draw an added number in a step, or behind [`Ctx::patched`].
    #[must_use]
    pub fn random(&self) -> u64 {
        self.cell.random()
    }

    /// Returns a random UUID, derived like the numbers of [`Ctx::random`].
    #[must_use]
    pub fn uuid(&self) -> Uuid {
        self.cell.uuid()
    }

    /// Returns the id of this run.
    #[must_use]
    pub fn run_id(&self) -> RunId {
        self.cell.run_id()
    }

    /// Returns the name of this run's workflow.
    #[must_use]
    pub fn workflow(&self) -> &str {
        &self.cell.settings().lane.workflow
    }

    /// Returns the version of the workflow with which this run was started.
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    ///
    /// #[workflow]
    /// async fn report(ctx: &Ctx) -> Result<String> {
    ///     ok(format!("{} {}", ctx.workflow(), ctx.version()))
    /// }
    /// ```
    #[must_use]
    pub fn version(&self) -> &str {
        &self.cell.settings().lane.version
    }

    /// Returns this run's place in a distributed trace. Inside the body of a step this is the span
    /// of that attempt, so that what the body calls belongs to the trace: pass its text on as the
    /// header `traceparent`. Elsewhere it is the span of this claim's work on the run. `None` if
    /// the run was [started](crate::Start::trace_parent) outside of every trace.
    ///
    /// Each claim has a span of its own, so it differs from replay to replay: a workflow that takes
    /// another path because of it may diverge from its history.
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    ///
    /// # async fn charge(_cents: u64, _header: Option<String>) -> Result<u64> { ok(7) }
    /// #[workflow]
    /// async fn pay(ctx: &Ctx, cents: u64) -> Result<u64> {
    ///     let body = || charge(cents, ctx.trace_context().map(|trace| trace.to_string()));
    ///     ctx.step("charge", body).await
    /// }
    /// ```
    #[must_use]
    pub fn trace_context(&self) -> Option<TraceContext> {
        self.cell.trace_context()
    }

    /// Returns the time at which this run was created, by the clock of the database. It is the same
    /// on every replay, in every attempt and in every generation of the run. For the present time
    /// see [`Ctx::now`].
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    ///
    /// #[workflow]
    /// async fn remind(ctx: &Ctx) -> Result<()> {
    ///     // A week after the start, however long the run had to wait for a worker.
    ///     ctx.sleep_until(ctx.created_at() + Duration::from_secs(7 * 24 * 3600)).await
    /// }
    /// ```
    #[must_use]
    pub fn created_at(&self) -> SystemTime {
        self.cell.settings().created_at.into()
    }

    /// Returns the occurrence for which a [schedule](crate::Schedule) has started this run, or the
    /// time at which it was triggered. `None` if no schedule has. It is the same on every replay,
    /// also in a fork of the run.
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    ///
    /// #[workflow]
    /// async fn report(ctx: &Ctx) -> Result<String> {
    ///     let day = ctx.occurrence().map_or("an unknown day", |occurrence| occurrence.date());
    ///     ok(format!("the report of {day}"))
    /// }
    /// ```
    #[must_use]
    pub fn occurrence(&self) -> Option<&Occurrence> {
        self.cell.settings().occurrence.as_deref()
    }

    /// Returns the number of the current attempt, from 1. Inside the body of a step this is the
    /// attempt of the step. Elsewhere it is the attempt of the run, which is 1 unless a failed run
    /// was retried by [`Workflow::RETRY`](crate::Workflow::RETRY) or
    /// [`Client::retry`](crate::Client::retry). Use it for logs only: a workflow that takes another
    /// path because of it may diverge from its history.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.cell.attempt()
    }

    /// Returns a text by which other systems can recognize a repeated request. Inside the body of a
    /// step it is identical for every attempt of this step of this run, and differs from that of
    /// any other step. Elsewhere it is identical for the whole run. A run that [continued as
    /// new](Ctx::continue_as_new) has new keys.
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    ///
    /// # struct Bank;
    /// # impl Bank {
    /// #     async fn charge(&self, _cents: u64, _key: &str) -> Result<u64, Error> { Ok(1) }
    /// # }
    /// #[workflow]
    /// async fn pay(ctx: &Ctx<Bank>, cents: u64) -> Result<u64> {
    ///     ctx.step("charge", || ctx.state().charge(cents, ctx.idempotency_key())).await
    /// }
    /// ```
    ///
    /// The text is kept as long as the context, so the future of a body may borrow it.
    #[must_use]
    pub fn idempotency_key(&self) -> &str {
        self.cell.idempotency_key()
    }
}

impl<S> Ctx<S> {
    /// Makes a call with a name that the author chose, in the scope of this context.
    fn call_named(&self, name: &str, location: &'static Location<'static>) -> Result<CallId, StoredError> {
        check_name(NameSubject::Step, name)
            .map_err(|error| StoredError::new(ErrorKind::Refused, error.to_string()).fatal())?;
        self.call_own(name, location)
    }

    /// Makes a call with a name that the engine chose, in the scope of this context.
    fn call_own(&self, name: &str, location: &'static Location<'static>) -> Result<CallId, StoredError> {
        self.cell.call(&self.key_in_scope(name)?, location)
    }
}

impl<S> fmt::Debug for Ctx<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ctx").field("run_id", &self.run_id()).finish_non_exhaustive()
    }
}
