//! The tables: the rows that the two databases store in theirs.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use workflow_engine::model::{
    AuditId, AuditRow, BulkId, BulkRecord, Claim, EventWait, Lane, LimitRecord, QueueRecord, Rank, Retention, Run,
    RunId, RunStatus, SeatLine, StepAttempt, StoredSchedule, Timestamp, WorkerId,
};
use workflow_engine::store::{ClaimPlace, DeletedRun, DueRuns, WorkerRecord};

use super::gate::Gates;
use super::statistics::StatisticsTables;

/// The key of an attempt within its run.
pub(super) type AttemptKey = (String, i64);

/// A lane, and the gate behind which its runs wait.
pub(super) type Place = (Lane, Option<String>);

/// All rows, with the indexes over them.
#[derive(Clone, Debug, Default)]
pub(super) struct Tables {
    runs: BTreeMap<RunId, Run>,
    /// Runs by workflow and idempotency key.
    keys: BTreeMap<(String, String), RunId>,
    /// Runs that may be claimed, which have neither ended nor been paused, per lane and rank in the
    /// order in which they are due.
    due: BTreeMap<Place, BTreeMap<Rank, BTreeSet<(Timestamp, RunId)>>>,
    pub(super) gates: Gates,
    /// Runs by their parents.
    children: BTreeMap<RunId, BTreeSet<RunId>>,
    attempts: BTreeMap<RunId, BTreeMap<AttemptKey, StepAttempt>>,
    signals: BTreeMap<RunId, BTreeMap<i64, SignalRow>>,
    /// The registered waits for events, by run and step key.
    event_waits: BTreeMap<(RunId, String), EventWait>,
    /// Queues that were declared, limited or paused, by name.
    queues: BTreeMap<String, QueueRecord>,
    /// Limits for steps that were declared or set, by name.
    limits: BTreeMap<String, LimitRecord>,
    /// The seats of steps, and the waits for one, by run and step key.
    seats: BTreeMap<(RunId, String), Seat>,
    /// Until when the rates of lines are used up.
    line_rates: BTreeMap<SeatLine, Timestamp>,
    /// Schedules by their names.
    schedules: BTreeMap<String, StoredSchedule>,
    audits: BTreeMap<AuditId, AuditRow>,
    bulks: BTreeMap<BulkId, BulkRecord>,
    pub(super) statistics: StatisticsTables,
    pub(super) workers: Workers,
    /// The claims whose runs are driven alone.
    pub(super) alone: BTreeSet<Claim>,
    changed: bool,
}

/// A step that has a seat or waits for one.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    pub(super) line: SeatLine,
    pub(super) asked_at: Timestamp,
    pub(super) called_at: Option<Timestamp>,
    /// When the waiting step asks again by itself.
    pub(super) asks_at: Option<Timestamp>,
    /// The epoch that took the seat; `None` if the step waits.
    pub(super) epoch: Option<i64>,
}

/// A signal in an inbox.
#[derive(Clone, Debug)]
pub(super) struct SignalRow {
    pub(super) name: String,
    pub(super) key: String,
    pub(super) payload: String,
    pub(super) created_at: Timestamp,
    /// The key of the step that consumed the signal.
    pub(super) consumed_by: Option<String>,
}

fn place_of(lane: &Lane, gate: Option<&str>) -> Place {
    (lane.clone(), gate.map(str::to_owned))
}

impl Tables {
    /// Returns a run.
    pub(super) fn run(&self, id: RunId) -> Option<&Run> {
        self.runs.get(&id)
    }

    /// Returns all runs, in the order of their ids.
    pub(super) fn runs(&self) -> impl DoubleEndedIterator<Item = &Run> {
        self.runs.values()
    }

    /// Returns the runs between these ids, without these, in the order of their ids.
    pub(super) fn runs_between(&self, after: RunId, before: RunId) -> impl DoubleEndedIterator<Item = &Run> {
        // A range whose bounds are equal or in the wrong order panics.
        let before = before.max(after.after());
        self.runs.range((Bound::Excluded(after), Bound::Excluded(before))).map(|(_, run)| run)
    }

    /// Returns the run of this workflow that has this key.
    pub(super) fn keyed(&self, workflow: &str, key: &str) -> Option<&Run> {
        self.run(*self.keys.get(&(workflow.to_owned(), key.to_owned()))?)
    }

    /// Takes the key of a run away.
    pub(super) fn free_key(&mut self, id: RunId) {
        if let Some(run) = self.runs.get_mut(&id)
            && let Some(key) = run.key.take()
        {
            self.keys.remove(&(run.lane.workflow.clone(), key));
            self.changed = true;
        }
    }

