use std::collections::{BTreeSet, HashMap, HashSet};
use std::future::Future;
use std::time::Duration;

use crate::model::{Claim, NewRun, NewSignal, RunId, RunStatus, StoredError, WorkerId};

use super::attempt_row::AttemptRow;
use super::fence::Fence;
use super::locks::Locks;
use super::outcomes::MissingOutcome;
use super::{
    AttemptWrite, CancelOutcome, ClaimRequest, Claimed, ContinueWrite, CrashesWrite, EndWrite, ParkWrite, RetryWrite,
    ReviveWrite, StartOutcome,
};

/// An open transaction to which [`apply`](super::apply()) applies a batch.
///
/// A target stores and reports facts; it decides nothing about other writes. `apply` calls each
/// method only with something to do, at most once per batch where it takes a slice of writes, and
/// only with writes that the fence has passed.
///
/// # Errors
/// Each method returns the errors of the database. After one, the transaction is rolled back.
pub trait BatchTarget: Send {
    /// An error of the database.
    type Error: From<MissingOutcome>;

    /// Takes the keys of these starts away from failed and canceled runs, before
    /// [`BatchTarget::insert_runs`]. Changes nothing for a start whose run exists, because it was
    /// made by an earlier commit whose reply was lost.
    fn free_keys(&mut self, runs: &[&NewRun]) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Inserts runs and returns the outcome of each, in their order. Of several with one key or one
    /// id, the first is inserted. A run whose id is taken is the run itself, made by an earlier
    /// commit whose reply was lost: its outcome is [`StartOutcome::Created`].
    fn insert_runs(&mut self, runs: &[&NewRun]) -> impl Future<Output = Result<Vec<StartOutcome>, Self::Error>> + Send;

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

    /// Returns run and key of those of these signals whose key the run's inbox has.
    fn find_signals(
        &mut self,
        signals: &[&NewSignal],
    ) -> impl Future<Output = Result<HashSet<(RunId, String)>, Self::Error>> + Send;

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

    /// Gives runs their next attempt, sorted by run. Their steps stay as they are.
    fn retry_runs(&mut self, retries: &[&RetryWrite]) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Takes the positions from failed outcomes of these steps, so that the steps are attempted
    /// again.
    fn reset_outcomes(&mut self, steps: &[(RunId, &str)]) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Makes a run pending if it failed at the write's attempt, and deletes its interruption.
    /// Returns whether it did.
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

    /// Fails, with this error, at most `limit` runs that no worker holds and whose deadline has
    /// passed. A run that was claimed before is left alone until `patience` after its deadline.
    /// Returns the failed runs.
    fn expire_runs(
        &mut self,
        limit: u32,
        patience: Duration,
        error: &StoredError,
    ) -> impl Future<Output = Result<Vec<RunId>, Self::Error>> + Send;

    /// Returns the parents of those of these runs that have one.
    fn find_parents(&mut self, runs: &BTreeSet<RunId>) -> impl Future<Output = Result<Vec<RunId>, Self::Error>> + Send;

    /// Cancels the children of these runs that are to end with their parent. A child that no worker
    /// ever claimed ends.
    fn cancel_children(&mut self, parents: &BTreeSet<RunId>) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Claims due runs, from the lanes in turns.
    fn claim_runs(&mut self, request: &ClaimRequest) -> impl Future<Output = Result<Claimed, Self::Error>> + Send;
}

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

/// The state of a run, as far as it decides about pauses, resumes and revivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunState {
    /// The run's status.
    pub status: RunStatus,
    /// Which attempt of the run this is, from 1.
    pub attempt: i64,
}
