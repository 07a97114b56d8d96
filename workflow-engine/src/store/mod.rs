//! The contract between the engine and a database.
//!
//! An internal seam, exempt from semantic versioning. What a store owes is the list of cases in
//! `tests/tests/conformance/`: a behaviour lands there before either database has it.
//!
//! Rules for every method: the store's [`Clock`](crate::model::Clock) decides; no call holds one connection while it
//! asks for another; a call ends within the store's own deadline, with an error if the database does not answer; a
//! dropped future leaves no half-used connection behind.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use crate::model::{
    Claim, InboxSignal, Lane, Run, RunFilter, RunId, RunStatus, StepAttempt, StoredError, Timestamp, UnreadablePayload,
    WorkerId,
};

mod attempt_row;
mod coded;
mod coded_writes;
mod coding;
#[cfg(test)]
mod coding_tests;
mod connect_error;
mod ended;
mod error;
mod fence;
mod options;
mod outcome;
mod outcomes;
mod prepare;
mod redact;
mod transaction;
mod within;
mod write;

pub use attempt_row::AttemptRow;
pub use coded::CodedStore;
pub use coding::Coding;
pub use connect_error::ConnectError;
pub use ended::Ended;
pub use error::{DatabaseError, DatabaseErrorKind};
pub use fence::{Asked, Fact, Fence, ask, asked_by, asked_by_unless};
pub use options::StoreOptions;
pub use outcome::{CancelOutcome, Claimed, ClaimedRun, Outcome, PauseOutcome, ResumeOutcome, StartOutcome};
pub use outcomes::Outcomes;
pub use prepare::{Answer, Prepared, Preparer};
pub use redact::redact;
pub use transaction::{OpenTransaction, StepCommit, StepTransaction};
pub use within::{ForeignTransaction, StoreId, WithinError};
pub use write::{
    AttemptWrite, ClaimRequest, ContinueWrite, EndWrite, ForkWrite, ParkWrite, RetryWrite, ReviveWrite, RunEnd, Write,
};

