use std::collections::{BTreeSet, HashMap, HashSet};
use std::future::Future;
use std::time::Duration;

use crate::model::{
    AcceptedSignal, Claim, EventWait, Lane, LeftWait, LimitRecord, MovedRun, NewEmission, NewRun, NewSignal, RunId,
    RunStatus, SeatLine, SingleKey, StoredError, StoredSchedule, Timestamp, WorkerId,
};

use super::attempt_row::AttemptRow;
use super::audit::InsertedAudit;
use super::bulk_target::BulkTarget;
use super::deletion::{DeletedRun, FoundRun};
use super::fence::Fence;
use super::gates::{EndedTurn, GateTurn, LockedGate};
use super::limited_claim::LockedQueue;
use super::line_rate::ReadRates;
use super::locks::{LockedEvents, Locks, RunState};
use super::room::{Bounds, WaitingPlace};
use super::seat_line::{AskedSeat, SeatRow};
use super::single::{FoundSingle, SingleRun};
use super::statistics::StatisticsTarget;
use super::{
    AttemptWrite, CancelOutcome, ClaimRequest, Claimed, ContinueWrite, CrashesWrite, Emitted, EndWrite, LimitWrite,
    ParkWrite, QueueWrite, RetryWrite, ReviveWrite, StartOutcome,
};

/// An open transaction to which [`apply`](super::apply()) applies a batch.
///
/// A target stores and reports facts; it decides nothing about other writes. `apply` calls each
/// method only with something to do, at most once per batch where it takes a slice of writes, and
/// only with writes that the fence has passed.
///
/// # Errors
/// Each method returns the errors of the database. After one, the transaction is rolled back.
pub trait BatchTarget: BulkTarget + super::PlaceTarget + StatisticsTarget {
    /// Changes the records of queues, in the order of their names.
    fn write_queues(&mut self, writes: &[&QueueWrite]) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Changes the rules of limits for steps, in the order of their names.
    fn write_limits(&mut self, writes: &[&LimitWrite]) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Keeps other transactions from giving seats of these lines out until the commit. Later reads
    /// of the lines see every commit that ended before this returned. A store whose transaction
    /// excludes every other one needs no lock.
    fn lock_lines(&mut self, lines: &BTreeSet<&SeatLine>) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Returns the records of the limits that have one.
    fn read_limits(
        &mut self,
        names: &BTreeSet<&str>,
    ) -> impl Future<Output = Result<Vec<LimitRecord>, Self::Error>> + Send;

    /// Returns the rows of each of these lines: all that have an epoch, and of those that wait the
    /// first ones, at most the number beside the line. Leaves out a waiting row if its run is
    /// paused, pending, ended or parked in a paused queue, or if it was called over
    /// [`CALL_PATIENCE`](super::CALL_PATIENCE) ago. A step of `asking` then counts as not called.
    fn read_lines(
        &mut self,
        lines: &[(&SeatLine, u32)],
        asking: &[(RunId, &str)],
    ) -> impl Future<Output = Result<Vec<Vec<SeatRow>>, Self::Error>> + Send;

    /// Returns until when the rates of these locked lines are used up, and the present time.
    fn read_line_rates(&mut self, lines: &[&SeatLine]) -> impl Future<Output = Result<ReadRates, Self::Error>> + Send;

