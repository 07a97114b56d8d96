//! The slow path of a batch: a transaction that can apply writes of every kind.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use sqlx::{Connection, PgConnection};

use workflow_engine::faults::{altered, failpoint_error, planted};
use workflow_engine::model::{
    AcceptedSignal, Claim, Clock, EventWait, Lane, LeftWait, LimitRecord, MovedRun, NewEmission, NewRun, NewSignal,
    RunId, RunStatus, SeatLine, SingleKey, StoredError, StoredSchedule, Timestamp, WorkerId,
};
use workflow_engine::store::{
    AskedSeat, AttemptRow, AttemptWrite, BatchTarget, Bounds, CancelOutcome, ClaimRequest, Claimed, ConsumedSignal,
    ContinueWrite, CrashesWrite, DeletedRun, DueRuns, Emitted, EndWrite, EndedTurn, Fence, FoundRun, FoundSingle,
    GateTurn, InsertedAudit, LimitWrite, LockedEvents, LockedGate, LockedQueue, Locks, Outcome, ParkWrite, QueueWrite,
    ReadRates, RetryWrite, ReviveWrite, RunState, SeatRow, SingleRun, StartOutcome, StepOf, WaitingPlace, Write, apply,
};

use super::context::{Context, Memory};
use super::error::Failure;
use super::event::KeyLock;
use super::ownership::Workers;
use super::sql::Sql;
use super::{
    attempt, audit, cascade, claim, continue_as_new, crashes, deletion, event, fence, finish, fork, gate, limit,
    line_rate, ownerless, pause, queue, read, retry, room, schedule, seat, signal, single, start,
};

/// Stated in the transaction itself: behind a pooler, the settings may be those of another session.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// Returns the statement that begins a transaction. Each of its statements has a snapshot of its
/// own, so that a claim counts what was committed before it got its locks.
pub(super) fn begin_statement() -> &'static str {
    altered("one-snapshot", BEGIN, "READ COMMITTED", "REPEATABLE READ")
}

/// Applies the writes in one transaction and returns the outcome of each, in their order.
pub(super) async fn slow_path(
    connection: &mut PgConnection,
    context: Context<'_>,
    memory: &Memory,
    writes: &[Write],
) -> Result<Vec<Outcome>, Failure> {
    let begun = connection.begin_with(begin_statement()).await;
    let mut transaction = begun.map_err(|error| Failure::from(error).breaking())?;
    match apply(&mut SlowPath::within(&mut transaction, context, memory), writes).await {
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
    /// Where claims resume, if they may: see `claim_cursor.rs`.
    pub(super) memory: Option<&'c Memory>,
    pub(super) key_lock: KeyLock,
}

impl<'c> SlowPath<'c> {
    /// Uses the transaction that is open on this connection.
    pub(super) fn within(connection: &'c mut PgConnection, context: Context<'c>, memory: &'c Memory) -> Self {
        let Context { sql, clock, workers } = context;
        Self { connection, sql, clock, workers, memory: Some(memory), key_lock: KeyLock::Try }
    }

    fn context(&self) -> Context<'c> {
        Context { sql: self.sql, clock: self.clock, workers: self.workers }
    }
}

