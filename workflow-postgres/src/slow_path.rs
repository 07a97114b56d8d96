//! The slow path of a batch: a transaction that can apply writes of every kind.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use sqlx::{Connection, PgConnection};

use workflow_engine::faults::{failpoint_error, planted};
use workflow_engine::model::{Claim, Clock, NewRun, NewSignal, RunId, RunStatus, StoredError, WorkerId};
use workflow_engine::store::{
    AttemptRow, AttemptWrite, BatchTarget, CancelOutcome, ClaimRequest, Claimed, ConsumedSignal, ContinueWrite,
    CrashesWrite, EndWrite, Fence, Locks, Outcome, ParkWrite, RetryWrite, ReviveWrite, RunState, StartOutcome, Write,
    apply,
};

use super::context::Context;
use super::error::Failure;
use super::ownership::Workers;
use super::sql::Sql;
use super::{
    attempt, cascade, claim, continue_as_new, crashes, fence, finish, fork, ownerless, pause, read, retry, signal,
    start,
};

/// Stated in the transaction itself: behind a pooler, the settings may be those of another session.
pub(super) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// Applies the writes in one transaction and returns the outcome of each, in their order.
pub(super) async fn slow_path(
    connection: &mut PgConnection,
    Context { sql, clock, workers }: Context<'_>,
    writes: &[Write],
) -> Result<Vec<Outcome>, Failure> {
    let begun = connection.begin_with(BEGIN).await;
    let mut transaction = begun.map_err(|error| Failure::from(error).breaking())?;
    match apply(&mut SlowPath { connection: &mut transaction, sql, clock, workers }, writes).await {
        Ok(outcomes) => {
            failpoint_error("store.in_transaction")?;
            transaction.commit().await?;
            Ok(outcomes)
        }
        Err(failure) => {
            // A broken connection cannot answer, and the failure says that it is broken.
            if !failure.breaks_connection {
                transaction.rollback().await?;
            }
            Err(failure)
        }
    }
}

/// An open transaction as the target of a batch.
pub(super) struct SlowPath<'c> {
    pub(super) connection: &'c mut PgConnection,
    pub(super) sql: &'c Sql,
    pub(super) clock: &'c Clock,
    /// The workers of this process, whose locked rows may stand for their runs.
    pub(super) workers: &'c Workers,
}

