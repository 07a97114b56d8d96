//! Metrics, by the facade of the crate `metrics` (feature `metrics`).
//!
//! [`Metrics`] is an observer that counts what this process does. [`DatabaseGauges`] reads how many
//! runs wait in the database. `docs/guide/metrics.md` lists every metric, and what to alert on.

mod gauge;
mod metric;
#[cfg(test)]
mod metric_tests;
mod recorder;
mod series;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use ::metrics::Recorder;
use workflow_engine::model::{ErrorKind, RunId, RunStatus, WorkerId};
use workflow_engine::observe::{Event, Observer, RunName, StepName};

use self::recorder::Target;
use self::series::{Common, LaneSeries, Lanes, StepSeries};

pub use self::gauge::{DatabaseGauges, MOST_AGE};
pub use self::metric::{METRICS, Metric, MetricKind};

/// How many parts the table of claimed runs has. Events of different runs come from several
/// threads, which then rarely wait for each other.
const SHARDS: usize = 16;

/// An observer that turns the events of a client and its workers into metrics.
///
/// Clones share their state. An event costs a few atomic additions and at most two look-ups in a
/// table; no text is made after the first event of a lane or a step. Labels are bounded: from the
/// 1,000th lane of a process and the 200th step of a workflow on, they are `other`.
///
/// ```
/// use workflow_sdk::Client;
/// use workflow_sdk::metrics::Metrics;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // After the recorder of the process is installed.
/// let client = Client::connect("sqlite::memory:").observer(Metrics::new()).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Metrics(Arc<State>);

#[derive(Default)]
struct State {
    target: Target,
    common: OnceLock<Common>,
    lanes: Lanes,
    /// The runs that workers of this process hold. Events of steps do not name the workflow.
    runs: [Mutex<HashMap<RunId, Held>>; SHARDS],
    /// The concurrency of each worker of this process.
    workers: Mutex<HashMap<WorkerId, u32>>,
}

/// A run that a worker of this process holds.
struct Held {
    worker: WorkerId,
    lane: Arc<LaneSeries>,
}

impl Metrics {
    /// Returns an observer for the recorder of this process. Install the recorder first: series are
    /// registered at their first event, and a recorder that is installed later gets none of them.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns an observer for this recorder, whatever the recorder of the process is.
    #[must_use]
    pub fn with_recorder(recorder: impl Recorder + Send + Sync + 'static) -> Self {
        Self(Arc::new(State { target: Target::new(recorder), ..State::default() }))
    }
}

impl Observer for Metrics {
    fn event(&self, event: &Event<'_>) {
        self.0.count(event);
    }
}

