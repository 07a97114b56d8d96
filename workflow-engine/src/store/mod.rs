//! The contract between the engine and a database.
//!
//! Internal: exempt from semantic versioning. The cases in `tests/tests/conformance/` define the
//! contract: a behaviour lands there before any database has it.
//!
//! Rules for every method: the store's [`Clock`](crate::model::Clock) decides the time. No call
//! holds one connection while it asks for another. A call ends within the store's own deadline,
//! with an error if the database does not answer. A dropped future leaves no connection in doubt.

use std::fmt;

use async_trait::async_trait;

use crate::model::{
    Claim, Lane, LimitRecord, QueueRecord, Retention, Run, RunFilter, RunId, RunSummary, SeatLine, SeatWait,
    StepAttempt, StoredSchedule, Timestamp, WorkerId,
};

mod apply;
#[cfg(test)]
mod apply_tests;
mod approval;
mod attempt_row;
mod audit;
mod batch_target;
mod bulk;
mod bulk_target;
mod cascade;
mod coded;
mod coded_statistics;
mod coded_writes;
mod coding;
#[cfg(test)]
mod coding_tests;
mod commit_order;
mod connect_error;
mod deletion;
mod due_time;
mod ended_run;
mod error;
mod fence;
mod forward;
mod gates;
mod hint;
mod history_page;
mod inbox;
mod item;
mod lanes;
mod lease_session;
mod limited_claim;
mod line_rate;
mod locks;
mod options;
mod outcome;
mod outcomes;
mod placement;
mod redact;
mod releases;
mod room;
mod run_count;
mod run_list;
mod run_scan;
mod schedule_write;
mod seat_line;
mod single;
mod sorted_batch;
mod statistics;
mod system;
mod target;
mod transaction;
mod transfer;
mod wait;
mod within;
mod worker_record;
mod write;

pub use apply::{apply, apply_within};
pub use approval::{APPROVAL_BUDGET, ApprovalCursor, ApprovalList, ListedApprovals, WaitingApproval};
pub use attempt_row::AttemptRow;
pub use audit::{AuditList, AuditedWrite, InsertedAudit, ListedAudits};
pub use batch_target::{BatchTarget, ConsumedSignal, DueRuns, StepOf};
pub use bulk::{BulkChunk, BulkClaim, BulkStore, BulkWrite};
pub use bulk_target::BulkTarget;
pub use coded::CodedStore;
pub use coding::{Coding, understood};
pub use commit_order::CommitOrder;
pub use connect_error::ConnectError;
pub use deletion::{DeleteOutcome, DeleteWrite, DeletedRun, FoundRun};
pub use due_time::NextDue;
pub use ended_run::EndedRun;
pub use error::{DatabaseError, DatabaseErrorKind};
pub use fence::{Asked, Fact, Fence, asked_by_unless};
pub use gates::{EndedTurn, GateTurn, GateUse, LockedGate, TurnEnd};
pub use hint::{ChangeStore, Listener};
pub use history_page::{HistoryBounds, HistoryPlace, HistoryRow, HistoryRows, HistoryScan, MOST_UNDECIDED, StepBounds};
pub use inbox::{INBOX_PAGE, Inbox, RunWakes};
pub use item::EmittedItem;
pub use lanes::{ClaimPlace, ClaimRequest, Turns, claim_places, distinct_lanes, take_turns};
pub use lease_session::{LeaseSession, Renewed, WorkerLock, WorkerLook};
pub use limited_claim::{LockedQueue, claim_limited};
pub use line_rate::{LineRate, ReadRates};
pub use locks::{LockedEvents, Locks, RunState};
pub use options::{StoreOptions, check_timeout};
pub use outcome::{CancelOutcome, Claimed, ClaimedRun, Emitted, Outcome, PauseOutcome, PlaceOutcome};
pub use outcome::{ResumeOutcome, StartOutcome};
pub use outcomes::{MissingOutcome, Outcomes};
pub use placement::{PlaceChange, PlaceTarget, PlaceWrite, PlacedRun, Placement};
pub use redact::redact;
pub use releases::Releases;
pub use room::{Bounds, WaitingPlace};
pub use run_count::{GateList, HeldRuns, ListedGate, ListedSeat, RunCounts, SeatCounts, SeatList};
pub use run_list::{ListedRuns, RunList, list_filtered, list_runs};
pub use run_scan::{Direction, RunScan, SCAN_BUDGET, ScanSource, ScannedRuns, first_id_after};
pub use schedule_write::{DueSchedules, ScheduleWrite};
pub use seat_line::{AskedSeat, CALL_PATIENCE, MOST_WAITING, OpenLine, SeatAnswer, SeatRow};
pub use single::{FoundSingle, SingleRun};
pub use sorted_batch::{Indexed, SortedBatch};
pub use statistics::{
    EndedInLane, MOST_FAILURE_GROUPS, MOST_SOURCE_LINES, RunTags, StatisticsScan, StatisticsStore, StatisticsTarget,
    StatisticsWrite,
};
pub use system::{Standby, SystemStore};
pub use target::Target;
pub use transaction::{OpenTransaction, StepCommit, StepTransaction};
pub use transfer::*;
pub use wait::{MOST_AWAITED, MOST_HOLDERS, MOST_ROWS, WaitStore};
pub use within::{ForeignTransaction, StoreId, WithinError};
pub use worker_record::WorkerRecord;
pub use write::{
    AttemptWrite, ContinueWrite, CrashesWrite, EndWrite, ForkWrite, LimitWrite, ParkWrite, QueueWrite, RetryWrite,
    ReviveWrite, RunEnd, Write,
};

