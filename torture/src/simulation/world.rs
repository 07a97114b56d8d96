//! The world of a simulation: the database, the time, the trace and the violation that all
//! processes share.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;
use tokio::time::Instant;
use workflow_engine::model::{Clock, WorkerId};
use workflow_engine::store::Store;
use workflow_sdk::{RunId, Timestamp};
use workflow_testing::MemoryDatabase;

use super::audit::Audit;
use super::case::{Case, Fault};
use workflow_tests::builders::CLOCK_START;

/// The reason why a process stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Halt {
    /// The process is dead.
    Died,
    /// The process is stopped for this many milliseconds.
    Stopped(u64),
}

/// The world.
pub(super) struct World {
    pub(super) case: Case,
    pub(super) database: MemoryDatabase,
    /// A handle on the database that bypasses all wires.
    pub(super) auditor: Arc<dyn Store>,
    inner: Mutex<Inner>,
}

struct Inner {
    time: Arc<Mutex<Time>>,
    trace: Vec<String>,
    violation: Option<String>,
    /// The number of calls of each process, over all its lives.
    calls: Vec<u32>,
    /// For each process, the number of the call before which every call fails.
    partitioned: Vec<u32>,
    halts: Vec<Option<Halt>>,
    halted: Vec<Arc<Notify>>,
    workers: Vec<Option<WorkerId>>,
    delivered: u32,
    /// How often the body of each attempt began.
    begun: BTreeMap<(RunId, String), u32>,
    audit: Audit,
    /// The runs that killed workers have left, each with its epoch and the time of the death.
    left: BTreeMap<RunId, (i64, i64)>,
    /// The times from a death to the next claim of each run that was left, in microseconds.
    takeovers: Vec<i64>,
    /// Runs whose starts were acknowledged.
    acknowledged: Vec<RunId>,
    application_ended: bool,
}

impl Inner {
    /// Records the take-over of a run that a killed worker has left, if this epoch is a later one.
    fn taken_over(&mut self, run: RunId, epoch: i64) {
        let Some((before, died_at)) = self.left.get(&run).copied() else { return };
        if epoch > before {
            let now = self.time.lock().expect("time").now();
            self.left.remove(&run);
            self.takeovers.push(now - died_at);
        }
    }
}

/// The time: the clock of the process that has its turn.
#[derive(Debug, Default)]
struct Time {
    micros: i64,
    turn: Option<(Instant, i64)>,
}

impl Time {
    fn now(&mut self) -> i64 {
        if let Some((origin, born)) = self.turn {
            let now = born + i64::try_from(origin.elapsed().as_micros()).unwrap_or(i64::MAX);
            self.micros = self.micros.max(now);
        }
        self.micros
    }
}

impl World {
    pub(super) fn new(case: Case) -> Arc<Self> {
        let time = Arc::new(Mutex::new(Time::default()));
        let asked = Arc::clone(&time);
        let clock =
            Clock::from_fn(move || Timestamp::from_micros(CLOCK_START.as_micros() + asked.lock().expect("time").now()));
        let database = MemoryDatabase::new(clock);
        let processes = case.workers + 1;
        let inner = Inner {
            time,
            trace: Vec::new(),
            violation: None,
            calls: vec![0; processes],
            partitioned: vec![0; processes],
            halts: vec![None; processes],
            halted: (0..processes).map(|_| Arc::default()).collect(),
            workers: vec![None; processes],
            delivered: 0,
            begun: BTreeMap::new(),
            audit: Audit::default(),
            left: BTreeMap::new(),
            takeovers: Vec::new(),
            acknowledged: Vec::new(),
            application_ended: false,
        };
        Arc::new(Self { case, auditor: database.handle(), database, inner: Mutex::new(inner) })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("the world")
    }

    /// Begins the turn of a process that was born at `born`, which is `origin` on its own clock.
    pub(super) fn turn(&self, origin: Instant, born: i64) {
        self.inner().time.lock().expect("time").turn = Some((origin, born));
    }