impl State {
    fn count(&self, event: &Event<'_>) {
        let common = self.common.get_or_init(|| Common::new(&self.target));
        match *event {
            Event::RunStarted { run } => self.lane(run).started.increment(1),
            Event::RunClaimed { run, worker, .. } => self.claimed(common, run, worker),
            Event::RunTakenOver { run, .. } => self.lane(run).taken_over.increment(1),
            Event::RunParked { run, .. } => self.left(common, run).parked.increment(1),
            Event::RunDiverged { run, is_new, .. } => {
                let lane = self.left(common, run);
                // A divergence that is reported again is not counted again.
                lane.divergences.increment(u64::from(is_new));
            }
            Event::RunRetried { run, .. } => self.left(common, run).retried.increment(1),
            Event::RunContinued { run, .. } | Event::RunReleased { run } => drop(self.left(common, run)),
            Event::LeaseLost { run, .. } => self.left(common, run).leases_lost.increment(1),
            Event::RunEnded { run, status, kind, duration, .. } => {
                let lane = self.left(common, run);
                match status {
                    RunStatus::Succeeded => lane.succeeded.increment(1),
                    RunStatus::Canceled => lane.canceled.increment(1),
                    _ => lane.failed.increment(1),
                }
                lane.crash_loops.increment(u64::from(kind == Some(ErrorKind::CrashLoop)));
                lane.duration.record(duration);
            }
            Event::StepRetried { step, duration, .. } => {
                let series = self.step(step);
                series.retries.increment(1);
                series.duration.record(duration);
            }
            Event::StepEnded { step, error, duration } => {
                let series = self.step(step);
                match error {
                    None => series.succeeded.increment(1),
                    Some(_) => series.failed.increment(1),
                }
                series.duration.record(duration);
            }
            Event::ScheduleFired { schedule, started, skipped, missed, lateness } => {
                let results = [("started", started), ("skipped", skipped), ("missed", missed)];
                for (result, number) in results {
                    self.target.counter(&metric::SCHEDULE_OCCURRENCES, [schedule, result]).increment(number);
                }
                if let Some(lateness) = lateness {
                    self.target.histogram(&metric::SCHEDULE_LATENESS, [schedule]).record(lateness);
                }
            }
            Event::ClaimAnswered { claimed, duration, .. } => {
                common.claims.increment(1);
                common.claim_duration.record(duration);
                if claimed > 0 {
                    common.claim_runs.record(claimed as f64);
                }
            }
            Event::Committed { writes, duration } => {
                common.commits.increment(1);
                common.commit_duration.record(duration);
                common.commit_writes.record(writes as f64);
            }
            Event::CommitFailed { retry_after: Some(_), .. } => common.commits_retried.increment(1),
            Event::CommitFailed { retry_after: None, .. } => common.commits_given_up.increment(1),
            Event::OldRunsDeleted { deleted, .. } => common.retention_deleted.increment(deleted),
            Event::WorkerStarted { worker, concurrency, .. } => {
                common.worker_concurrency.increment(concurrency);
                lock(&self.workers).insert(worker, concurrency);
            }
            Event::WorkerStopped { worker } => self.stopped(common, worker),
            Event::WorkerDied { .. } => common.workers_died.increment(1),
            // Other events have no metric: the begin of a body, a wake, a worker that stops.
            _ => {}
        }
    }

    fn lane(&self, run: RunName<'_>) -> Arc<LaneSeries> {
        self.lanes.of(&self.target, run)
    }

    fn claimed(&self, common: &Common, run: RunName<'_>, worker: WorkerId) {
        let lane = self.lane(run);
        lane.claimed.increment(1);
        if lock(self.shard(run.id)).insert(run.id, Held { worker, lane }).is_none() {
            common.worker_runs.increment(1);
        }
    }

    /// Takes note that a worker does not hold the run any more.
    fn left(&self, common: &Common, run: RunName<'_>) -> Arc<LaneSeries> {
        let Some(held) = lock(self.shard(run.id)).remove(&run.id) else { return self.lane(run) };
        common.worker_runs.decrement(1);
        held.lane
    }

    /// Forgets the worker, and runs whose last event it could not send.
    fn stopped(&self, common: &Common, worker: WorkerId) {
        let concurrency = lock(&self.workers).remove(&worker).unwrap_or_default();
        common.worker_concurrency.decrement(concurrency);
        for shard in &self.runs {
            let mut runs = lock(shard);
            let before = runs.len();
            runs.retain(|_, held| held.worker != worker);
            common.worker_runs.decrement((before - runs.len()) as f64);
        }
    }

    fn step(&self, step: StepName<'_>) -> Arc<StepSeries> {
        let held = lock(self.shard(step.run_id)).get(&step.run_id).map(|held| Arc::clone(&held.lane));
        let lane = held.unwrap_or_else(|| {
            let other = series::OTHER;
            self.lane(RunName { id: step.run_id, workflow: other, version: other, queue: other })
        });
        lane.step(&self.target, step.key)
    }

    fn shard(&self, run: RunId) -> &Mutex<HashMap<RunId, Held>> {
        // The first bytes of an id are the time of its start, so the last one spreads better.
        let last = run.as_uuid().as_bytes()[15];
        &self.runs[usize::from(last) % SHARDS]
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").field("recorder", &self.0.target).finish()
    }
}

/// Compiles the code on the page about metrics.
#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../../../docs/guide/metrics.md")]
struct MetricsPage;
