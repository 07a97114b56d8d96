//! What an author calls. Reaches outside only through [`Port`].

mod approval;
mod branches;
mod child;
mod compensation;
mod continue_as_new;
mod dry_replay;
mod entry;
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
mod speculation;
mod step;
mod timeout;
mod transaction;

use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::BoxError;
use workflow_engine::model::{ErrorKind, NameSubject, RunId, StoredError, Timestamp, check_name};
use workflow_engine::replay::{CallId, Wait};
use workflow_engine::runtime::{Polled, Poller, Port, PortFuture, RunCell, RunSettings, WorkflowFuture};

pub use approval::WaitForApproval;
pub use child::{Child, ChildHandle, DetachedChild, MAX_CHILD_DEPTH};
pub use compensation::Compensation;
pub use dry_replay::dry_replay;
pub use entry::Entry;
pub use map::{CollectResults, Map};
pub use race::{Either, Race, Select};
pub use replayed::{Added, Misfit, Replayed};
pub use saga::run_compensations;
pub use scope::Scope;
pub use shield::Shield;
pub use signal::WaitForSignal;
pub use sleep::Sleep;
pub use step::Step;
pub use timeout::Timeout;
pub use transaction::Transaction;

/// The hand of a workflow on its run: steps, sleeps, and everything that may differ from one machine to another.
///
/// It comes as a reference, so it can be shared by concurrent branches (`futures::join!`), and cannot be carried off by
/// `tokio::spawn`.
///
/// # Rules for workflow code
/// Whenever a run is resumed its function is called again from its beginning, and every finished step hands back its
/// recorded value. So, outside of steps, the function must do the same whenever it gets the same values: time, randomness,
/// files, network and other tasks belong into steps, or come from [`Ctx::now`], [`Ctx::random`] and [`Ctx::uuid`].
///
/// Concurrency is plain: `join!`, `try_join!`, `FuturesUnordered`, `select`; [`Ctx::map`] does the same for many items, and
/// [`Ctx::scope`] gives a branch keys of its own. With a `select!` that polls in random order
/// (`futures::select!`, and tokio's without `biased`) make the calls before it, or give them different names: a call takes
/// its key when it is made, so calls of one name that are made in random order could swap their values.
///
/// A body that moves captured values is written `move || async move { .. }`, for it may be called once for each attempt.
pub struct Ctx<S = ()> {
    state: Arc<S>,
    cell: Arc<RunCell>,
    /// What stands before the key of each call: empty, or ends with `/`.
    scope: Arc<str>,
    /// Why this context, whose scope could not be opened, refuses every call.
    refused: Option<Arc<StoredError>>,
}

impl<S> Ctx<S> {
    /// A context over this run. Called by the worker, not by authors.
    #[doc(hidden)]
    pub fn new(state: Arc<S>, cell: Arc<RunCell>) -> Self {
        Self { state, cell, scope: Arc::from(""), refused: None }
    }

    /// What the worker was given for its workflows.
    #[must_use]
    pub fn state(&self) -> &S {
        &self.state
    }