    /// Ends the turn. The time is at least `micros` from now on.
    pub(super) fn turn_ends(&self, micros: i64) {
        let inner = self.inner();
        let mut time = inner.time.lock().expect("time");
        time.turn = None;
        time.micros = time.micros.max(micros);
    }

    /// Returns the time in microseconds since the beginning.
    pub(super) fn now(&self) -> i64 {
        self.inner().time.lock().expect("time").now()
    }

    /// Records that the start of a run was acknowledged.
    pub(super) fn started(&self, run: RunId) {
        self.inner().acknowledged.push(run);
    }

    /// Returns the runs whose starts were acknowledged.
    pub(super) fn acknowledged(&self) -> Vec<RunId> {
        self.inner().acknowledged.clone()
    }

    /// Records that the application has finished.
    pub(super) fn application_ends(&self) {
        self.inner().application_ended = true;
    }

    /// Returns `true` if the application has finished.
    pub(super) fn has_application_ended(&self) -> bool {
        self.inner().application_ended
    }

    /// Adds a line to the trace, if one is kept.
    pub(super) fn note(&self, process: usize, what: impl fmt::Display) {
        if !self.case.is_traced {
            return;
        }
        let mut inner = self.inner();
        let now = inner.time.lock().expect("time").now();
        inner.trace.push(format!("{:>12.3} ms  {}  {what}", now as f64 / 1000.0, self.name(process)));
    }

    fn name(&self, process: usize) -> String {
        if process == self.case.workers { "application".into() } else { format!("worker {process}") }
    }

    /// Records a violation. Only the first one is kept.
    pub(super) fn violated(&self, what: String) {
        let mut inner = self.inner();
        inner.trace.push(format!("VIOLATION: {what}"));
        inner.violation.get_or_insert(what);
    }

    /// Returns the violation, if there is one.
    pub(super) fn violation(&self) -> Option<String> {
        self.inner().violation.clone()
    }

    /// Counts a call and returns its fault, if there is one.
    pub(super) fn next_call(&self, process: usize) -> Option<Fault> {
        let mut inner = self.inner();
        let call = inner.calls[process];
        inner.calls[process] += 1;
        let fault = self.case.faults.get(&(process, call)).copied();
        if let Some(fault) = fault {
            inner.delivered += 1;
            if let Fault::Partition(calls) = fault {
                inner.partitioned[process] = call + calls;
            }
        }
        let now = inner.time.lock().expect("time").now();
        let is_out = self.case.outage_millis.contains(&u64::try_from(now / 1000).unwrap_or(0));
        if is_out || call < inner.partitioned[process] { Some(Fault::FailBefore) } else { fault }
    }

    /// Returns the numbers of calls and of faults that happened.
    pub(super) fn counted(&self) -> (u64, u32) {
        let inner = self.inner();
        (inner.calls.iter().copied().map(u64::from).sum(), inner.delivered)
    }

    /// Stops or kills the process from now on.
    pub(super) fn halt(&self, process: usize, halt: Halt) {
        let halted = {
            let mut inner = self.inner();
            inner.halts[process].get_or_insert(halt);
            Arc::clone(&inner.halted[process])
        };
        halted.notify_one();
    }

    /// Returns `true` if the worker of a process holds runs.
    pub(super) fn holds_runs(&self, process: usize) -> bool {
        let inner = self.inner();
        inner.workers[process].is_some_and(|worker| inner.audit.held_by(worker).next().is_some())
    }

    /// Kills a worker between two turns, and remembers the runs that it leaves.
    pub(super) fn kill(&self, process: usize) {
        {
            let mut inner = self.inner();
            let now = inner.time.lock().expect("time").now();
            let Inner { audit, workers, left, .. } = &mut *inner;
            if let Some(worker) = workers[process] {
                left.extend(audit.held_by(worker).map(|(run, epoch)| (run, (epoch, now))));
            }
        }
        self.halt(process, Halt::Died);
    }

    /// Returns the times from a death to the next claim of each run that was left, in microseconds.
    pub(super) fn takeovers(&self) -> Vec<i64> {
        self.inner().takeovers.clone()
    }

