//! A batch applied to the tables.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::convert::Infallible;
use std::time::Duration;

use futures::FutureExt;

use workflow_engine::faults::failpoint;
use workflow_engine::model::{Claim, NewRun, NewSignal, RunId, RunStatus, StoredError, Timestamp, WorkerId};
use workflow_engine::store::{
    Asked, AttemptRow, AttemptWrite, BatchTarget, CancelOutcome, ClaimRequest, Claimed, ConsumedSignal, ContinueWrite,
    CrashesWrite, DatabaseError, DatabaseErrorKind, EndWrite, Fence, Locks, Outcome, ParkWrite, RetryWrite,
    ReviveWrite, RunState, StartOutcome, Write, apply,
};

use super::tables::Tables;
use super::{attempt, cascade, claim, continue_as_new, crashes, finish, fork, ownerless, pause, retry, signal, start};

/// Applies the writes. See [`Store::commit`](workflow_engine::store::Store::commit).
pub(super) fn commit(tables: &mut Tables, writes: &[Write], now: Timestamp) -> Result<Vec<Outcome>, DatabaseError> {
    let outcomes = apply(&mut Batch { tables, now }, writes).now_or_never();
    failpoint("store.in_transaction");
    let waits = || DatabaseError::new(DatabaseErrorKind::Other, "commit a batch", "a batch in memory waits");
    outcomes.ok_or_else(waits)?
}

/// Reads the runs that decide about a batch.
pub(super) fn read_fence(tables: &Tables, asked: &Asked) -> Fence {
    let facts = asked.iter().filter_map(|(id, epoch)| {
        let fact = tables.run(*id).map(|run| (run.epoch, run.status));
        let holds = epoch.is_some_and(|epoch| fact == Some((epoch, RunStatus::Running)));
        (!holds).then_some(Ok::<_, Infallible>((*id, fact)))
    });
    match Fence::of(facts) {
        Ok(fence) => fence,
        Err(never) => match never {},
    }
}

/// The tables as the target of a batch. Its futures never wait, and nothing in it fails. Because
/// the tables are behind one mutex, it locks no rows.
struct Batch<'t> {
    tables: &'t mut Tables,
    now: Timestamp,
}