    /// A durable step: its body runs, its value is committed, and no replay runs the body again.
    ///
    /// Returns a lazy builder that is itself a future: nothing happens before it is polled. The value that it gives is the
    /// *stored* one decoded, on the first run as on a replay. A body may be called several times: once for each attempt,
    /// and once more if its process dies after the effect and before the commit; so give outside systems
    /// [`Ctx::idempotency_key`].
    ///
    /// The name is the step's identity in the history, after the names of its [scopes](Ctx::scope): 1 to 255 bytes without
    /// control characters. A repeated name gets
    /// `:1`, `:2`, ... in the order of calls.
    ///
    /// # Errors
    /// Awaiting it gives the body's last error once its [retries](Step::retry) are used up, or an error of kind
    /// [`Timeout`](crate::ErrorKind::Timeout), [`Panic`](crate::ErrorKind::Panic), or
    /// [`Refused`](crate::ErrorKind::Refused): for an invalid name, a value that cannot be stored or read back, a step
    /// inside the body of a step; [`Canceled`](crate::ErrorKind::Canceled) or [`Deadline`](crate::ErrorKind::Deadline) where
    /// the run is told to end while it is pending.
    ///
    /// # Cancel safety
    /// Dropping the future drops the body. The step then has no outcome, or one that no replay delivers.
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    ///
    /// #[workflow]
    /// async fn greet(ctx: &Ctx, name: String) -> Result<String> {
    ///     let greeting = ctx.step("greet", async || Ok::<_, Error>(format!("hello, {name}"))).await?;
    ///     Ok(greeting)
    /// }
    /// ```
    #[track_caller]
    pub fn step<'a, B, F, T, E>(&'a self, name: impl AsRef<str>, mut body: B) -> Step<'a, T>
    where
        B: FnMut() -> F + Send + 'a,
        F: Future<Output = Result<T, E>> + Send + 'a,
        T: Serialize + DeserializeOwned + Send + 'a,
        E: Into<BoxError>,
    {
        let call = self.call_named(name.as_ref(), Location::caller());
        let body = move || -> step::BodyFuture<'a, T> {
            let attempt = body();
            Box::pin(async move { attempt.await.map_err(|error| crate::Error::from_boxed(error.into())) })
        };
        Step::new(&self.cell, call, Box::new(body))
    }

    /// A durable wait of this duration, counted from its first poll. The run does not occupy a worker meanwhile, and its
    /// waking survives any crash.
    ///
    /// # Errors
    /// [`Canceled`](crate::ErrorKind::Canceled) or [`Deadline`](crate::ErrorKind::Deadline) where the run is told to end
    /// while it is pending; [`Refused`](crate::ErrorKind::Refused) for a sleep inside the body of a step.
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
    ///     ctx.step("mail", async || Ok::<_, Error>(())).await
    /// }
    /// ```
    #[track_caller]
    pub fn sleep(&self, duration: Duration) -> Sleep<'_> {
        Sleep::new(&self.cell, self.call_own(sleep::NAME, Location::caller()), Wait::For(duration))
    }

    /// A durable wait until this instant. One that has passed ends at once. Otherwise as [`Ctx::sleep`].
    ///
    /// # Errors
    /// See [`Ctx::sleep`].
    #[track_caller]
    pub fn sleep_until(&self, instant: impl Into<Timestamp>) -> Sleep<'_> {
        Sleep::new(&self.cell, self.call_own(sleep::NAME, Location::caller()), Wait::Until(instant.into()))
    }

    /// The time: that of the last outcome that was delivered, or of the first claim. The same on every replay.
    #[must_use]
    pub fn now(&self) -> SystemTime {
        self.cell.now().into()
    }

    /// A random number, drawn from the run's id and the order of calls: the same on every replay. Inside the body of a
    /// step: from the step's key, the same in every attempt. Not for secrets.
    #[must_use]
    pub fn random(&self) -> u64 {
        self.cell.random()
    }

    /// A random UUID, drawn as [`Ctx::random`].
    #[must_use]
    pub fn uuid(&self) -> Uuid {
        self.cell.uuid()
    }

    /// The id of this run.
    #[must_use]
    pub fn run_id(&self) -> RunId {
        self.cell.run_id()
    }

    /// Inside the body of a step: the number of this attempt, from 1. Outside: that of the run, which is 1 unless a failed
    /// run was tried again, by [`Workflow::RETRY`](crate::Workflow::RETRY) or [`Client::retry`](crate::Client::retry). It is
    /// for logs: a workflow that goes another way by it may leave its history.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.cell.attempt()
    }

    /// Inside the body of a step: a text that is the same for every attempt of this step of this run, and of no other, for
    /// outside systems that can tell a repeated request by it. Outside of steps: the same for the whole run. A run that
    /// [continued as new](Ctx::continue_as_new) has new ones.
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    ///
    /// # struct Bank;
    /// # impl Bank { async fn charge(&self, _cents: u64, _key: String) -> Result<u64, std::io::Error> { Ok(1) } }
    /// #[workflow]
    /// async fn pay(ctx: &Ctx<Bank>, cents: u64) -> Result<u64> {
    ///     ctx.step("charge", || ctx.state().charge(cents, ctx.idempotency_key())).await
    /// }
    /// ```
    #[must_use]
    pub fn idempotency_key(&self) -> String {
        self.cell.idempotency_key()
    }
}

impl<S> Ctx<S> {
    /// A call by a name that an author gave, in the scope of this context.
    fn call_named(&self, name: &str, location: &'static Location<'static>) -> Result<CallId, StoredError> {
        check_name(NameSubject::Step, name)
            .map_err(|error| StoredError::new(ErrorKind::Refused, error.to_string()).fatal())?;
        self.call_own(name, location)
    }

    /// A call by a name of the engine's own, in the scope of this context.
    fn call_own(&self, name: &str, location: &'static Location<'static>) -> Result<CallId, StoredError> {
        self.cell.call(&self.key_in_scope(name)?, location)
    }
}

impl<S> fmt::Debug for Ctx<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ctx").field("run_id", &self.run_id()).finish_non_exhaustive()
    }
}