    /// Returns the children of a run.
    pub(super) fn children(&self, parent: RunId) -> Vec<RunId> {
        self.children.get(&parent).into_iter().flatten().copied().collect()
    }

    /// Returns at most as many runs of this place and kind as it gives that are due now, in the
    /// order in which they are claimed, each with the time that decides that order.
    pub(super) fn due(&self, place: &ClaimPlace<'_>, kind: DueRuns, now: Timestamp) -> Vec<(Timestamp, RunId)> {
        let limit = place.at_most as usize;
        let is_running = |id: &RunId| self.runs.get(id).is_some_and(|run| run.status == RunStatus::Running);
        let is_wanted = |rank: Rank, id: &RunId| match kind {
            DueRuns::All => true,
            DueRuns::Begun => rank == Rank::Begun,
            DueRuns::New => rank != Rank::Begun,
            DueRuns::Lapsed => is_running(id),
        };
        let of_rank = |(rank, runs): (&Rank, &BTreeSet<(Timestamp, RunId)>)| {
            let due = runs.iter().take_while(|(at, _)| *at <= now).filter(|(_, id)| is_wanted(*rank, id)).take(limit);
            due.map(|(at, id)| (rank.order_at(*at), *id)).collect::<Vec<_>>()
        };
        let mut due: Vec<_> =
            self.due.get(&place_of(place.lane, place.gate)).into_iter().flatten().flat_map(of_rank).collect();
        due.sort_unstable();
        due.truncate(limit);
        due
    }

    /// Returns when the next run of this lane that waits behind no gate is or was due, or when it
    /// is time to look at a gate of it.
    pub(super) fn next_due(&self, lane: &Lane) -> Option<Timestamp> {
        self.next_due_behind(lane, None).into_iter().chain(self.gates.next_look(lane)).min()
    }

    /// Returns when the next run of this place is or was due.
    pub(super) fn next_due_behind(&self, lane: &Lane, gate: Option<&str>) -> Option<Timestamp> {
        let first = self.due.get(&place_of(lane, gate))?.values().filter_map(BTreeSet::first);
        first.map(|(at, _)| *at).min()
    }

    /// Returns when the first lease of a running run of this place ends.
    pub(super) fn first_lease_end(&self, lane: &Lane, gate: &str) -> Option<Timestamp> {
        let running = self.running_behind(&lane.queue, gate).filter(|run| run.lane == *lane && run.paused_at.is_none());
        running.map(|run| run.available_at).min()
    }

    /// Returns the places with runs that may be claimed now or later.
    pub(super) fn places(&self) -> impl Iterator<Item = &Place> {
        self.due.keys()
    }

    /// Adds a run whose id is new.
    pub(super) fn insert(&mut self, run: Run) {
        if let Some(key) = &run.key {
            self.keys.insert((run.lane.workflow.clone(), key.clone()), run.id);
        }
        if let Some(parent) = &run.parent {
            self.children.entry(parent.run_id).or_default().insert(run.id);
        }
        self.list_due(&run);
        self.runs.insert(run.id, run);
        self.changed = true;
    }

    /// Changes a run. Returns the value of `change`; `None` if there is no such run.
    pub(super) fn update<T>(&mut self, id: RunId, change: impl FnOnce(&mut Run) -> T) -> Option<T> {
        let mut run = self.runs.remove(&id)?;
        let place = place_of(&run.lane, run.gate.as_deref());
        if let Some(lane) = self.due.get_mut(&place)
            && let Some(due) = lane.get_mut(&Rank::from(run.priority))
        {
            due.remove(&(run.available_at, id));
            lane.retain(|_, due| !due.is_empty());
            if lane.is_empty() {
                self.due.remove(&place);
            }
        }
        let was_running = run.status == RunStatus::Running;
        let (lease_end, was_paused) = (run.available_at, run.paused_at.is_some());
        let said = change(&mut run);
        if let Some(gate) = run.gate.as_deref().filter(|_| was_running) {
            let is_resumed = was_paused && run.paused_at.is_none();
            if run.status != RunStatus::Running {
                self.gates.free(&run.lane.queue, gate);
            } else if run.available_at < lease_end || is_resumed {
                // The worker has died, or the lease may have ended during the pause.
                self.gates.free(&run.lane.queue, gate);
                self.gates.wake(&run.lane, gate, run.available_at);
            }
        }
        self.list_due(&run);
        self.runs.insert(id, run);
        self.changed = true;
        Some(said)
    }