impl BatchTarget for Batch<'_> {
    type Error = DatabaseError;

    async fn free_keys(&mut self, runs: &[&NewRun]) -> Result<(), DatabaseError> {
        runs.iter().for_each(|run| start::free_key(self.tables, run));
        Ok(())
    }

    async fn insert_runs(&mut self, runs: &[&NewRun]) -> Result<Vec<StartOutcome>, DatabaseError> {
        Ok(runs.iter().map(|run| start::start(self.tables, run, self.now)).collect())
    }

    async fn lock_runs(&mut self, locks: &Locks) -> Result<Fence, DatabaseError> {
        Ok(read_fence(self.tables, &locks.claims))
    }

    async fn mark_fork(&mut self, run: RunId) -> Result<bool, DatabaseError> {
        Ok(fork::mark(self.tables, run))
    }

    async fn copy_history(&mut self, source: RunId, new: RunId, before: i64) -> Result<(), DatabaseError> {
        fork::copy_history(self.tables, source, new, before);
        Ok(())
    }

    async fn consume_signals(&mut self, consumed: &[ConsumedSignal<'_>]) -> Result<(), DatabaseError> {
        consumed.iter().for_each(|signal| signal::consume(self.tables, *signal));
        Ok(())
    }

    async fn find_final(&mut self, attempts: &[&AttemptWrite]) -> Result<HashSet<usize>, DatabaseError> {
        Ok((0..attempts.len()).filter(|index| attempt::is_final(self.tables, attempts[*index])).collect())
    }

    async fn record_attempts(&mut self, rows: &[AttemptRow<'_>]) -> Result<(), DatabaseError> {
        for row in rows {
            attempt::record(self.tables, *row);
        }
        Ok(())
    }

    async fn insert_signals(&mut self, signals: &[&NewSignal]) -> Result<HashSet<(RunId, String)>, DatabaseError> {
        let new = signals.iter().filter(|signal| signal::insert(self.tables, signal));
        Ok(new.map(|signal| (signal.run_id, signal.key.as_str().to_owned())).collect())
    }

    async fn find_signals(&mut self, signals: &[&NewSignal]) -> Result<HashSet<(RunId, String)>, DatabaseError> {
        let found = signals.iter().filter(|signal| signal::has_key(self.tables, signal));
        Ok(found.map(|signal| (signal.run_id, signal.key.as_str().to_owned())).collect())
    }

    async fn wake_runs(&mut self, runs: &BTreeSet<RunId>) -> Result<(), DatabaseError> {
        signal::wake(self.tables, runs, self.now);
        Ok(())
    }

    async fn finish_claims(&mut self, ends: &[&EndWrite], parks: &[&ParkWrite]) -> Result<(), DatabaseError> {
        ends.iter().for_each(|write| finish::end(self.tables, write, self.now));
        parks.iter().for_each(|write| finish::park(self.tables, write, self.now));
        Ok(())
    }

    async fn continue_runs(&mut self, continues: &[&ContinueWrite]) -> Result<(), DatabaseError> {
        continues.iter().for_each(|write| continue_as_new::continue_run(self.tables, write, self.now));
        Ok(())
    }

    async fn retry_runs(&mut self, retries: &[&RetryWrite]) -> Result<(), DatabaseError> {
        retries.iter().for_each(|write| retry::retry(self.tables, write, self.now));
        Ok(())
    }

    async fn reset_outcomes(&mut self, steps: &[(RunId, &str)]) -> Result<(), DatabaseError> {
        steps.iter().for_each(|(run, step_key)| retry::reset_outcome(self.tables, *run, step_key));
        Ok(())
    }

    async fn revive_run(&mut self, write: &ReviveWrite) -> Result<bool, DatabaseError> {
        Ok(retry::revive(self.tables, write, self.now))
    }

    async fn set_crashes(&mut self, writes: &[&CrashesWrite]) -> Result<(), DatabaseError> {
        writes.iter().for_each(|write| crashes::set(self.tables, write));
        Ok(())
    }

    async fn pause_run(&mut self, run: RunId) -> Result<Option<RunStatus>, DatabaseError> {
        Ok(pause::pause(self.tables, run, self.now))
    }

    async fn resume_run(&mut self, run: RunId) -> Result<bool, DatabaseError> {
        Ok(pause::resume(self.tables, run))
    }

    async fn read_state(&mut self, run: RunId) -> Result<Option<RunState>, DatabaseError> {
        Ok(self.tables.run(run).map(|run| RunState { status: run.status, attempt: run.attempt }))
    }

    async fn release_unknown_claims(&mut self, worker: WorkerId, known: &[Claim]) -> Result<u64, DatabaseError> {
        Ok(ownerless::release_unknown(self.tables, worker, known, self.now))
    }

    async fn cancel_runs(&mut self, runs: &[RunId]) -> Result<HashMap<RunId, CancelOutcome>, DatabaseError> {
        let cancel = |run: &RunId| Some((*run, ownerless::cancel(self.tables, *run, self.now)?));
        Ok(runs.iter().filter_map(cancel).collect())
    }

    async fn terminate_runs(&mut self, runs: &[RunId]) -> Result<HashMap<RunId, CancelOutcome>, DatabaseError> {
        let terminate = |run: &RunId| Some((*run, ownerless::terminate(self.tables, *run, self.now)?));
        Ok(runs.iter().filter_map(terminate).collect())
    }

    async fn expire_runs(
        &mut self,
        limit: u32,
        patience: Duration,
        error: &StoredError,
    ) -> Result<Vec<RunId>, DatabaseError> {
        Ok(ownerless::expire(self.tables, limit, patience, error, self.now))
    }

    async fn find_parents(&mut self, runs: &BTreeSet<RunId>) -> Result<Vec<RunId>, DatabaseError> {
        Ok(cascade::find_parents(self.tables, runs))
    }

    async fn cancel_children(&mut self, parents: &BTreeSet<RunId>) -> Result<(), DatabaseError> {
        cascade::cancel_children(self.tables, parents, self.now);
        Ok(())
    }

    async fn claim_runs(&mut self, request: &ClaimRequest) -> Result<Claimed, DatabaseError> {
        Ok(claim::claim(self.tables, request, self.now))
    }
}
