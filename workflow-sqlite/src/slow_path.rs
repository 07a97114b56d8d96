//! The slow path of a batch: a transaction that can apply writes of every kind.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use sqlx::SqliteConnection;

use workflow_engine::faults::{failpoint_error, planted};
use workflow_engine::model::{Claim, NewRun, NewSignal, RunId, RunStatus, StoredError, Timestamp, WorkerId};
use workflow_engine::store::{
    AttemptRow, AttemptWrite, BatchTarget, CancelOutcome, ClaimRequest, Claimed, ConsumedSignal, ContinueWrite,
    CrashesWrite, DatabaseError, EndWrite, Fence, Locks, Outcome, ParkWrite, RetryWrite, ReviveWrite, RunState,
    StartOutcome, Write, apply,
};

use super::database::Database;
use super::error::During;
use super::writer::WriterGuard;
use super::{
    attempt, cascade, claim, continue_as_new, crashes, fence, finish, fork, ownerless, pause, retry, signal, start,
};

/// Applies the writes in one transaction and returns the outcome of each, in their order.
pub(super) async fn slow_path(
    database: &Database,
    mut writer: WriterGuard,
    writes: &[Write],
) -> Result<Vec<Outcome>, DatabaseError> {
    writer.begin().await?;
    // The time is read under the write lock, so that the times of commits rise with their order.
    let mut target = SlowPath::new(writer.connection()?, database.now());
    let outcomes = apply(&mut target, writes).await;
    let outcomes = outcomes.and_then(|outcomes| Ok(failpoint_error("store.in_transaction").map(|()| outcomes)?));
    writer.end(outcomes).await
}

/// An open transaction as the target of a batch. The transaction excludes every other writer, so it
/// locks no rows.
pub(super) struct SlowPath<'c> {
    connection: &'c mut SqliteConnection,
    now: Timestamp,
}

impl<'c> SlowPath<'c> {
    /// Uses the transaction that is open on this connection, at this time.
    pub(super) fn new(connection: &'c mut SqliteConnection, now: Timestamp) -> Self {
        Self { connection, now }
    }
}

impl BatchTarget for SlowPath<'_> {
    type Error = DatabaseError;

    async fn free_keys(&mut self, runs: &[&NewRun]) -> Result<(), DatabaseError> {
        start::free_keys(self.connection, runs).await
    }

    async fn insert_runs(&mut self, runs: &[&NewRun]) -> Result<Vec<StartOutcome>, DatabaseError> {
        let started = start::start(self.connection, runs, self.now).await?;
        if planted("child-outside-transaction") && runs.iter().any(|run| run.parent.is_some()) {
            let commit = sqlx::raw_sql("COMMIT; BEGIN IMMEDIATE").execute(&mut *self.connection);
            commit.await.during("commit a child early")?;
        }
        Ok(started)
    }

    async fn lock_runs(&mut self, locks: &Locks) -> Result<Fence, DatabaseError> {
        fence::read(self.connection, &locks.claims).await
    }

    async fn mark_fork(&mut self, run: RunId) -> Result<bool, DatabaseError> {
        fork::mark(self.connection, run).await
    }

    async fn copy_history(&mut self, source: RunId, new: RunId, before: i64) -> Result<(), DatabaseError> {
        fork::copy_history(self.connection, source, new, before).await
    }

    async fn consume_signals(&mut self, consumed: &[ConsumedSignal<'_>]) -> Result<(), DatabaseError> {
        signal::consume(self.connection, consumed).await
    }

    async fn find_final(&mut self, attempts: &[&AttemptWrite]) -> Result<HashSet<usize>, DatabaseError> {
        attempt::find_final(self.connection, attempts).await
    }

    async fn record_attempts(&mut self, rows: &[AttemptRow<'_>]) -> Result<(), DatabaseError> {
        attempt::record(self.connection, rows).await.map(drop)
    }

    async fn insert_signals(&mut self, signals: &[&NewSignal]) -> Result<HashSet<(RunId, String)>, DatabaseError> {
        signal::insert(self.connection, signals, self.now).await
    }

    async fn find_signals(&mut self, signals: &[&NewSignal]) -> Result<HashSet<(RunId, String)>, DatabaseError> {
        signal::find(self.connection, signals).await
    }

    async fn wake_runs(&mut self, runs: &BTreeSet<RunId>) -> Result<(), DatabaseError> {
        signal::wake(self.connection, runs, self.now).await
    }

    async fn finish_claims(&mut self, ends: &[&EndWrite], parks: &[&ParkWrite]) -> Result<(), DatabaseError> {
        finish::end(self.connection, ends, self.now).await?;
        finish::park(self.connection, parks, self.now).await
    }

    async fn continue_runs(&mut self, continues: &[&ContinueWrite]) -> Result<(), DatabaseError> {
        continue_as_new::continue_runs(self.connection, continues, self.now).await
    }

    async fn retry_runs(&mut self, retries: &[&RetryWrite]) -> Result<(), DatabaseError> {
        retry::retry(self.connection, retries, self.now).await
    }

    async fn reset_outcomes(&mut self, steps: &[(RunId, &str)]) -> Result<(), DatabaseError> {
        retry::reset_outcomes(self.connection, steps).await
    }

    async fn revive_run(&mut self, write: &ReviveWrite) -> Result<bool, DatabaseError> {
        retry::revive(self.connection, write, self.now).await
    }

    async fn set_crashes(&mut self, writes: &[&CrashesWrite]) -> Result<(), DatabaseError> {
        crashes::set(self.connection, writes).await
    }

    async fn pause_run(&mut self, run: RunId) -> Result<Option<RunStatus>, DatabaseError> {
        pause::pause(self.connection, run, self.now).await
    }

    async fn resume_run(&mut self, run: RunId) -> Result<bool, DatabaseError> {
        pause::resume(self.connection, run).await
    }

    async fn read_state(&mut self, run: RunId) -> Result<Option<RunState>, DatabaseError> {
        pause::read_state(self.connection, run).await
    }

    async fn release_unknown_claims(&mut self, worker: WorkerId, known: &[Claim]) -> Result<u64, DatabaseError> {
        ownerless::release_unknown(self.connection, worker, known, self.now).await
    }

    async fn cancel_runs(&mut self, runs: &[RunId]) -> Result<HashMap<RunId, CancelOutcome>, DatabaseError> {
        ownerless::cancel(self.connection, runs, self.now).await
    }

    async fn terminate_runs(&mut self, runs: &[RunId]) -> Result<HashMap<RunId, CancelOutcome>, DatabaseError> {
        ownerless::terminate(self.connection, runs, self.now).await
    }

    async fn expire_runs(
        &mut self,
        limit: u32,
        patience: Duration,
        error: &StoredError,
    ) -> Result<Vec<RunId>, DatabaseError> {
        ownerless::expire(self.connection, limit, patience, error, self.now).await
    }

    async fn find_parents(&mut self, runs: &BTreeSet<RunId>) -> Result<Vec<RunId>, DatabaseError> {
        cascade::find_parents(self.connection, runs).await
    }

    async fn cancel_children(&mut self, parents: &BTreeSet<RunId>) -> Result<(), DatabaseError> {
        cascade::cancel_children(self.connection, parents, self.now).await
    }

    async fn claim_runs(&mut self, request: &ClaimRequest) -> Result<Claimed, DatabaseError> {
        let runs = claim::claim(self.connection, request, self.now).await?;
        Ok(Claimed { runs, now: self.now })
    }
}