    /// Deletes an ended run and all that belongs to it. Returns what it had; `None` if there is no
    /// such run.
    pub(super) fn delete(&mut self, id: RunId) -> Option<DeletedRun> {
        // A run that has not ended, of a fork that is taken back, also leaves the due ones.
        self.update(id, |run| run.status = RunStatus::Canceled)?;
        let run = self.runs.remove(&id)?;
        if let Some(key) = run.key {
            self.keys.remove(&(run.lane.workflow, key));
        }
        if let Some(siblings) = run.parent.and_then(|parent| self.children.get_mut(&parent.run_id)) {
            siblings.remove(&id);
        }
        self.children.remove(&id);
        self.event_waits.retain(|(run, _), _| *run != id);
        self.seats.retain(|(run, _), _| *run != id);
        let attempts = self.attempts.remove(&id).map_or(0, |rows| rows.len() as u64);
        let signals = self.signals.remove(&id).map_or(0, |rows| rows.len() as u64);
        Some(DeletedRun::new(attempts, signals))
    }

    fn list_due(&mut self, run: &Run) {
        if run.status.is_terminal() || run.paused_at.is_some() {
            return;
        }
        if let Some(gate) = run.gate.as_deref().filter(|_| run.status != RunStatus::Running) {
            self.gates.wake(&run.lane, gate, run.available_at);
        }
        let lane = self.due.entry(place_of(&run.lane, run.gate.as_deref())).or_default();
        lane.entry(Rank::from(run.priority)).or_default().insert((run.available_at, run.id));
    }

    /// Returns the attempts of a run, in the order of step key and attempt.
    pub(super) fn attempts(&self, run: RunId) -> impl Iterator<Item = &StepAttempt> {
        self.attempts.get(&run).into_iter().flat_map(BTreeMap::values)
    }

    /// Returns one attempt.
    pub(super) fn attempt(&self, run: RunId, step_key: &str, attempt: i64) -> Option<&StepAttempt> {
        self.attempts.get(&run)?.get(&(step_key.to_owned(), attempt))
    }

    /// Returns all attempts of a run, to be changed.
    pub(super) fn attempts_mut(&mut self, run: RunId) -> &mut BTreeMap<AttemptKey, StepAttempt> {
        self.changed = true;
        self.attempts.entry(run).or_default()
    }

    /// Returns the runs that have attempts.
    pub(super) fn runs_with_attempts(&self) -> impl Iterator<Item = RunId> {
        self.attempts.keys().copied()
    }

    /// Returns the inbox of a run by the numbers of its signals, with the consumed ones.
    pub(super) fn signals(&self, run: RunId) -> impl Iterator<Item = (i64, &SignalRow)> {
        self.signals.get(&run).into_iter().flatten().map(|(seq, signal)| (*seq, signal))
    }

    /// Returns the inbox of a run, to be changed.
    pub(super) fn signals_mut(&mut self, run: RunId) -> &mut BTreeMap<i64, SignalRow> {
        self.changed = true;
        self.signals.entry(run).or_default()
    }

    /// Returns the schedules by their names.
    pub(super) fn schedules(&self) -> &BTreeMap<String, StoredSchedule> {
        &self.schedules
    }

    /// Returns the schedules by their names, to be changed.
    pub(super) fn schedules_mut(&mut self) -> &mut BTreeMap<String, StoredSchedule> {
        self.changed = true;
        &mut self.schedules
    }

    /// Returns the audit rows by their ids.
    pub(super) fn audits(&self) -> &BTreeMap<AuditId, AuditRow> {
        &self.audits
    }

    /// Returns the audit rows, to be changed.
    pub(super) fn audits_mut(&mut self) -> &mut BTreeMap<AuditId, AuditRow> {
        self.changed = true;
        &mut self.audits
    }

    /// Returns the bulk operations by their ids.
    pub(super) fn bulks(&self) -> &BTreeMap<BulkId, BulkRecord> {
        &self.bulks
    }

    /// Returns the bulk operations, to be changed.
    pub(super) fn bulks_mut(&mut self) -> &mut BTreeMap<BulkId, BulkRecord> {
        self.changed = true;
        &mut self.bulks
    }

    /// Returns the registered waits for events, by run and step key.
    pub(super) fn event_waits(&self) -> &BTreeMap<(RunId, String), EventWait> {
        &self.event_waits
    }

    /// Returns the registered waits for events, to be changed.
    pub(super) fn event_waits_mut(&mut self) -> &mut BTreeMap<(RunId, String), EventWait> {
        self.changed = true;
        &mut self.event_waits
    }

