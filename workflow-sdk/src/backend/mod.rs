//! The contract between the engine and a database.
//!
//! An internal seam, exempt from semantic versioning. What a backend owes is the list of cases in
//! `tests/tests/conformance/`: a behaviour lands there before either database has it.
//!
//! Rules for every method: the backend's [`Clock`](crate::model::Clock) decides; no call holds one connection while it
//! asks for another; a call ends within the backend's own deadline, with an error if the database does not answer; a
//! dropped future leaves no half-used connection behind.

use std::any::Any;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use crate::model::{
    Claim, InboxSignal, Lane, Run, RunFilter, RunId, RunStatus, StepAttempt, StoredError, Timestamp, WorkerId,
};

mod connect;
mod connect_error;
mod error;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;
mod write;

pub use connect::{BackendOptions, connect, redact};
pub use connect_error::ConnectError;
pub use error::{BackendError, BackendErrorKind};
pub use write::{
    AttemptWrite, CancelOutcome, ClaimRequest, Claimed, ClaimedRun, EndWrite, Outcome, ParkWrite, RunEnd, StartOutcome,
    Write,
};

/// A database that keeps runs.
#[async_trait]
pub trait Backend: fmt::Debug + Send + Sync + 'static {
    /// Applies the writes in one durable transaction and says for each, in order, what became of it.
    ///
    /// Within the batch: starts, then step attempts with their effects, then signals, ends, parks, disowns, cancels,
    /// expiries, then claims; rows sorted by run id. A write whose claim is not the run's current one changes nothing and is answered
    /// [`Outcome::Lost`]; it does not disturb the others, and the fence holds until the commit. Applying a batch again
    /// after a commit whose reply was lost is safe.
    ///
    /// Only the executor calls it.
    ///
    /// # Errors
    /// The whole batch had no effect, or (kinds [`BackendErrorKind::Unreachable`] and [`BackendErrorKind::Busy`]) it is
    /// unknown whether it had.
    async fn commit(&self, writes: &[Write]) -> Result<Vec<Outcome>, BackendError>;

    /// When the next run of these lanes is or was due, whatever holds it; the time now. Reads only.
    ///
    /// # Errors
    /// The database's.
    async fn next_due(&self, lanes: &[Lane]) -> Result<NextDue, BackendError>;

    /// A run; `None` if there is none of this id.
    ///
    /// # Errors
    /// The database's, or kind [`BackendErrorKind::Corrupt`] if the row cannot be understood.
    async fn run(&self, id: RunId) -> Result<Option<Run>, BackendError>;

    /// One page of runs, newest first (by id, descending).
    ///
    /// # Errors
    /// As [`Backend::run`].
    async fn list(&self, filter: &RunFilter) -> Result<Vec<Run>, BackendError>;

    /// The history of a run: outcomes in the order of their positions, then attempts without a position in the order
    /// of step key and attempt. Empty for an unknown run.
    ///
    /// # Errors
    /// As [`Backend::run`].
    async fn history(&self, id: RunId) -> Result<Vec<StepAttempt>, BackendError>;

    /// Those of the runs that have ended, in any order. One query for all.
    ///
    /// # Errors
    /// As [`Backend::run`].
    async fn ended(&self, ids: &[RunId]) -> Result<Vec<EndedRun>, BackendError>;

    /// What a drive of this run has to know of the world outside: the run's `wakes`, and the first signals of these names
    /// that no step has taken, in their order, [`INBOX_PAGE`] at most. Both from one moment. `None` for an unknown run.
    ///
    /// # Errors
    /// The database's.
    async fn inbox(&self, id: RunId, names: &[String]) -> Result<Option<Inbox>, BackendError>;

    /// The `wakes` of each of these runs, in any order. One query for all.
    ///
    /// # Errors
    /// The database's.
    async fn wakes(&self, ids: &[RunId]) -> Result<Vec<(RunId, i64)>, BackendError>;

    /// Approvals that runs wait for, the longest waiting first. One that was decided is listed until its run has taken the
    /// decision.
    ///
    /// # Errors
    /// As [`Backend::run`].
    async fn approvals(&self, run: Option<RunId>, limit: u32) -> Result<Vec<WaitingApproval>, BackendError>;

    /// Opens the session on which a worker keeps its claims: a connection of its own that holds the worker's liveness
    /// lock, bound to the runtime that calls. Records the worker, so that others can look for its lock.
    ///
    /// # Errors
    /// The database's, or that of the lock file.
    async fn open_lease(&self, worker: WorkerId) -> Result<Box<dyn LeaseSession>, BackendError>;

    /// Tells other processes that something changed which they may wait for. A hint: it may be lost.
    ///
    /// # Errors
    /// The database's.
    async fn hint(&self) -> Result<(), BackendError>;

    /// Opens a source of hints from other processes.
    ///
    /// # Errors
    /// The database's.
    async fn listen(&self) -> Result<Box<dyn Hints>, BackendError>;

    /// Ends all connections. Calls after it fail with kind [`BackendErrorKind::Unreachable`].
    async fn close(&self);

    /// The concrete backend, for the parts that take a transaction of the application's own driver.
    fn as_any(&self) -> &dyn Any;
}