impl BatchTarget for SlowPath<'_> {
    type Error = Failure;

    async fn free_keys(&mut self, runs: &[&NewRun]) -> Result<(), Failure> {
        start::free_keys(self.connection, self.sql, runs).await
    }

    async fn insert_runs(&mut self, runs: &[&NewRun]) -> Result<Vec<StartOutcome>, Failure> {
        let started = start::start(self.connection, self.sql, self.clock, runs).await?;
        if planted("child-outside-transaction") && runs.iter().any(|run| run.parent.is_some()) {
            sqlx::raw_sql("COMMIT; BEGIN").execute(&mut *self.connection).await?;
        }
        Ok(started)
    }

    async fn lock_runs(&mut self, locks: &Locks) -> Result<Fence, Failure> {
        fence::lock_batch(self.connection, self.sql, self.workers, locks).await
    }

    async fn mark_fork(&mut self, run: RunId) -> Result<bool, Failure> {
        fork::mark(self.connection, self.sql, run).await
    }

    async fn copy_history(&mut self, source: RunId, new: RunId, before: i64) -> Result<(), Failure> {
        fork::copy_history(self.connection, self.sql, source, new, before).await
    }

    async fn consume_signals(&mut self, consumed: &[ConsumedSignal<'_>]) -> Result<(), Failure> {
        signal::consume(self.connection, self.sql, consumed).await
    }

    async fn find_final(&mut self, attempts: &[&AttemptWrite]) -> Result<HashSet<usize>, Failure> {
        attempt::find_final(self.connection, self.sql, attempts).await
    }

    async fn record_attempts(&mut self, rows: &[AttemptRow<'_>]) -> Result<(), Failure> {
        attempt::record(self.connection, self.sql, rows).await.map(drop)
    }

    async fn insert_signals(&mut self, signals: &[&NewSignal]) -> Result<HashSet<(RunId, String)>, Failure> {
        signal::insert(self.connection, self.sql, self.clock, signals).await
    }

    async fn find_signals(&mut self, signals: &[&NewSignal]) -> Result<HashSet<(RunId, String)>, Failure> {
        signal::find(self.connection, self.sql, signals).await
    }

    async fn wake_runs(&mut self, runs: &BTreeSet<RunId>) -> Result<(), Failure> {
        signal::wake(self.connection, self.sql, self.clock, runs).await
    }

    async fn finish_claims(&mut self, ends: &[&EndWrite], parks: &[&ParkWrite]) -> Result<(), Failure> {
        finish::finish(self.connection, self.sql, self.clock, ends, parks).await
    }

    async fn continue_runs(&mut self, continues: &[&ContinueWrite]) -> Result<(), Failure> {
        continue_as_new::continue_runs(self.connection, self.sql, self.clock, continues).await
    }

    async fn retry_runs(&mut self, retries: &[&RetryWrite]) -> Result<(), Failure> {
        retry::retry(self.connection, self.sql, self.clock, retries).await
    }

    async fn reset_outcomes(&mut self, steps: &[(RunId, &str)]) -> Result<(), Failure> {
        retry::reset_outcomes(self.connection, self.sql, steps).await
    }

    async fn revive_run(&mut self, write: &ReviveWrite) -> Result<bool, Failure> {
        retry::revive(self.connection, self.sql, self.clock, write).await
    }

    async fn set_crashes(&mut self, writes: &[&CrashesWrite]) -> Result<(), Failure> {
        crashes::set(self.connection, self.sql, writes).await
    }

    async fn pause_run(&mut self, run: RunId) -> Result<Option<RunStatus>, Failure> {
        pause::pause(self.connection, self.sql, self.clock, run).await
    }

    async fn resume_run(&mut self, run: RunId) -> Result<bool, Failure> {
        pause::resume(self.connection, self.sql, run).await
    }

    async fn read_state(&mut self, run: RunId) -> Result<Option<RunState>, Failure> {
        let run = read::run(self.connection, self.sql, run).await?;
        Ok(run.map(|run| RunState { status: run.status, attempt: run.attempt }))
    }

    async fn release_unknown_claims(&mut self, worker: WorkerId, known: &[Claim]) -> Result<u64, Failure> {
        ownerless::release_unknown(self.connection, self.sql, self.clock, worker, known).await
    }

    async fn cancel_runs(&mut self, runs: &[RunId]) -> Result<HashMap<RunId, CancelOutcome>, Failure> {
        ownerless::cancel(self.connection, self.sql, &self.sql.cancel_runs, self.clock, runs).await
    }

    async fn terminate_runs(&mut self, runs: &[RunId]) -> Result<HashMap<RunId, CancelOutcome>, Failure> {
        ownerless::cancel(self.connection, self.sql, &self.sql.terminate_runs, self.clock, runs).await
    }

    async fn expire_runs(
        &mut self,
        limit: u32,
        patience: Duration,
        error: &StoredError,
    ) -> Result<Vec<RunId>, Failure> {
        ownerless::expire(self.connection, self.sql, self.clock, limit, patience, error).await
    }

    async fn find_parents(&mut self, runs: &BTreeSet<RunId>) -> Result<Vec<RunId>, Failure> {
        cascade::find_parents(self.connection, self.sql, runs).await
    }

    async fn cancel_children(&mut self, parents: &BTreeSet<RunId>) -> Result<(), Failure> {
        cascade::cancel_children(self.connection, self.sql, self.clock, parents).await
    }

    async fn claim_runs(&mut self, request: &ClaimRequest) -> Result<Claimed, Failure> {
        claim::claim(self.connection, self.sql, self.clock, request).await
    }
}