impl BatchTarget for SlowPath<'_> {
    async fn lock_schedules(&mut self, names: &BTreeSet<&str>) -> Result<HashMap<String, i64>, Failure> {
        schedule::lock(self.connection, self.sql, names).await
    }

    async fn update_schedules(&mut self, rows: &[&StoredSchedule]) -> Result<(), Failure> {
        schedule::update(self.connection, self.sql, rows).await
    }

    async fn insert_schedules(&mut self, rows: &[&StoredSchedule]) -> Result<HashSet<String>, Failure> {
        schedule::insert(self.connection, self.sql, rows).await
    }

    async fn delete_schedules(&mut self, names: &[&str]) -> Result<(), Failure> {
        schedule::delete(self.connection, self.sql, names).await
    }

    async fn free_keys(&mut self, runs: &[&NewRun], unless_bounded: &BTreeSet<&str>) -> Result<(), Failure> {
        start::free_keys(self.connection, self.sql, runs, unless_bounded).await
    }

    async fn insert_unbounded_runs(&mut self, runs: &[&NewRun]) -> Result<Option<Vec<StartOutcome>>, Failure> {
        start::start_unbounded(self.connection, self.sql, self.clock, runs).await
    }

    async fn lock_bounds(&mut self, queues: &BTreeSet<&str>, waits: bool) -> Result<Bounds, Failure> {
        room::lock(self.connection, self.sql, self.key_lock, queues, waits).await
    }

    async fn find_started(&mut self, runs: &[&NewRun]) -> Result<HashMap<usize, StartOutcome>, Failure> {
        start::find_started(self.connection, self.sql, runs).await
    }

    async fn count_waiting(&mut self, places: &[WaitingPlace<'_>]) -> Result<Vec<u32>, Failure> {
        room::count(self.connection, self.sql, places).await
    }

    async fn insert_runs(&mut self, runs: &[&NewRun]) -> Result<Vec<StartOutcome>, Failure> {
        let started = start::start(self.connection, self.sql, self.clock, runs).await?;
        if planted("child-outside-transaction") && runs.iter().any(|run| run.parent.is_some()) {
            sqlx::raw_sql("COMMIT; BEGIN").execute(&mut *self.connection).await?;
        }
        Ok(started)
    }

    async fn lock_singles(&mut self, runs: &[SingleRun<'_>]) -> Result<HashSet<usize>, Failure> {
        single::lock(self.connection, self.sql, self.key_lock, runs).await
    }

    async fn find_singles(&mut self, runs: &[SingleRun<'_>]) -> Result<Vec<FoundSingle>, Failure> {
        single::find(self.connection, self.sql, runs).await
    }

    async fn set_single_keys(&mut self, runs: &[SingleRun<'_>]) -> Result<(), Failure> {
        single::set_keys(self.connection, self.sql, runs).await
    }

    async fn clear_single_keys(&mut self, runs: &[RunId]) -> Result<(), Failure> {
        single::clear_keys(self.connection, self.sql, runs).await
    }

    async fn move_runs(&mut self, runs: &[(&MovedRun, &NewRun)]) -> Result<(), Failure> {
        single::move_runs(self.connection, self.sql, self.clock, runs).await
    }

    async fn read_lost_single(&mut self, run: RunId, attempt: i64) -> Result<Option<(String, SingleKey)>, Failure> {
        single::read_lost(self.connection, self.sql, run, attempt).await
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

    async fn find_signals(
        &mut self,
        signals: &[&NewSignal],
    ) -> Result<HashMap<(RunId, String), AcceptedSignal>, Failure> {
        signal::find(self.connection, self.sql, signals).await
    }

    async fn lock_events(&mut self, emissions: &[&NewEmission]) -> Result<LockedEvents, Failure> {
        event::lock(self.connection, self.sql, self.key_lock, emissions).await
    }

    async fn begin_event_waits(&mut self, waits: &[StepOf<'_, EventWait>]) -> Result<HashSet<usize>, Failure> {
        event::begin(self.connection, self.sql, waits).await
    }

    async fn leave_event_waits(&mut self, waits: &[StepOf<'_, LeftWait>]) -> Result<HashSet<usize>, Failure> {
        event::leave(self.connection, self.sql, waits).await
    }

    async fn emit_event(&mut self, emission: &NewEmission) -> Result<Emitted, Failure> {
        event::emit(self.connection, self.sql, self.clock, emission).await
    }

    async fn delete_event_waits(&mut self, runs: &BTreeSet<RunId>) -> Result<(), Failure> {
        event::delete(self.connection, self.sql, runs).await
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

    async fn find_deleted(&mut self, runs: &BTreeSet<RunId>) -> Result<HashMap<RunId, FoundRun>, Failure> {
        deletion::find(self.connection, self.sql, runs).await
    }

    async fn delete_runs(&mut self, runs: &BTreeSet<RunId>) -> Result<HashMap<RunId, DeletedRun>, Failure> {
        deletion::delete(self.connection, self.sql, runs).await
    }

    async fn find_parents(&mut self, runs: &BTreeSet<RunId>) -> Result<Vec<RunId>, Failure> {
        cascade::find_parents(self.connection, self.sql, runs).await
    }

    async fn cancel_children(&mut self, parents: &BTreeSet<RunId>) -> Result<Vec<RunId>, Failure> {
        cascade::cancel_children(self.connection, self.sql, self.clock, parents).await
    }

    async fn write_queues(&mut self, writes: &[&QueueWrite]) -> Result<(), Failure> {
        queue::write(self.connection, self.sql, self.clock, writes).await
    }

    async fn write_limits(&mut self, writes: &[&LimitWrite]) -> Result<(), Failure> {
        limit::write(self.connection, self.sql, writes).await
    }

    async fn lock_lines(&mut self, lines: &BTreeSet<&SeatLine>) -> Result<(), Failure> {
        seat::lock(self.connection, self.sql, lines).await
    }

    async fn read_limits(&mut self, names: &BTreeSet<&str>) -> Result<Vec<LimitRecord>, Failure> {
        limit::read(self.connection, self.sql, Some(names)).await
    }

    async fn read_lines(
        &mut self,
        lines: &[(&SeatLine, u32)],
        asking: &[(RunId, &str)],
    ) -> Result<Vec<Vec<SeatRow>>, Failure> {
        seat::read(self.connection, self.sql, self.clock, lines, asking).await
    }

    async fn read_line_rates(&mut self, lines: &[&SeatLine]) -> Result<ReadRates, Failure> {
        line_rate::read(self.connection, self.sql, self.clock, lines).await
    }

    async fn use_line_rates(&mut self, lines: &[(&SeatLine, Timestamp)]) -> Result<(), Failure> {
        line_rate::write(self.connection, self.sql, lines).await
    }

    async fn forget_line_rates(&mut self, at_most: u32) -> Result<(), Failure> {
        line_rate::forget(self.connection, self.sql, self.clock, at_most).await
    }

    async fn write_seats(&mut self, seats: &[AskedSeat<'_>]) -> Result<(), Failure> {
        seat::write(self.connection, self.sql, self.clock, seats).await
    }

    async fn delete_seats(&mut self, steps: &[(RunId, &str)]) -> Result<(), Failure> {
        seat::delete(self.connection, self.sql, steps).await
    }

    async fn mark_called(&mut self, steps: &[(RunId, String)]) -> Result<(), Failure> {
        seat::mark_called(self.connection, self.sql, self.clock, steps).await
    }

    async fn lock_queues(&mut self, queues: &[String]) -> Result<Vec<LockedQueue>, Failure> {
        queue::lock(self.connection, self.sql, queues).await
    }

    async fn count_running(&mut self, queues: &[(String, u32)]) -> Result<Vec<u32>, Failure> {
        queue::count_running(self.connection, self.sql, queues).await
    }

    async fn lock_gates(&mut self, lanes: &[Lane], limit: u32) -> Result<Vec<LockedGate>, Failure> {
        let context = self.context();
        gate::lock(self.connection, context, self.memory, lanes, limit).await
    }

    async fn count_behind(&mut self, gates: &[&LockedGate]) -> Result<Vec<u32>, Failure> {
        let (queues, gates) = gates.iter().map(|gate| (gate.lane.queue.clone(), gate.gate.clone())).unzip();
        gate::count_behind(self.connection, self.sql, queues, gates).await
    }

    async fn find_lapsed_gates(&mut self, lanes: &[Lane], limit: u32) -> Result<Vec<(Lane, String)>, Failure> {
        let context = self.context();
        gate::find_lapsed(self.connection, context, lanes, limit).await
    }

    async fn claim_runs(
        &mut self,
        request: &ClaimRequest,
        gates: &[GateTurn],
        due: DueRuns,
    ) -> Result<Claimed, Failure> {
        let context = self.context();
        match self.memory {
            Some(memory) if gates.is_empty() && due == DueRuns::All => {
                claim::claim_resumed(self.connection, context, memory, request).await
            }
            _ => claim::claim(self.connection, self.sql, self.clock, (request, gates), due).await,
        }
    }

    async fn use_rates(
        &mut self,
        queues: &[(&LockedQueue, Timestamp)],
        gates: &[(&LockedGate, Timestamp)],
    ) -> Result<(), Failure> {
        queue::use_rates(self.connection, self.sql, queues).await?;
        if gates.is_empty() { Ok(()) } else { gate::use_rates(self.connection, self.sql, gates).await }
    }

    async fn end_turns(&mut self, turns: &[EndedTurn<'_>]) -> Result<(), Failure> {
        gate::end_turns(self.connection, self.sql, turns).await
    }

    async fn insert_audits(&mut self, rows: &[InsertedAudit<'_>]) -> Result<(), Failure> {
        audit::insert(self.connection, self.sql, self.clock, rows).await
    }
}
