//! A batch applied to the tables.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::convert::Infallible;
use std::time::Duration;

use futures::FutureExt;

use workflow_engine::faults::failpoint;
use workflow_engine::model::{
    AcceptedSignal, Claim, EventWait, Lane, LeftWait, LimitRecord, MovedRun, NewEmission, NewRun, NewSignal, RunId,
    RunStatus, SeatLine, SingleKey, StoredError, StoredSchedule, Timestamp, WorkerId,
};
use workflow_engine::store::{
    Asked, AskedSeat, AttemptRow, AttemptWrite, BatchTarget, Bounds, CancelOutcome, ClaimRequest, Claimed,
    ConsumedSignal, ContinueWrite, CrashesWrite, DatabaseError, DatabaseErrorKind, DeletedRun, DueRuns, Emitted,
    EndWrite, EndedTurn, Fence, FoundRun, FoundSingle, GateTurn, InsertedAudit, LimitWrite, LockedEvents, LockedGate,
    LockedQueue, Locks, Outcome, ParkWrite, QueueWrite, ReadRates, RetryWrite, ReviveWrite, RunState, SeatRow,
    SingleRun, StartOutcome, StepOf, WaitingPlace, Write, apply,
};

use super::tables::Tables;
use super::{
    attempt, audit, cascade, claim, continue_as_new, crashes, deletion, event, finish, fork, gate, ownerless, pause,
    retry, room, schedule, seat, signal, single, start,
};

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
pub(super) struct Batch<'t> {
    pub(super) tables: &'t mut Tables,
    pub(super) now: Timestamp,
}

