//! The slow path of a batch: a transaction that can apply writes of every kind.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use sqlx::SqliteConnection;

use workflow_engine::faults::{failpoint_error, planted};
use workflow_engine::model::{
    AcceptedSignal, Claim, EventWait, Lane, LeftWait, LimitRecord, MovedRun, NewEmission, NewRun, NewSignal, RunId,
    RunStatus, SeatLine, SingleKey, StoredError, StoredSchedule, Timestamp, WorkerId,
};
use workflow_engine::store::{
    Asked, AskedSeat, AttemptRow, AttemptWrite, BatchTarget, Bounds, CancelOutcome, ClaimRequest, Claimed,
    ConsumedSignal, ContinueWrite, CrashesWrite, DatabaseError, DeletedRun, DueRuns, Emitted, EndWrite, EndedTurn,
    Fence, FoundRun, FoundSingle, GateTurn, InsertedAudit, LimitWrite, LockedEvents, LockedGate, LockedQueue, Locks,
    Outcome, ParkWrite, QueueWrite, ReadRates, RetryWrite, ReviveWrite, RunState, SeatRow, SingleRun, StartOutcome,
    StepOf, WaitingPlace, Write, apply,
};

use super::database::Database;
use super::error::During;
use super::writer::WriterGuard;
use super::{
    attempt, audit, cascade, claim, continue_as_new, crashes, deletion, event, fence, finish, fork, gate, limit,
    line_rate, ownerless, pause, queue, retry, room, schedule, seat, signal, single, start,
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
    let outcomes = writer.end(outcomes).await?;
    if writes.iter().all(|write| matches!(write, Write::Statistics(_))) {
        // They concern no claim.
        writer.keep(writes, Asked::new(), &[]);
    }
    Ok(outcomes)
}

/// An open transaction as the target of a batch. The transaction excludes every other writer, so it
/// locks no rows.
pub(super) struct SlowPath<'c> {
    pub(super) connection: &'c mut SqliteConnection,
    pub(super) now: Timestamp,
}

impl<'c> SlowPath<'c> {
    /// Uses the transaction that is open on this connection, at this time.
    pub(super) fn new(connection: &'c mut SqliteConnection, now: Timestamp) -> Self {
        Self { connection, now }
    }
}

