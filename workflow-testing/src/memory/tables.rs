//! The tables: the rows that the two databases store in theirs.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use workflow_engine::model::{Claim, Lane, Run, RunId, StepAttempt, Timestamp, WorkerId};
use workflow_engine::store::WorkerRecord;

/// The key of an attempt within its run.
pub(super) type AttemptKey = (String, i64);

/// All rows, with the indexes over them.
#[derive(Clone, Debug, Default)]
pub(super) struct Tables {
    runs: BTreeMap<RunId, Run>,
    /// Runs by workflow and idempotency key.
    keys: BTreeMap<(String, String), RunId>,
    /// Runs that may be claimed, which have neither ended nor been paused, per lane in the order in
    /// which they are due.
    due: BTreeMap<Lane, BTreeSet<(Timestamp, RunId)>>,
    /// Runs by their parents.
    children: BTreeMap<RunId, BTreeSet<RunId>>,
    attempts: BTreeMap<RunId, BTreeMap<AttemptKey, StepAttempt>>,
    signals: BTreeMap<RunId, BTreeMap<i64, SignalRow>>,
    pub(super) workers: Workers,
    /// The claims whose runs are driven alone.
    pub(super) alone: BTreeSet<Claim>,
    changed: bool,
}

/// A signal in an inbox.
#[derive(Clone, Debug)]
pub(super) struct SignalRow {
    pub(super) name: String,
    pub(super) key: String,
    pub(super) payload: String,
    /// The key of the step that consumed the signal.
    pub(super) consumed_by: Option<String>,
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

    /// Returns the runs with lower ids than this one, in the order of their ids; all runs if
    /// `None`.
    pub(super) fn runs_below(&self, below: Option<RunId>) -> impl DoubleEndedIterator<Item = &Run> {
        let end = below.map_or(Bound::Unbounded, Bound::Excluded);
        self.runs.range((Bound::Unbounded, end)).map(|(_, run)| run)
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

    /// Returns the runs of this lane that are or will be due, the earliest first.
    pub(super) fn due(&self, lane: &Lane) -> impl Iterator<Item = (Timestamp, RunId)> {
        self.due.get(lane).into_iter().flatten().copied()
    }

    /// Returns the lanes with runs that may be claimed now or later.
    pub(super) fn lanes(&self) -> impl Iterator<Item = &Lane> {
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
        if let Some(due) = self.due.get_mut(&run.lane) {
            due.remove(&(run.available_at, id));
            if due.is_empty() {
                self.due.remove(&run.lane);
            }
        }
        let said = change(&mut run);
        self.list_due(&run);
        self.runs.insert(id, run);
        self.changed = true;
        Some(said)
    }

    fn list_due(&mut self, run: &Run) {
        if run.status.is_terminal() || run.paused_at.is_some() {
            return;
        }
        match self.due.get_mut(&run.lane) {
            Some(due) => drop(due.insert((run.available_at, run.id))),
            None => drop(self.due.insert(run.lane.clone(), BTreeSet::from([(run.available_at, run.id)]))),
        }
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

    /// Returns `true` if anything was changed since the last call.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }
}

/// The recorded workers, and the held liveness locks.
#[derive(Clone, Debug, Default)]
pub(super) struct Workers {
    recorded: BTreeMap<WorkerId, (Vec<Lane>, Timestamp)>,
    /// The number of sessions that hold the lock of a worker.
    locks: BTreeMap<WorkerId, u32>,
}

impl Workers {
    /// Records a worker, if it is not recorded.
    pub(super) fn record(&mut self, worker: WorkerId, lanes: &[Lane], now: Timestamp) {
        self.recorded.entry(worker).or_insert_with(|| (lanes.to_vec(), now));
    }

    /// Forgets a worker.
    pub(super) fn forget(&mut self, worker: WorkerId) {
        self.recorded.remove(&worker);
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
        self.recorded.contains_key(&worker)
    }

    /// Returns the recorded workers whose lock no session holds.
    pub(super) fn unlocked(&self) -> Vec<WorkerId> {
        self.recorded.keys().filter(|worker| !self.locks.contains_key(worker)).copied().collect()
    }

    /// Returns every recorded worker.
    pub(super) fn records(&self) -> Vec<WorkerRecord> {
        let record = |(id, (lanes, started_at)): (&WorkerId, &(Vec<Lane>, Timestamp))| WorkerRecord {
            id: *id,
            lanes: lanes.clone(),
            started_at: *started_at,
            live: self.locks.contains_key(id),
        };
        self.recorded.iter().map(record).collect()
    }
}