/// A database that keeps runs.
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Applies the writes in one durable transaction and says for each, in order, what became of it. An end or a park that another
    /// transaction came before may have one of its own, after that of the others.
    ///
    /// Within the batch: starts, then forks, step attempts with their effects, signals, ends, parks, continues, retries, revivals, pauses,
    /// resumes, disowns, cancels, terminations, expiries, then claims; rows sorted by run id. A write whose claim is not the run's current one
    /// changes nothing and is answered
    /// [`Outcome::Lost`]; it does not disturb the others, and the fence holds until the commit. Applying a batch again
    /// after a commit whose reply was lost is safe.
    ///
    /// Only the executor calls it.
    ///
    /// # Errors
    /// The whole batch had no effect, or (kinds [`DatabaseErrorKind::Unreachable`] and [`DatabaseErrorKind::Busy`]) it is
    /// unknown whether it had.
    async fn commit(&self, writes: &[Write]) -> Result<Vec<Outcome>, DatabaseError>;

    /// The same for those that can make a batch ready while another one is being committed. `None`: there is nothing to be gained.
    fn preparer(&self) -> Option<&dyn Preparer> {
        None
    }

    /// Opens a transaction in which the body of a step of this run works. `None`: the claim is not the run's current one.
    ///
    /// On SQLite it holds the database's write lock until it ends, so nothing else is written meanwhile. On PostgreSQL it
    /// holds nothing of the engine's until its commit: a lock on the run would hold up the renewal of all claims.
    ///
    /// # Errors
    /// The database's.
    async fn begin(&self, claim: Claim) -> Result<Option<Box<dyn StepTransaction>>, DatabaseError>;

    /// The row of this attempt, once no transaction of this run is open any more that could still write it: says what
    /// became of a [`StepCommit::Unknown`].
    ///
    /// # Errors
    /// As [`Store::run`].
    async fn recorded(&self, run: RunId, step_key: &str, attempt: i64) -> Result<Option<StepAttempt>, DatabaseError>;

    /// When the next run of these lanes is or was due, whatever holds it; the time now. Reads only.
    ///
    /// # Errors
    /// The database's.
    async fn next_due(&self, lanes: &[Lane]) -> Result<NextDue, DatabaseError>;

    /// A run; `None` if there is none of this id.
    ///
    /// # Errors
    /// The database's, or kind [`DatabaseErrorKind::Corrupt`] if the row cannot be understood.
    async fn run(&self, id: RunId) -> Result<Option<Run>, DatabaseError>;

    /// One page of runs, newest first (by id, descending).
    ///
    /// # Errors
    /// As [`Store::run`].
    async fn list(&self, filter: &RunFilter) -> Result<Vec<Run>, DatabaseError>;

    /// The history of a run: outcomes in the order of their positions, then attempts without a position in the order
    /// of step key and attempt. Of a stream only its last item, without the output, and what stands at the number 0. Empty
    /// for an unknown run.
    ///
    /// # Errors
    /// As [`Store::run`].
    async fn history(&self, id: RunId) -> Result<Vec<StepAttempt>, DatabaseError>;

    /// What the run published last under this name, as it is stored; `None` if it never did.
    ///
    /// # Errors
    /// The database's.
    async fn published(&self, id: RunId, name: &str) -> Result<Option<String>, DatabaseError>;

    /// Items of a stream of the run whose numbers are above `after`, in their order, at most so many. Numbers begin at 1 and
    /// rise; a refused item leaves a gap.
    ///
    /// # Errors
    /// The database's.
    async fn emitted(&self, id: RunId, name: &str, after: i64, limit: u32) -> Result<Vec<EmittedItem>, DatabaseError>;

    /// Those of the runs that have ended, in any order. One query for all.
    ///
    /// # Errors
    /// As [`Store::run`].
    async fn ended(&self, ids: &[RunId]) -> Result<Vec<EndedRun>, DatabaseError>;

    /// What a drive of this run has to know of the world outside: the run's `wakes`, and the first signals of these names
    /// that no step has taken, in their order, [`INBOX_PAGE`] at most. Both from one moment. `None` for an unknown run.
    ///
    /// # Errors
    /// The database's.
    async fn inbox(&self, id: RunId, names: &[String]) -> Result<Option<Inbox>, DatabaseError>;

    /// The `wakes` of each of these runs, in any order. One query for all.
    ///
    /// # Errors
    /// The database's.
    async fn wakes(&self, ids: &[RunId]) -> Result<Vec<(RunId, i64)>, DatabaseError>;

    /// Approvals that runs wait for, the longest waiting first. One that was decided is listed until its run has taken the
    /// decision.
    ///
    /// # Errors
    /// As [`Store::run`].
    async fn approvals(&self, run: Option<RunId>, limit: u32) -> Result<Vec<WaitingApproval>, DatabaseError>;

    /// Opens the session on which a worker keeps its claims: a connection of its own that holds the worker's liveness
    /// lock, bound to the runtime that calls. Records the worker, so that others can look for its lock, and the lanes that
    /// it serves.
    ///
    /// # Errors
    /// The database's, or that of the lock file.
    async fn open_lease(&self, worker: WorkerId, lanes: &[Lane]) -> Result<Box<dyn LeaseSession>, DatabaseError>;

    /// Every recorded worker, in the order of ids. One that died is recorded until another worker notices.
    ///
    /// # Errors
    /// The database's, or that of a lock file.
    async fn workers(&self) -> Result<Vec<WorkerRecord>, DatabaseError>;

    /// The lanes of these lanes' queues and workflows, whatever their versions, in which a run is due: one look at the index
    /// for each version that has runs which have not ended.
    ///
    /// # Errors
    /// The database's.
    async fn due_lanes(&self, lanes: &[Lane]) -> Result<Vec<Lane>, DatabaseError>;

    /// Tells other processes that something changed which they may wait for. A hint: it may be lost.
    ///
    /// # Errors
    /// The database's.
    async fn hint(&self) -> Result<(), DatabaseError>;

    /// Opens a source of hints from other processes.
    ///
    /// # Errors
    /// The database's.
    async fn listen(&self) -> Result<Box<dyn Hints>, DatabaseError>;

    /// Whether the database is memory of this process: no call waits for anything, so a body that blocks starves nobody
    /// who would need a thread of his own; and each commit is a hint to the others, which is never lost. Executor and lease keeper then run on the runtime of the
    /// caller, whose clock, which may be a paused one, decides what waits for how long; and what others do is looked for
    /// after hints, hardly ever without.
    fn in_process(&self) -> bool;

    /// Ends all connections. Calls after it fail with kind [`DatabaseErrorKind::Unreachable`].
    async fn close(&self);

    /// Starts, signals or cancels a run in a transaction that the caller commits: the change exists if and only if that
    /// transaction commits. After an error the transaction must be rolled back.
    ///
    /// # Errors
    /// [`WithinError::OtherDatabase`] if the transaction is one of another kind of database; [`DatabaseErrorKind::Invalid`] if it
    /// leads to another database of the same kind, or the write is of another kind; else the database's error.
    async fn commit_within(&self, transaction: ForeignTransaction<'_>, write: &Write) -> Result<Outcome, WithinError>;
}