impl BatchTarget for SlowPath<'_> {
    async fn lock_schedules(&mut self, names: &BTreeSet<&str>) -> Result<HashMap<String, i64>, DatabaseError> {
        schedule::revisions(self.connection, names).await
    }

    async fn update_schedules(&mut self, rows: &[&StoredSchedule]) -> Result<(), DatabaseError> {
        schedule::put(self.connection, rows).await
    }

    async fn insert_schedules(&mut self, rows: &[&StoredSchedule]) -> Result<HashSet<String>, DatabaseError> {
        schedule::put(self.connection, rows).await?;
        Ok(rows.iter().map(|row| row.name.clone()).collect())
    }

    async fn delete_schedules(&mut self, names: &[&str]) -> Result<(), DatabaseError> {
        schedule::delete(self.connection, names).await
    }

    async fn free_keys(&mut self, runs: &[&NewRun], unless_bounded: &BTreeSet<&str>) -> Result<(), DatabaseError> {
        start::free_keys(self.connection, runs, unless_bounded).await
    }

    async fn insert_unbounded_runs(&mut self, runs: &[&NewRun]) -> Result<Option<Vec<StartOutcome>>, DatabaseError> {
        start::start_unbounded(self.connection, runs, self.now).await
    }

    async fn lock_bounds(&mut self, queues: &BTreeSet<&str>, _: bool) -> Result<Bounds, DatabaseError> {
        room::read_bounds(self.connection, queues).await
    }

    async fn find_started(&mut self, runs: &[&NewRun]) -> Result<HashMap<usize, StartOutcome>, DatabaseError> {
        let found = start::find(self.connection, runs).await?;
        Ok((0..).zip(found).filter_map(|(place, outcome)| Some((place, outcome?))).collect())
    }

    async fn count_waiting(&mut self, places: &[WaitingPlace<'_>]) -> Result<Vec<u32>, DatabaseError> {
        room::count(self.connection, places).await
    }

    async fn insert_runs(&mut self, runs: &[&NewRun]) -> Result<Vec<StartOutcome>, DatabaseError> {
        let started = start::start(self.connection, runs, self.now).await?;
        if planted("child-outside-transaction") && runs.iter().any(|run| run.parent.is_some()) {
            let commit = sqlx::raw_sql("COMMIT; BEGIN IMMEDIATE").execute(&mut *self.connection);
            commit.await.during("commit a child early")?;
        }
        Ok(started)
    }

    async fn lock_singles(&mut self, _: &[SingleRun<'_>]) -> Result<HashSet<usize>, DatabaseError> {
        Ok(HashSet::new())
    }

    async fn find_singles(&mut self, runs: &[SingleRun<'_>]) -> Result<Vec<FoundSingle>, DatabaseError> {
        single::find(self.connection, runs).await
    }

    async fn set_single_keys(&mut self, runs: &[SingleRun<'_>]) -> Result<(), DatabaseError> {
        single::set_keys(self.connection, runs).await
    }

    async fn clear_single_keys(&mut self, runs: &[RunId]) -> Result<(), DatabaseError> {
        single::clear_keys(self.connection, runs).await
    }

    async fn move_runs(&mut self, runs: &[(&MovedRun, &NewRun)]) -> Result<(), DatabaseError> {
        single::move_runs(self.connection, runs, self.now).await
    }

    async fn read_lost_single(
        &mut self,
        run: RunId,
        attempt: i64,
    ) -> Result<Option<(String, SingleKey)>, DatabaseError> {
        single::read_lost(self.connection, run, attempt).await
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

    async fn find_signals(
        &mut self,
        signals: &[&NewSignal],
    ) -> Result<HashMap<(RunId, String), AcceptedSignal>, DatabaseError> {
        signal::find(self.connection, signals).await
    }

    async fn lock_events(&mut self, emissions: &[&NewEmission]) -> Result<LockedEvents, DatabaseError> {
        event::find_waiting(self.connection, emissions).await
    }

    async fn begin_event_waits(&mut self, waits: &[StepOf<'_, EventWait>]) -> Result<HashSet<usize>, DatabaseError> {
        event::begin(self.connection, waits).await?;
        Ok(HashSet::new())
    }

    async fn leave_event_waits(&mut self, waits: &[StepOf<'_, LeftWait>]) -> Result<HashSet<usize>, DatabaseError> {
        event::leave(self.connection, waits).await
    }

    async fn emit_event(&mut self, emission: &NewEmission) -> Result<Emitted, DatabaseError> {
        event::emit(self.connection, emission, self.now).await
    }

    async fn delete_event_waits(&mut self, runs: &BTreeSet<RunId>) -> Result<(), DatabaseError> {
        event::delete(self.connection, runs).await
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

    async fn find_deleted(&mut self, runs: &BTreeSet<RunId>) -> Result<HashMap<RunId, FoundRun>, DatabaseError> {
        deletion::find(self.connection, runs).await
    }

    async fn delete_runs(&mut self, runs: &BTreeSet<RunId>) -> Result<HashMap<RunId, DeletedRun>, DatabaseError> {
        deletion::delete(self.connection, runs).await
    }

    async fn find_parents(&mut self, runs: &BTreeSet<RunId>) -> Result<Vec<RunId>, DatabaseError> {
        cascade::find_parents(self.connection, runs).await
    }

    async fn cancel_children(&mut self, parents: &BTreeSet<RunId>) -> Result<Vec<RunId>, DatabaseError> {
        cascade::cancel_children(self.connection, parents, self.now).await
    }

    async fn write_queues(&mut self, writes: &[&QueueWrite]) -> Result<(), DatabaseError> {
        queue::write(self.connection, writes, self.now).await
    }

    async fn write_limits(&mut self, writes: &[&LimitWrite]) -> Result<(), DatabaseError> {
        limit::write(self.connection, writes).await
    }

    /// The transaction excludes every other one, so there is nothing to lock.
    async fn lock_lines(&mut self, _: &BTreeSet<&SeatLine>) -> Result<(), DatabaseError> {
        Ok(())
    }

    async fn read_limits(&mut self, names: &BTreeSet<&str>) -> Result<Vec<LimitRecord>, DatabaseError> {
        limit::read(self.connection, names).await
    }

    async fn read_lines(
        &mut self,
        lines: &[(&SeatLine, u32)],
        asking: &[(RunId, &str)],
    ) -> Result<Vec<Vec<SeatRow>>, DatabaseError> {
        seat::read(self.connection, lines, asking, self.now).await
    }

    async fn read_line_rates(&mut self, lines: &[&SeatLine]) -> Result<ReadRates, DatabaseError> {
        line_rate::read(self.connection, lines, self.now).await
    }

    async fn use_line_rates(&mut self, lines: &[(&SeatLine, Timestamp)]) -> Result<(), DatabaseError> {
        line_rate::write(self.connection, lines).await
    }

    async fn forget_line_rates(&mut self, at_most: u32) -> Result<(), DatabaseError> {
        line_rate::forget(self.connection, at_most, self.now).await
    }

    async fn write_seats(&mut self, seats: &[AskedSeat<'_>]) -> Result<(), DatabaseError> {
        seat::write(self.connection, seats, self.now).await
    }

    async fn delete_seats(&mut self, steps: &[(RunId, &str)]) -> Result<(), DatabaseError> {
        seat::delete(self.connection, steps).await
    }

    async fn mark_called(&mut self, steps: &[(RunId, String)]) -> Result<(), DatabaseError> {
        seat::mark_called(self.connection, steps, self.now).await
    }

    /// The transaction excludes every other one, so there is nothing to lock.
    async fn lock_queues(&mut self, queues: &[String]) -> Result<Vec<LockedQueue>, DatabaseError> {
        queue::read_limits(self.connection, queues).await
    }

    async fn count_running(&mut self, queues: &[(String, u32)]) -> Result<Vec<u32>, DatabaseError> {
        queue::count_running(self.connection, queues).await
    }

    /// The transaction excludes every other one, so there is nothing to lock.
    async fn lock_gates(&mut self, lanes: &[Lane], limit: u32) -> Result<Vec<LockedGate>, DatabaseError> {
        gate::due(self.connection, lanes, limit, self.now).await
    }

    async fn count_behind(&mut self, gates: &[&LockedGate]) -> Result<Vec<u32>, DatabaseError> {
        let gates: Vec<_> = gates.iter().map(|gate| (gate.lane.queue.as_str(), gate.gate.as_str())).collect();
        gate::count_behind(self.connection, &gates).await
    }

    async fn find_lapsed_gates(&mut self, lanes: &[Lane], limit: u32) -> Result<Vec<(Lane, String)>, DatabaseError> {
        gate::find_lapsed(self.connection, lanes, limit, self.now).await
    }

    async fn claim_runs(
        &mut self,
        request: &ClaimRequest,
        gates: &[GateTurn],
        due: DueRuns,
    ) -> Result<Claimed, DatabaseError> {
        let runs = claim::claim(self.connection, request, gates, due, self.now).await?;
        Ok(Claimed { runs, held_back: Vec::new(), full_gates: Vec::new(), next_at: None, now: self.now })
    }

    async fn use_rates(
        &mut self,
        queues: &[(&LockedQueue, Timestamp)],
        gates: &[(&LockedGate, Timestamp)],
    ) -> Result<(), DatabaseError> {
        queue::use_rates(self.connection, queues).await?;
        if gates.is_empty() { Ok(()) } else { gate::use_rates(self.connection, gates).await }
    }

    async fn end_turns(&mut self, turns: &[EndedTurn<'_>]) -> Result<(), DatabaseError> {
        gate::end_turns(self.connection, turns).await
    }

    async fn insert_audits(&mut self, rows: &[InsertedAudit<'_>]) -> Result<(), DatabaseError> {
        audit::insert(self.connection, rows, self.now).await
    }
}