impl BatchTarget for Batch<'_> {
    async fn write_queues(&mut self, writes: &[&QueueWrite]) -> Result<(), DatabaseError> {
        for write in writes {
            self.tables.queue_mut(&write.queue).apply(&write.change, self.now);
            self.tables.gates.apply(&write.queue, &write.change);
        }
        Ok(())
    }

    async fn lock_queues(&mut self, queues: &[String]) -> Result<Vec<LockedQueue>, DatabaseError> {
        let found = |name: &String| match self.tables.queues().get(name) {
            Some(record) => LockedQueue::of(record),
            None => LockedQueue::unlimited(name),
        };
        Ok(queues.iter().map(found).collect())
    }

    async fn count_running(&mut self, queues: &[(String, u32)]) -> Result<Vec<u32>, DatabaseError> {
        let count =
            |(name, limit): &(String, u32)| u32::try_from(self.tables.running_in(name)).unwrap_or(u32::MAX).min(*limit);
        Ok(queues.iter().map(count).collect())
    }

    async fn write_limits(&mut self, writes: &[&LimitWrite]) -> Result<(), DatabaseError> {
        writes.iter().for_each(|write| self.tables.limit_mut(&write.limit).apply(&write.change));
        Ok(())
    }

    async fn lock_lines(&mut self, _: &BTreeSet<&SeatLine>) -> Result<(), DatabaseError> {
        Ok(())
    }

    async fn read_limits(&mut self, names: &BTreeSet<&str>) -> Result<Vec<LimitRecord>, DatabaseError> {
        Ok(names.iter().filter_map(|name| self.tables.limits().get(*name).cloned()).collect())
    }

    async fn read_lines(
        &mut self,
        lines: &[(&SeatLine, u32)],
        asking: &[(RunId, &str)],
    ) -> Result<Vec<Vec<SeatRow>>, DatabaseError> {
        Ok(seat::read(self.tables, lines, asking, self.now))
    }

    async fn read_line_rates(&mut self, lines: &[&SeatLine]) -> Result<ReadRates, DatabaseError> {
        Ok(seat::read_rates(self.tables, lines, self.now))
    }

    async fn use_line_rates(&mut self, lines: &[(&SeatLine, Timestamp)]) -> Result<(), DatabaseError> {
        let used = lines.iter().map(|(line, until)| ((*line).clone(), *until));
        self.tables.line_rates_mut().extend(used);
        Ok(())
    }

    async fn forget_line_rates(&mut self, at_most: u32) -> Result<(), DatabaseError> {
        seat::forget_rates(self.tables, at_most, self.now);
        Ok(())
    }

    async fn write_seats(&mut self, seats: &[AskedSeat<'_>]) -> Result<(), DatabaseError> {
        seats.iter().for_each(|asked| seat::write(self.tables, *asked, self.now));
        Ok(())
    }

    async fn delete_seats(&mut self, steps: &[(RunId, &str)]) -> Result<(), DatabaseError> {
        for (run, key) in steps {
            self.tables.seats_mut().remove(&(*run, (*key).to_owned()));
        }
        Ok(())
    }

    async fn mark_called(&mut self, steps: &[(RunId, String)]) -> Result<(), DatabaseError> {
        steps.iter().for_each(|step| seat::mark_called(self.tables, step, self.now));
        Ok(())
    }

    async fn lock_schedules(&mut self, names: &BTreeSet<&str>) -> Result<HashMap<String, i64>, DatabaseError> {
        Ok(schedule::revisions(self.tables, names))
    }

    async fn update_schedules(&mut self, rows: &[&StoredSchedule]) -> Result<(), DatabaseError> {
        rows.iter().for_each(|row| schedule::put(self.tables, row));
        Ok(())
    }

    async fn insert_schedules(&mut self, rows: &[&StoredSchedule]) -> Result<HashSet<String>, DatabaseError> {
        rows.iter().for_each(|row| schedule::put(self.tables, row));
        Ok(rows.iter().map(|row| row.name.clone()).collect())
    }

    async fn delete_schedules(&mut self, names: &[&str]) -> Result<(), DatabaseError> {
        names.iter().for_each(|name| schedule::delete(self.tables, name));
        Ok(())
    }

    async fn free_keys(&mut self, runs: &[&NewRun], unless_bounded: &BTreeSet<&str>) -> Result<(), DatabaseError> {
        if room::bounds(self.tables, unless_bounded).limits.is_empty() {
            runs.iter().for_each(|run| start::free_key(self.tables, run));
        }
        Ok(())
    }

    async fn insert_unbounded_runs(&mut self, runs: &[&NewRun]) -> Result<Option<Vec<StartOutcome>>, DatabaseError> {
        let queues = runs.iter().map(|run| run.lane.queue.as_str()).collect();
        if room::bounds(self.tables, &queues).limits.is_empty() {
            return self.insert_runs(runs).await.map(Some);
        }
        Ok(None)
    }

    async fn lock_bounds(&mut self, queues: &BTreeSet<&str>, _: bool) -> Result<Bounds, DatabaseError> {
        Ok(room::bounds(self.tables, queues))
    }

    async fn find_started(&mut self, runs: &[&NewRun]) -> Result<HashMap<usize, StartOutcome>, DatabaseError> {
        let found = (0..).zip(runs).filter_map(|(place, run)| Some((place, start::find(self.tables, run)?)));
        Ok(found.collect())
    }

    async fn count_waiting(&mut self, places: &[WaitingPlace<'_>]) -> Result<Vec<u32>, DatabaseError> {
        Ok(places.iter().map(|place| room::count(self.tables, place)).collect())
    }

    async fn insert_runs(&mut self, runs: &[&NewRun]) -> Result<Vec<StartOutcome>, DatabaseError> {
        Ok(runs.iter().map(|run| start::start(self.tables, run, self.now)).collect())
    }

    async fn lock_singles(&mut self, _: &[SingleRun<'_>]) -> Result<HashSet<usize>, DatabaseError> {
        Ok(HashSet::new())
    }

    async fn find_singles(&mut self, runs: &[SingleRun<'_>]) -> Result<Vec<FoundSingle>, DatabaseError> {
        Ok(runs.iter().map(|run| single::find(self.tables, run)).collect())
    }

    async fn set_single_keys(&mut self, runs: &[SingleRun<'_>]) -> Result<(), DatabaseError> {
        runs.iter().for_each(|run| single::set_key(self.tables, run.run_id, Some(run.key)));
        Ok(())
    }

    async fn clear_single_keys(&mut self, runs: &[RunId]) -> Result<(), DatabaseError> {
        runs.iter().for_each(|run| single::set_key(self.tables, *run, None));
        Ok(())
    }

    async fn move_runs(&mut self, runs: &[(&MovedRun, &NewRun)]) -> Result<(), DatabaseError> {
        runs.iter().for_each(|(moved, new)| single::move_run(self.tables, moved, new, self.now));
        Ok(())
    }

    async fn read_lost_single(
        &mut self,
        run: RunId,
        attempt: i64,
    ) -> Result<Option<(String, SingleKey)>, DatabaseError> {
        Ok(single::read_lost(self.tables, run, attempt))
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
        let new = signals.iter().filter(|signal| signal::insert(self.tables, signal, self.now));
        Ok(new.map(|signal| (signal.run_id, signal.key.as_str().to_owned())).collect())
    }

    async fn find_signals(
        &mut self,
        signals: &[&NewSignal],
    ) -> Result<HashMap<(RunId, String), AcceptedSignal>, DatabaseError> {
        let found = signals.iter().filter_map(|signal| Some((*signal, signal::find(self.tables, signal)?)));
        Ok(found.map(|(signal, first)| ((signal.run_id, signal.key.as_str().to_owned()), first)).collect())
    }

    async fn lock_events(&mut self, emissions: &[&NewEmission]) -> Result<LockedEvents, DatabaseError> {
        let waiting = emissions.iter().flat_map(|emission| event::waiting(self.tables, &emission.event)).collect();
        Ok(LockedEvents { busy: HashSet::new(), waiting })
    }

    async fn begin_event_waits(&mut self, waits: &[StepOf<'_, EventWait>]) -> Result<HashSet<usize>, DatabaseError> {
        waits.iter().for_each(|wait| event::begin(self.tables, *wait));
        Ok(HashSet::new())
    }

    async fn leave_event_waits(&mut self, waits: &[StepOf<'_, LeftWait>]) -> Result<HashSet<usize>, DatabaseError> {
        Ok(event::leave_all(self.tables, waits))
    }

    async fn emit_event(&mut self, emission: &NewEmission) -> Result<Emitted, DatabaseError> {
        Ok(event::emit(self.tables, emission, self.now))
    }

    async fn delete_event_waits(&mut self, runs: &BTreeSet<RunId>) -> Result<(), DatabaseError> {
        event::delete(self.tables, runs);
        Ok(())
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

    async fn find_deleted(&mut self, runs: &BTreeSet<RunId>) -> Result<HashMap<RunId, FoundRun>, DatabaseError> {
        Ok(runs.iter().filter_map(|run| Some((*run, deletion::find(self.tables, *run)?))).collect())
    }

    async fn delete_runs(&mut self, runs: &BTreeSet<RunId>) -> Result<HashMap<RunId, DeletedRun>, DatabaseError> {
        Ok(runs.iter().filter_map(|run| Some((*run, self.tables.delete(*run)?))).collect())
    }

    async fn find_parents(&mut self, runs: &BTreeSet<RunId>) -> Result<Vec<RunId>, DatabaseError> {
        Ok(cascade::find_parents(self.tables, runs))
    }

    async fn cancel_children(&mut self, parents: &BTreeSet<RunId>) -> Result<Vec<RunId>, DatabaseError> {
        Ok(cascade::cancel_children(self.tables, parents, self.now))
    }

    async fn lock_gates(&mut self, lanes: &[Lane], limit: u32) -> Result<Vec<LockedGate>, DatabaseError> {
        Ok(gate::due(self.tables, lanes, limit, self.now))
    }

    async fn count_behind(&mut self, gates: &[&LockedGate]) -> Result<Vec<u32>, DatabaseError> {
        let count = |gate: &&LockedGate| self.tables.running_behind(&gate.lane.queue, &gate.gate).count();
        Ok(gates.iter().map(count).map(|running| u32::try_from(running).unwrap_or(u32::MAX)).collect())
    }

    async fn find_lapsed_gates(&mut self, lanes: &[Lane], limit: u32) -> Result<Vec<(Lane, String)>, DatabaseError> {
        Ok(gate::find_lapsed(self.tables, lanes, limit, self.now))
    }

    async fn claim_runs(
        &mut self,
        request: &ClaimRequest,
        gates: &[GateTurn],
        due: DueRuns,
    ) -> Result<Claimed, DatabaseError> {
        Ok(claim::claim(self.tables, request, gates, due, self.now))
    }

    async fn use_rates(
        &mut self,
        queues: &[(&LockedQueue, Timestamp)],
        gates: &[(&LockedGate, Timestamp)],
    ) -> Result<(), DatabaseError> {
        queues.iter().for_each(|(queue, until)| self.tables.queue_mut(&queue.name).used_until = *until);
        gates.iter().for_each(|(gate, until)| self.tables.gates.set_used(gate, *until));
        Ok(())
    }

    async fn end_turns(&mut self, turns: &[EndedTurn<'_>]) -> Result<(), DatabaseError> {
        turns.iter().for_each(|turn| gate::end_turn(self.tables, *turn));
        Ok(())
    }

    async fn insert_audits(&mut self, rows: &[InsertedAudit<'_>]) -> Result<(), DatabaseError> {
        rows.iter().for_each(|row| audit::insert(self.tables, row, self.now));
        Ok(())
    }
}