/// A worker's own connection: renews its claims and shows that its process lives.
#[async_trait]
pub trait LeaseSession: fmt::Debug + Send {
    /// Moves the end of the lease of all these claims to now + `lease`, in one statement. Claims that are missing in the
    /// answer are lost.
    ///
    /// # Errors
    /// The database's: then it is unknown which claims were renewed.
    async fn renew(&mut self, claims: &[Claim], lease: Duration) -> Result<Vec<Renewed>, BackendError>;

    /// Recorded workers, other than this one, whose liveness lock nobody holds at this moment.
    ///
    /// # Errors
    /// The database's.
    async fn unlocked_workers(&mut self) -> Result<Vec<WorkerId>, BackendError>;

    /// Makes the claims of a worker due now and forgets the worker. Says how many claims. Safe while that worker
    /// still lives: the next claim has another epoch.
    ///
    /// # Errors
    /// The database's.
    async fn release_worker(&mut self, worker: WorkerId) -> Result<u64, BackendError>;

    /// Forgets this worker and gives its lock back.
    ///
    /// # Errors
    /// The database's.
    async fn close(self: Box<Self>) -> Result<(), BackendError>;
}

/// A source of hints from other processes.
#[async_trait]
pub trait Hints: fmt::Debug + Send {
    /// Returns when another process may have changed something. May also return without a reason.
    ///
    /// # Errors
    /// The database's; the source is then of no more use.
    async fn next(&mut self) -> Result<(), BackendError>;
}

/// A claim that was renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewed {
    /// The claim.
    pub claim: Claim,
    /// Whether somebody asked to cancel the run.
    pub cancel_requested: bool,
    /// How often something asked the run to wake.
    pub wakes: i64,
}

/// Signals read at once. A run that has taken them reads again.
pub const INBOX_PAGE: u32 = 256;

/// What waits for a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inbox {
    /// How often something asked the run to wake.
    pub wakes: i64,
    /// The signals, in their order.
    pub signals: Vec<InboxSignal>,
}

/// A step of kind approval that waits.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitingApproval {
    /// The run.
    pub run_id: RunId,
    /// Its queue, workflow and version.
    pub lane: Lane,
    /// The step's key.
    pub step_key: String,
    /// What the step wrote when it began, as JSON text.
    pub output: Option<String>,
    /// When it began.
    pub started_at: Timestamp,
}

/// When the next run is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextDue {
    /// The time now.
    pub now: Timestamp,
    /// The earliest due time, past or future; `None` if no run of the lanes waits for time.
    pub at: Option<Timestamp>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub struct EndedRun {
    /// The run.
    pub id: RunId,
    /// A terminal status.
    pub status: RunStatus,
    /// The output as JSON text, if it succeeded.
    pub output: Option<String>,
    /// Why it failed, if it failed.
    pub error: Option<StoredError>,
}