    /// Returns the runs that killed workers have left, and that no worker has claimed since.
    pub(super) fn left(&self) -> Vec<RunId> {
        self.inner().left.keys().copied().collect()
    }

    /// Returns `true` if the process is dead.
    pub(super) fn is_dead(&self, process: usize) -> bool {
        self.inner().halts[process] == Some(Halt::Died)
    }

    /// Returns the notification that a process must stand still.
    pub(super) fn halted(&self, process: usize) -> Arc<Notify> {
        Arc::clone(&self.inner().halted[process])
    }

    /// Removes and returns the reason why the process stands still. It then continues or is born
    /// again.
    pub(super) fn take_halt(&self, process: usize) -> Option<Halt> {
        let mut inner = self.inner();
        inner.halted[process] = Arc::default();
        inner.halts[process].take()
    }

    /// Sets the worker of a process.
    pub(super) fn set_worker(&self, process: usize, worker: WorkerId) {
        self.inner().workers[process] = Some(worker);
    }

    /// Returns the worker of a process.
    pub(super) fn worker(&self, process: usize) -> Option<WorkerId> {
        self.inner().workers[process]
    }

    /// Compares the stored rows of these runs with those after their last commit.
    pub(super) async fn audit(&self, runs: &[RunId]) {
        for id in runs {
            let run = self.auditor.run(*id).await.expect("the auditor reads");
            let rows = self.auditor.history(*id).await.expect("the auditor reads");
            let Some(run) = run else { continue };
            let epoch = run.epoch;
            let found = {
                let mut inner = self.inner();
                inner.taken_over(*id, epoch);
                inner.audit.check(run, rows)
            };
            if let Err(violation) = found {
                self.violated(violation);
            }
        }
    }

    /// Returns how often the body of each attempt of a run began.
    pub(super) fn begun(&self, run: RunId) -> Vec<(String, u32)> {
        let inner = self.inner();
        let of_run = inner.begun.iter().filter(|((of, _), _)| *of == run);
        of_run.map(|((_, label), times)| (label.clone(), *times)).collect()
    }

    /// Returns the number of bodies that began.
    pub(super) fn bodies(&self) -> u64 {
        self.inner().begun.values().copied().map(u64::from).sum()
    }

    /// Returns the trace so far.
    pub(super) fn trace(&self) -> Vec<String> {
        self.inner().trace.clone()
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("case", &self.case).finish_non_exhaustive()
    }
}

/// The state of a worker, with which bodies report that they began.
#[derive(Clone, Debug)]
pub struct Body {
    pub(super) process: usize,
    pub(super) world: Arc<World>,
}

impl Body {
    /// Records that the body of an attempt begins.
    pub(super) async fn begin(&self, run: RunId, key: &str, attempt: u32) {
        if self.world.is_dead(self.process) {
            std::future::pending::<()>().await;
        }
        let step = key.split_once('/').map_or(key, |(_, step)| step);
        self.world.note(self.process, format_args!("body of {} {step} attempt {attempt}", short(run)));
        *self.world.inner().begun.entry((run, format!("{key}#{attempt}"))).or_default() += 1;
        self.check_not_recorded(run, step).await;
    }

    /// Checks that the owner of a run does not run the body of a step whose outcome is recorded.
    async fn check_not_recorded(&self, run: RunId, step: &str) {
        let auditor = &self.world.auditor;
        let stored = auditor.run(run).await.expect("the auditor reads").expect("a run with a running body exists");
        let owns = stored.worker_id.is_some() && stored.worker_id == self.world.worker(self.process);
        if !owns || stored.generation > 0 || self.world.inner().audit.was_claimed_again(run) {
            return;
        }
        let rows = auditor.history(run).await.expect("the auditor reads");
        if let Some(row) = rows.iter().find(|row| row.step_key == step && row.position.is_some()) {
            let epoch = stored.epoch;
            self.world
                .violated(format!("the owner (epoch {epoch}) runs the body of {step}, which is recorded: {row:?}"));
        }
    }
}

/// Returns the short form of a run id for the trace.
pub(super) fn short(run: RunId) -> String {
    let text = run.to_string();
    format!("run {}", &text[text.len() - 4..])
}