/// A database that stores runs.
#[async_trait]
pub trait Store:
    BulkStore + ChangeStore + StatisticsStore + SystemStore + WaitStore + fmt::Debug + Send + Sync + 'static
{
    /// Applies the writes in one durable transaction and returns the outcome of each, in their
    /// order. An end or park that lost a race with another transaction may be retried in a second
    /// transaction, after the rest have committed.
    ///
    /// The order within the batch is that of [`apply`], whatever the order of the writes.
    /// A write whose claim is not the run's current one changes nothing and its outcome is
    /// [`Outcome::Lost`]. It does not disturb the others, and the fence holds until the commit.
    /// Applying a batch again after a commit whose reply was lost is safe.
    ///
    /// # Two calls at once
    /// Only the executor calls this method. If the store
    /// [prepares the next batch](Store::prepares_next_batch), the executor may call it for a second
    /// batch while a first one is being committed, never for a third. It polls both futures in one
    /// task, the first one before the second one.
    ///
    /// * The batches are applied in the order of the calls. A call counts from its first poll, in
    ///   which the store may do all work for the batch that needs no answer of the database.
    /// * The second batch is not begun before the first one has succeeded, or its future has
    ///   returned an error. In the latter case the executor drops the second future and calls again
    ///   later: a future that is dropped before its turn has no effect.
    /// * Once the second batch is begun, the call for the first one must not fail. If it cannot
    ///   read the claimed runs, the outcome of the claim is [`Outcome::Refused`].
    /// * The deadline of a call counts from its turn.
    ///
    /// # Errors
    /// The whole batch had no effect. With the kinds [`DatabaseErrorKind::Unreachable`] and
    /// [`DatabaseErrorKind::Busy`] it is unknown whether it had one.
    async fn commit(&self, writes: &[Write]) -> Result<Vec<Outcome>, DatabaseError>;

    /// Opens a transaction for the body of a step of this run. Returns `None` if the claim is not
    /// the current one of its run.
    ///
    /// On SQLite the transaction holds the write lock of the database until it ends, so nothing
    /// else is written meanwhile. On PostgreSQL it locks no row of the engine before its commit: a
    /// lock on the run would delay the renewal of all claims.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails or does not answer.
    async fn begin(&self, claim: Claim) -> Result<Option<Box<dyn StepTransaction>>, DatabaseError>;

    /// Returns the row of this attempt, once no open transaction of this run can still write it. It
    /// decides a [`StepCommit::Unknown`].
    ///
    /// # Errors
    /// See [`Store::run`].
    async fn recorded(&self, run: RunId, step_key: &str, attempt: i64) -> Result<Option<StepAttempt>, DatabaseError>;

    /// Returns the time now by the clock of the database. Fails as [`Store::find`] does.
    async fn now(&self) -> Result<Timestamp, DatabaseError>;

    /// Returns the time now, and when the next run of these lanes is or was due, even if a worker
    /// holds it. Reads only. Fails as [`Store::find`] does.
    async fn next_due(&self, lanes: &[Lane]) -> Result<NextDue, DatabaseError>;

    /// Returns a run; `None` if no run has this id.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails or does not answer; kind
    /// [`DatabaseErrorKind::Corrupt`] if the row cannot be understood.
    async fn run(&self, id: RunId) -> Result<Option<Run>, DatabaseError>;

    /// Returns the id of the run of this workflow with this key; `None` if there is none.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails or does not answer.
    async fn find(&self, workflow: &str, key: &str) -> Result<Option<RunId>, DatabaseError>;

    /// Reads a part of a list: see [`RunScan`]. Decides on its end before it reads its runs, so a
    /// run that is inserted meanwhile hides no other. Fails as [`Store::run`] does.
    async fn scan(&self, scan: &RunScan) -> Result<ScannedRuns, DatabaseError>;

    /// Returns one page of runs, newest first (by id). Fails as [`Store::run`] does.
    async fn list(&self, filter: &RunFilter) -> Result<Vec<RunSummary>, DatabaseError> {
        list_filtered(self, filter).await
    }

    /// Returns the history of a run: outcomes in the order of their positions, then attempts
    /// without a position in the order of step key and attempt. Of a stream it returns only the
    /// last item, without its value, and the row of the number 0. Empty for an unknown run. Fails
    /// like [`Store::run`].
    async fn history(&self, id: RunId) -> Result<Vec<StepAttempt>, DatabaseError>;

    /// Returns a part of a history, for display: see [`HistoryScan`]. A payload that cannot be
    /// decoded is replaced by the reason. Fails as [`Store::run`] does.
    async fn history_page(&self, scan: &HistoryScan) -> Result<Vec<HistoryRow>, DatabaseError>;

    /// Returns the stored value that the run published last under this name; `None` if it published
    /// none.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails or does not answer.
    async fn published(&self, id: RunId, name: &str) -> Result<Option<String>, DatabaseError>;

    /// Returns at most `limit` items of a stream whose numbers are above `after`, in their order.
    /// Numbers begin at 1 and rise; a refused item leaves a gap.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails or does not answer.
    async fn emitted(&self, id: RunId, name: &str, after: i64, limit: u32) -> Result<Vec<EmittedItem>, DatabaseError>;

    /// Returns how each of these runs ended, in any order; leaves out runs that have not ended. One
    /// query for all. Fails as [`Store::run`] does.
    async fn ended(&self, ids: &[RunId]) -> Result<Vec<EndedRun>, DatabaseError>;

    /// Returns those of these runs that the database does not have, in any order, by one query.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails or does not answer.
    async fn missing(&self, ids: &[RunId]) -> Result<Vec<RunId>, DatabaseError>;

    /// Returns the run's `wakes`, and the first signals of these names that no step has consumed,
    /// in their order and at most [`INBOX_PAGE`]. Both are read at one moment. `None` for an
    /// unknown run.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails or does not answer.
    async fn inbox(&self, id: RunId, names: &[String]) -> Result<Option<Inbox>, DatabaseError>;

    /// Returns a part of the list of audit rows. Reads at most the budget of rows, by an index.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails or does not answer.
    async fn audits(&self, list: &AuditList) -> Result<ListedAudits, DatabaseError>;

    /// Returns what others have asked of each of these runs, in any order. One query for all. Fails
    /// as [`Store::find`] does.
    async fn wakes(&self, ids: &[RunId]) -> Result<Vec<RunWakes>, DatabaseError>;

    /// Returns approvals that runs wait for, and decisions if they are asked for, the longest
    /// waiting first. A decision is a wait for a signal whose name begins with
    /// [`DECISION_SIGNAL`](crate::model::DECISION_SIGNAL). One that was decided is listed until its
    /// run has received the decision. Of all runs, a read looks at [`APPROVAL_BUDGET`] waits.
    ///
    /// # Errors
    /// See [`Store::run`].
    async fn approvals(&self, list: &ApprovalList) -> Result<ListedApprovals, DatabaseError>;

    /// Returns the row of a schedule; `None` if there is none of this name.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails or does not answer.
    async fn schedule(&self, name: &str) -> Result<Option<StoredSchedule>, DatabaseError>;

    /// Returns at most `limit` schedules with names after `after`, in the order of their names.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails or does not answer.
    async fn schedules(&self, after: Option<&str>, limit: u32) -> Result<Vec<StoredSchedule>, DatabaseError>;

    /// Returns at most `limit` schedules that are due, and when the next one is. Leaves out
    /// schedules without an input, except those named in `computed`. It reads the due ones and one
    /// more.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails or does not answer.
    async fn due_schedules(&self, computed: &[String], limit: u32) -> Result<DueSchedules, DatabaseError>;

    /// Opens the session that keeps the claims of a worker: a connection of its own, bound to the
    /// calling runtime, that holds the worker's liveness lock. Records the worker with the lanes
    /// that it serves and the retention that it declares, so that other workers can check its lock
    /// and know both.
    ///
    /// # Errors
    /// [`DatabaseError`] of the database or of the lock file.
    async fn open_lease(
        &self,
        worker: WorkerId,
        lanes: &[Lane],
        retention: &Retention,
    ) -> Result<Box<dyn LeaseSession>, DatabaseError>;

    /// Returns every recorded worker, in the order of ids. A worker that died stays recorded until
    /// another worker notices.
    ///
    /// # Errors
    /// [`DatabaseError`] of the database or of a lock file.
    async fn workers(&self) -> Result<Vec<WorkerRecord>, DatabaseError>;

    /// Returns the lanes, among those with a queue and a workflow of these lanes and any version,
    /// in which a run is due. It costs one index lookup for each version that has unended runs.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails or does not answer.
    async fn due_lanes(&self, lanes: &[Lane]) -> Result<Vec<Lane>, DatabaseError>;

    /// Returns the queues that were declared, limited or paused, in the order of their names.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails or does not answer.
    async fn queues(&self) -> Result<Vec<QueueRecord>, DatabaseError>;

    /// Counts the running runs of a queue, to at most this number.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails or does not answer.
    async fn running_in(&self, queue: &str, at_most: u32) -> Result<u32, DatabaseError>;

    /// Counts the runs that wait in this place: see [`BatchTarget::count_waiting`].
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails or does not answer.
    async fn waiting_in(&self, place: WaitingPlace<'_>) -> Result<u32, DatabaseError>;

    /// Returns how much of the limits of a gate is used; [`GateUse::NONE`] if it is not known.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails or does not answer.
    async fn gate_use(&self, queue: &str, gate: &str) -> Result<GateUse, DatabaseError>;

    /// Counts runs by their states. Looks at most at this number of runs per index.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails or does not answer.
    async fn run_counts(&self, at_most: u32) -> Result<RunCounts, DatabaseError>;

    /// Returns at most `limit` lanes without their gates, in the order of their names. A lane is
    /// known from the first start in it on.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails or does not answer.
    async fn lanes(&self, limit: u32) -> Result<Vec<Lane>, DatabaseError>;

    /// Returns since when the run of a queue is due that is due for the longest time. `None`: none
    /// is due. Does not count running runs.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails or does not answer.
    async fn oldest_due(&self, queue: &str) -> Result<Option<Timestamp>, DatabaseError>;

    /// Returns gates of a queue, in the order of their names.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails or does not answer.
    async fn gates(&self, list: GateList<'_>) -> Result<Vec<ListedGate>, DatabaseError>;

    /// Counts the runs that each worker holds. Looks at most at this number of running runs.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails or does not answer.
    async fn held_runs(&self, at_most: u32) -> Result<HeldRuns, DatabaseError>;

    /// Returns seats of a limit by key and time of asking. Fails as [`Store::run`] does.
    async fn listed_seats(&self, list: SeatList<'_>) -> Result<Vec<ListedSeat>, DatabaseError>;

    /// Counts the seats of a limit over all its lines, each to at most this number. Fails as
    /// [`Store::run`] does.
    async fn seat_counts(&self, limit: &str, at_most: u32) -> Result<SeatCounts, DatabaseError>;

    /// Returns the limits for steps that were declared or set, in the order of their names. Fails
    /// as [`Store::find`] does.
    async fn limits(&self) -> Result<Vec<LimitRecord>, DatabaseError>;

    /// Returns at most `limit` lines, after this one and in their order, in which a step waits for
    /// a seat. One index lookup per line.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails or does not answer.
    async fn waiting_lines(&self, after: Option<&SeatLine>, limit: u32) -> Result<Vec<SeatLine>, DatabaseError>;

    /// Returns the rows of these lines: see [`BatchTarget::read_lines`].
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails or does not answer.
    async fn seats(&self, lines: &[(&SeatLine, u32)]) -> Result<Vec<Vec<SeatRow>>, DatabaseError>;

    /// Returns until when the rates of these lines are used up. Fails as [`Store::run`] does.
    async fn line_rates(&self, lines: &[&SeatLine]) -> Result<ReadRates, DatabaseError>;

    /// Returns the steps of a run that wait for a seat, in the order of their keys. Fails as
    /// [`Store::run`] does.
    async fn seat_waits(&self, run: RunId) -> Result<Vec<SeatWait>, DatabaseError>;

    /// Notifies other processes that something changed that they may wait for. A hint: it may be
    /// lost.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails or does not answer.
    async fn hint(&self) -> Result<(), DatabaseError>;

    /// Opens a listener for hints from other processes.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails or does not answer.
    async fn listen(&self) -> Result<Box<dyn Listener>, DatabaseError>;

    /// `true` if the store lives in this process's memory. Its calls never block and its hints are
    /// never lost. So the executor and the lease keeper run on the caller's runtime and follow its
    /// clock, which may be paused, and polling is rare.
    fn in_process(&self) -> bool;

    /// `true` if the store does work for a batch while the batch before it is being committed. The
    /// executor then calls [`commit`](Store::commit) for the next batch as soon as many writes wait
    /// for it. Otherwise that batch grows until the answer to the one before it arrives.
    ///
    /// Default: `false`.
    fn prepares_next_batch(&self) -> bool {
        false
    }

    /// Ends all connections. Later calls fail with kind [`DatabaseErrorKind::Unreachable`].
    async fn close(&self);

    /// Starts, signals or cancels a run in a transaction that the caller commits: the change exists
    /// if and only if that transaction commits. After an error the transaction must be rolled back.
    ///
    /// # Errors
    /// [`WithinError::OtherDatabase`] if the transaction belongs to another kind of database; kind
    /// [`DatabaseErrorKind::Invalid`] if it leads to another database of the same kind, or the
    /// write is of another kind; else the error of the database.
    async fn commit_within(&self, transaction: ForeignTransaction<'_>, write: &Write) -> Result<Outcome, WithinError>;
}