    /// Stores until when the rates of these locked lines are used up.
    fn use_line_rates(
        &mut self,
        lines: &[(&SeatLine, Timestamp)],
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Forgets at most this number of rates whose times have passed, of any lines: they say the
    /// same as none. Waits for no other transaction.
    fn forget_line_rates(&mut self, at_most: u32) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Writes the rows of steps that ask for seats. A row of the same line keeps the time at which
    /// it asked; another one gets a time after all of its line.
    fn write_seats(&mut self, seats: &[AskedSeat<'_>]) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Deletes the rows of these steps.
    fn delete_seats(&mut self, steps: &[(RunId, &str)]) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Notes that these steps were called now.
    fn mark_called(&mut self, steps: &[(RunId, String)]) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Returns the revisions of the schedules that exist. They hold until the commit. A store that
    /// locks rows locks them here, in the order of their names.
    fn lock_schedules(
        &mut self,
        names: &BTreeSet<&str>,
    ) -> impl Future<Output = Result<HashMap<String, i64>, Self::Error>> + Send;

    /// Writes the rows of schedules that it has locked, in the order of their names.
    fn update_schedules(&mut self, rows: &[&StoredSchedule]) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Inserts the rows of schedules, in the order of their names, unless another transaction has
    /// inserted one of the same name meanwhile. Returns the names of the inserted rows.
    fn insert_schedules(
        &mut self,
        rows: &[&StoredSchedule],
    ) -> impl Future<Output = Result<HashSet<String>, Self::Error>> + Send;

    /// Deletes schedules that it has locked.
    fn delete_schedules(&mut self, names: &[&str]) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Takes the keys of these starts away from failed and canceled runs, before
    /// [`BatchTarget::insert_runs`]; for a child, from children of its step alone. Changes nothing
    /// for a start whose run exists, because an earlier commit whose reply was lost made it, and
    /// none at all if one of these queues has bounds.
    fn free_keys(
        &mut self,
        runs: &[&NewRun],
        unless_bounded: &BTreeSet<&str>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Inserts runs and returns the outcome of each, in their order. Of several with one key or one
    /// id, the first is inserted. A run whose id is taken is the run itself, made by an earlier
    /// commit whose reply was lost: its outcome is [`StartOutcome::Created`].
    fn insert_runs(&mut self, runs: &[&NewRun]) -> impl Future<Output = Result<Vec<StartOutcome>, Self::Error>> + Send;

    /// Inserts runs as [`BatchTarget::insert_runs`] does, if no queue of theirs has [`Bounds`], and
    /// without a further statement. If one has, it may insert some and return `None`:
    /// [`apply`](super::apply()) then counts, and inserts those that may start.
    fn insert_unbounded_runs(
        &mut self,
        runs: &[&NewRun],
    ) -> impl Future<Output = Result<Option<Vec<StartOutcome>>, Self::Error>> + Send;

    /// Returns the bounds of these queues, and keeps other batches from starting runs in those that
    /// have some until the commit. If it may not wait, it says which queues others hold. In a
    /// transaction of the application it locks nothing, because that may stay open for long.
    fn lock_bounds(
        &mut self,
        queues: &BTreeSet<&str>,
        waits: bool,
    ) -> impl Future<Output = Result<Bounds, Self::Error>> + Send;

    /// Finds the runs of these starts, by their ids or keys. Returns those that exist, by the
    /// index of the start, with the outcome that the start has if its run stays as it is. Sees
    /// every commit that ended before [`BatchTarget::lock_bounds`] returned.
    fn find_started(
        &mut self,
        runs: &[&NewRun],
    ) -> impl Future<Output = Result<HashMap<usize, StartOutcome>, Self::Error>> + Send;

    /// Counts the runs that wait in each of these places, to at most its bound: runs with a
    /// priority, which have not begun, except paused ones. Sees every commit that ended before
    /// [`BatchTarget::lock_bounds`] returned.
    fn count_waiting(
        &mut self,
        places: &[WaitingPlace<'_>],
    ) -> impl Future<Output = Result<Vec<u32>, Self::Error>> + Send;

    /// Locks the single keys of these runs until the commit, and returns the indexes of those that
    /// another transaction has locked. In a batch of the executor it waits for no transaction.
    fn lock_singles(
        &mut self,
        runs: &[SingleRun<'_>],
    ) -> impl Future<Output = Result<HashSet<usize>, Self::Error>> + Send;

    /// Finds these runs, and the runs that have their single keys. Returns one answer per run, in
    /// their order.
    fn find_singles(
        &mut self,
        runs: &[SingleRun<'_>],
    ) -> impl Future<Output = Result<Vec<FoundSingle>, Self::Error>> + Send;

    /// Gives runs that this transaction has inserted their single keys.
    fn set_single_keys(&mut self, runs: &[SingleRun<'_>]) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Takes their single keys from runs.
    fn clear_single_keys(&mut self, runs: &[RunId]) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Gives runs that have not begun the lane, input, start time, deadline, priority and tags of
    /// new runs: see [`WhenTaken::Move`](crate::model::WhenTaken). Each run occurs once.
    fn move_runs(&mut self, runs: &[(&MovedRun, &NewRun)]) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Returns the workflow and the single key that a run gets back if it is revived after this
    /// attempt; `None` if it gets none back.
    fn read_lost_single(
        &mut self,
        run: RunId,
        attempt: i64,
    ) -> impl Future<Output = Result<Option<(String, SingleKey)>, Self::Error>> + Send;

    /// Makes what the returned fence says hold until the commit. A store that locks rows locks all
    /// runs of `locks` here, in the order of their ids, so that no two batches deadlock.
    fn lock_runs(&mut self, locks: &Locks) -> impl Future<Output = Result<Fence, Self::Error>> + Send;

    /// Sets the epoch of a run from 0 to 1, and returns whether it was 0.
    fn mark_fork(&mut self, run: RunId) -> impl Future<Output = Result<bool, Self::Error>> + Send;

    /// Copies from `source` to `new` the history that a fork keeps: see
    /// [`ForkWrite`](super::ForkWrite).
    fn copy_history(
        &mut self,
        source: RunId,
        new: RunId,
        before: i64,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Takes signals out of the inboxes. A signal that was consumed before stays as it is.
    fn consume_signals(
        &mut self,
        consumed: &[ConsumedSignal<'_>],
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Returns the indexes of those of these attempts whose rows are final already.
    fn find_final(
        &mut self,
        attempts: &[&AttemptWrite],
    ) -> impl Future<Output = Result<HashSet<usize>, Self::Error>> + Send;

    /// Inserts rows of attempts, or updates those that are still running. A row that is final stays
    /// as it is.
    fn record_attempts(&mut self, rows: &[AttemptRow<'_>]) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Inserts signals whose key the run's inbox does not have, unless their limit of waiting
    /// signals is reached. Returns run and key of each new row.
    fn insert_signals(
        &mut self,
        signals: &[&NewSignal],
    ) -> impl Future<Output = Result<HashSet<(RunId, String)>, Self::Error>> + Send;

    /// Returns the signals in the inboxes of these runs, consumed ones included, that have the keys
    /// of these signals, by run and key.
    fn find_signals(
        &mut self,
        signals: &[&NewSignal],
    ) -> impl Future<Output = Result<HashMap<(RunId, String), AcceptedSignal>, Self::Error>> + Send;

    /// Keeps waits for these events from being registered until the commit, and returns the runs
    /// that wait for them. A store whose transaction excludes every other one needs no lock.
    fn lock_events(
        &mut self,
        emissions: &[&NewEmission],
    ) -> impl Future<Output = Result<LockedEvents, Self::Error>> + Send;

    /// Registers waits for events, except a wait that has received its event. Does not register a
    /// wait whose event another transaction is emitting, and returns the indexes of such waits.
    fn begin_event_waits(
        &mut self,
        waits: &[StepOf<'_, EventWait>],
    ) -> impl Future<Output = Result<HashSet<usize>, Self::Error>> + Send;

    /// Ends waits for events. A wait that ends only [unless
    /// delivered](LeftWait::unless_delivered) stays if its event was delivered, and its index is
    /// returned. If the event of any other of these waits was delivered, it is taken out of the
    /// inbox.
    fn leave_event_waits(
        &mut self,
        waits: &[StepOf<'_, LeftWait>],
    ) -> impl Future<Output = Result<HashSet<usize>, Self::Error>> + Send;

    /// Delivers an event to every registered wait of a run that has not ended, once, and ends these
    /// waits. The runs are not woken here. A step's emission that was made before changes nothing:
    /// the inbox of its run has the number of runs.
    fn emit_event(&mut self, emission: &NewEmission) -> impl Future<Output = Result<Emitted, Self::Error>> + Send;

    /// Deletes the waits of these runs for events, the events that were delivered to them and not
    /// consumed, and their seats.
    fn delete_event_waits(&mut self, runs: &BTreeSet<RunId>) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Adds 1 to the `wakes` of those of these runs that have not ended, and makes parked ones due.
    fn wake_runs(&mut self, runs: &BTreeSet<RunId>) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Sets the crashes of runs, sorted by run. The last write of a run counts.
    fn set_crashes(&mut self, writes: &[&CrashesWrite]) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Ends and parks runs. Each run occurs once in both slices together, and each slice is sorted
    /// by run.
    fn finish_claims(
        &mut self,
        ends: &[&EndWrite],
        parks: &[&ParkWrite],
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Begins the next generation of runs, sorted by run.
    fn continue_runs(&mut self, continues: &[&ContinueWrite]) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Gives runs their next attempt, sorted by run, and ends their open waits and sleeps.
    fn retry_runs(&mut self, retries: &[&RetryWrite]) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Takes the positions from failed outcomes of these steps, so that the steps are attempted
    /// again.
    fn reset_outcomes(&mut self, steps: &[(RunId, &str)]) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Makes a run pending if it failed at the write's attempt, deletes its interruption, and ends
    /// its open waits and sleeps. Returns whether it did.
    fn revive_run(&mut self, write: &ReviveWrite) -> impl Future<Output = Result<bool, Self::Error>> + Send;

    /// Pauses a run that has not ended and returns its status; `None` if there is no such run.
    fn pause_run(&mut self, run: RunId) -> impl Future<Output = Result<Option<RunStatus>, Self::Error>> + Send;

    /// Resumes a run, and returns whether it was paused.
    fn resume_run(&mut self, run: RunId) -> impl Future<Output = Result<bool, Self::Error>> + Send;

    /// Returns the state of a run; `None` if there is no such run.
    fn read_state(&mut self, run: RunId) -> impl Future<Output = Result<Option<RunState>, Self::Error>> + Send;

    /// Parks the running runs of a worker whose claims are not in `known`, due now. Returns their
    /// number.
    fn release_unknown_claims(
        &mut self,
        worker: WorkerId,
        known: &[Claim],
    ) -> impl Future<Output = Result<u64, Self::Error>> + Send;

    /// Cancels runs, sorted and each once. Returns the outcome of each run that exists.
    fn cancel_runs(
        &mut self,
        runs: &[RunId],
    ) -> impl Future<Output = Result<HashMap<RunId, CancelOutcome>, Self::Error>> + Send;

    /// Terminates runs, sorted and each once. Returns the outcome of each run that exists.
    fn terminate_runs(
        &mut self,
        runs: &[RunId],
    ) -> impl Future<Output = Result<HashMap<RunId, CancelOutcome>, Self::Error>> + Send;

    /// Resumes at most `limit` late runs, then fails at most `limit` late runs and returns these:
    /// see [`Write::Expire`](super::Write::Expire). A running run gets a new epoch. It fails only
    /// once its worker is not recorded and `patience` has passed since its lease.
    fn expire_runs(
        &mut self,
        limit: u32,
        patience: Duration,
        error: &StoredError,
    ) -> impl Future<Output = Result<Vec<RunId>, Self::Error>> + Send;

    /// Returns those of these runs that exist, as far as it decides about their deletion.
    fn find_deleted(
        &mut self,
        runs: &BTreeSet<RunId>,
    ) -> impl Future<Output = Result<HashMap<RunId, FoundRun>, Self::Error>> + Send;

    /// Deletes these runs, and every row that belongs to one of them. Returns what each one had.
    fn delete_runs(
        &mut self,
        runs: &BTreeSet<RunId>,
    ) -> impl Future<Output = Result<HashMap<RunId, DeletedRun>, Self::Error>> + Send;

    /// Returns the parents of those of these runs that have one.
    fn find_parents(&mut self, runs: &BTreeSet<RunId>) -> impl Future<Output = Result<Vec<RunId>, Self::Error>> + Send;

    /// Cancels the children of these runs that are to end with their parent. A child that no worker
    /// ever claimed ends. Returns those that have ended.
    fn cancel_children(
        &mut self,
        parents: &BTreeSet<RunId>,
    ) -> impl Future<Output = Result<Vec<RunId>, Self::Error>> + Send;

    /// Locks the records of these queues until the commit, and returns what they say. Leaves out
    /// those that another transaction has locked, and does not wait for them. May leave out a queue
    /// without a record: the worker that asks for it has read a record, and none is ever deleted.
    fn lock_queues(&mut self, queues: &[String]) -> impl Future<Output = Result<Vec<LockedQueue>, Self::Error>> + Send;

    /// Counts the running runs of each of these queues, to at most the number beside it. Sees every
    /// commit that ended before [`BatchTarget::lock_queues`] returned.
    fn count_running(&mut self, queues: &[(String, u32)])
    -> impl Future<Output = Result<Vec<u32>, Self::Error>> + Send;

    /// Locks gates until the commit, and returns at most `limit` of those behind which runs of
    /// these lanes may be due, in the order of their turns. Leaves out gates that another
    /// transaction has locked, and does not wait for them. A gate may come more than once, with
    /// other lanes.
    fn lock_gates(
        &mut self,
        lanes: &[Lane],
        limit: u32,
    ) -> impl Future<Output = Result<Vec<LockedGate>, Self::Error>> + Send;

    /// Counts the running runs of each of these gates, over all lanes. Sees every commit that ended
    /// before [`BatchTarget::lock_gates`] returned.
    fn count_behind(&mut self, gates: &[&LockedGate]) -> impl Future<Output = Result<Vec<u32>, Self::Error>> + Send;

    /// Returns at most `limit` gates of these lanes behind which the lease of a run has ended.
    /// Reads only running runs, and locks nothing.
    fn find_lapsed_gates(
        &mut self,
        lanes: &[Lane],
        limit: u32,
    ) -> impl Future<Output = Result<Vec<(Lane, String)>, Self::Error>> + Send;

    /// Claims due runs of these, from the lanes of the request and then from these gates in turns.
    /// Does not look at the limits of queues and gates.
    fn claim_runs(
        &mut self,
        request: &ClaimRequest,
        gates: &[GateTurn],
        due: DueRuns,
    ) -> impl Future<Output = Result<Claimed, Self::Error>> + Send;

    /// Says until when the rates of these queues and gates are used up, which it has locked.
    fn use_rates(
        &mut self,
        queues: &[(&LockedQueue, Timestamp)],
        gates: &[(&LockedGate, Timestamp)],
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Says when claims look at these gates again.
    fn end_turns(&mut self, turns: &[EndedTurn<'_>]) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Inserts audit rows, except those whose ids exist.
    fn insert_audits(&mut self, rows: &[InsertedAudit<'_>]) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// The due runs that a claim takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DueRuns {
    /// All.
    All,
    /// Those that have begun: they go on, or their lease has ended.
    Begun,
    /// Those that have not begun.
    New,
    /// Those whose lease has ended.
    Lapsed,
}

/// Something that belongs to a step of a run.
#[derive(Debug, PartialEq, Eq)]
pub struct StepOf<'w, T> {
    /// The run.
    pub run_id: RunId,
    /// The step.
    pub step_key: &'w str,
    /// The thing that belongs to the step.
    pub it: &'w T,
}

impl<T> Clone for StepOf<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for StepOf<'_, T> {}

/// A signal that a step consumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumedSignal<'w> {
    /// The run in whose inbox it is.
    pub run_id: RunId,
    /// Its number in that inbox.
    pub seq: i64,
    /// The step.
    pub step_key: &'w str,
}