/// A worker's own connection: renews its claims and shows that its process lives.
#[async_trait]
pub trait LeaseSession: fmt::Debug + Send {
    /// Moves the end of the lease of all these claims to now + `lease`, in one statement. Claims that are missing in the
    /// answer are lost.
    ///
    /// # Errors
    /// The database's: then it is unknown which claims were renewed.
    async fn renew(&mut self, claims: &[Claim], lease: Duration) -> Result<Vec<Renewed>, DatabaseError>;

    /// Recorded workers, other than this one, whose liveness lock nobody holds at this moment.
    ///
    /// # Errors
    /// The database's.
    async fn unlocked_workers(&mut self) -> Result<Vec<WorkerId>, DatabaseError>;

    /// Makes the claims of a worker due now and forgets the worker. Says how many claims. Safe while that worker
    /// still lives: the next claim has another epoch.
    ///
    /// # Errors
    /// The database's.
    async fn release_worker(&mut self, worker: WorkerId) -> Result<u64, DatabaseError>;

    /// Forgets this worker and gives its lock back.
    ///
    /// # Errors
    /// The database's.
    async fn close(self: Box<Self>) -> Result<(), DatabaseError>;
}

/// A source of hints from other processes.
#[async_trait]
pub trait Hints: fmt::Debug + Send {
    /// Returns when another process may have changed something. May also return without a reason.
    ///
    /// # Errors
    /// The database's; the source is then of no more use.
    async fn next(&mut self) -> Result<(), DatabaseError>;
}

/// A claim that was renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewed {
    /// The claim.
    pub claim: Claim,
    /// Whether somebody asked to cancel the run.
    pub cancel_requested: bool,
    /// Whether somebody paused the run.
    pub paused: bool,
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
    /// Whether one of those was a cancel: who knows the number must know of that too.
    pub cancel_requested: bool,
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

/// A worker as it is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerRecord {
    /// The worker.
    pub id: WorkerId,
    /// What it serves; empty for a worker of a release that did not say.
    pub lanes: Vec<Lane>,
    /// When it began.
    pub started_at: Timestamp,
    /// Whether its liveness lock is held at this moment.
    pub live: bool,
}

/// When the next run is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextDue {
    /// The time now.
    pub now: Timestamp,
    /// The earliest due time, past or future; `None` if no run of the lanes waits for time.
    pub at: Option<Timestamp>,
}

/// An item of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmittedItem {
    /// Its number.
    pub number: i64,
    /// The item as JSON text.
    pub item: String,
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

impl EndedRun {
    /// What of it cannot be decoded, if anything.
    #[must_use]
    pub fn unreadable(&self) -> Option<UnreadablePayload> {
        let output = self.output.as_deref().and_then(UnreadablePayload::in_place_of);
        output.or_else(|| UnreadablePayload::in_place_of_error(self.error.as_ref()?))
    }
}