    /// Returns the limits with a record.
    pub(super) fn limits(&self) -> &BTreeMap<String, LimitRecord> {
        &self.limits
    }

    /// Returns the record of a limit, to be changed.
    pub(super) fn limit_mut(&mut self, name: &str) -> &mut LimitRecord {
        self.changed = true;
        self.limits.entry(name.to_owned()).or_insert_with(|| LimitRecord::new(name.to_owned()))
    }

    /// Returns the seats, by run and step key.
    pub(super) fn seats(&self) -> &BTreeMap<(RunId, String), Seat> {
        &self.seats
    }

    /// Returns the seats, to be changed.
    pub(super) fn seats_mut(&mut self) -> &mut BTreeMap<(RunId, String), Seat> {
        self.changed = true;
        &mut self.seats
    }

    /// Returns until when the rates of lines are used up.
    pub(super) fn line_rates(&self) -> &BTreeMap<SeatLine, Timestamp> {
        &self.line_rates
    }

    /// Returns until when the rates of lines are used up, to be changed.
    pub(super) fn line_rates_mut(&mut self) -> &mut BTreeMap<SeatLine, Timestamp> {
        self.changed = true;
        &mut self.line_rates
    }

    /// Returns the queues with a record.
    pub(super) fn queues(&self) -> &BTreeMap<String, QueueRecord> {
        &self.queues
    }

    /// Returns the record of a queue, to be changed.
    pub(super) fn queue_mut(&mut self, name: &str) -> &mut QueueRecord {
        self.changed = true;
        self.queues.entry(name.to_owned()).or_insert_with(|| QueueRecord::new(name.to_owned()))
    }

    /// Counts the running runs of a queue.
    pub(super) fn running_in(&self, queue: &str) -> usize {
        self.runs.values().filter(|run| run.status == RunStatus::Running && run.lane.queue == queue).count()
    }

    /// Returns the running runs behind a gate of a queue.
    pub(super) fn running_behind(&self, queue: &str, gate: &str) -> impl Iterator<Item = &Run> {
        let is_behind = move |run: &&Run| run.lane.queue == queue && run.gate.as_deref() == Some(gate);
        self.runs.values().filter(|run| run.status == RunStatus::Running).filter(is_behind)
    }

    /// Returns `true` if anything was changed since the last call.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }
}

/// The recorded workers, and the held liveness locks.
#[derive(Clone, Debug, Default)]
pub(super) struct Workers {
    /// In the order in which they began. Ids are random, and a simulation must not depend on them.
    recorded: Vec<(WorkerId, Vec<Lane>, Retention, Timestamp)>,
    /// The number of sessions that hold the lock of a worker.
    locks: BTreeMap<WorkerId, u32>,
}

impl Workers {
    /// Records a worker, if it is not recorded.
    pub(super) fn record(&mut self, worker: WorkerId, (lanes, retention): (&[Lane], &Retention), now: Timestamp) {
        if !self.is_recorded(worker) {
            self.recorded.push((worker, lanes.to_vec(), retention.clone(), now));
        }
    }

    /// Forgets a worker.
    pub(super) fn forget(&mut self, worker: WorkerId) {
        self.recorded.retain(|(id, ..)| *id != worker);
    }

    /// Notes that a session took the worker's lock.
    pub(super) fn lock(&mut self, worker: WorkerId) {
        *self.locks.entry(worker).or_default() += 1;
    }

    /// Notes that a session of the worker has ended.
    pub(super) fn unlock(&mut self, worker: WorkerId) {
        if let Some(sessions) = self.locks.get_mut(&worker) {
            *sessions -= 1;
            if *sessions == 0 {
                self.locks.remove(&worker);
            }
        }
    }

    /// Returns `true` if a worker is recorded.
    pub(super) fn is_recorded(&self, worker: WorkerId) -> bool {
        self.recorded.iter().any(|(id, ..)| *id == worker)
    }

    /// Returns the recorded workers whose lock no session holds.
    pub(super) fn unlocked(&self) -> Vec<WorkerId> {
        self.recorded.iter().map(|(id, ..)| *id).filter(|worker| !self.locks.contains_key(worker)).collect()
    }

    /// Returns every recorded worker.
    pub(super) fn records(&self) -> Vec<WorkerRecord> {
        let record = |(id, lanes, retention, started_at): &(WorkerId, Vec<Lane>, Retention, Timestamp)| WorkerRecord {
            id: *id,
            lanes: lanes.clone(),
            retention: Some(retention.clone()),
            started_at: *started_at,
            live: self.locks.contains_key(id),
        };
        self.recorded.iter().map(record).collect()
    }
}
