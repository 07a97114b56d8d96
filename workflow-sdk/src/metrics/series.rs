//! The series of a process. Each is registered once and kept, because a look-up by labels in the
//! recorder costs more than an event may.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, PoisonError, RwLock};

use ::metrics::{Counter, Gauge, Histogram};
use workflow_engine::model::{RunStatus, step_name};
use workflow_engine::observe::RunName;

use super::metric;
use super::recorder::Target;

/// The most lanes that get labels of their own. The others share the label [`OTHER`].
pub(super) const MOST_LANES: usize = 1_000;

/// The most steps of a workflow that get labels of their own. The others share the label [`OTHER`].
pub(super) const MOST_STEPS: usize = 200;

/// The label that lanes and steps beyond these bounds share.
pub(super) const OTHER: &str = "other";

/// The series without labels, or with few of them.
pub(super) struct Common {
    pub(super) claims: Counter,
    pub(super) claim_runs: Histogram,
    pub(super) claim_duration: Histogram,
    pub(super) commits: Counter,
    pub(super) commit_duration: Histogram,
    pub(super) commit_writes: Histogram,
    pub(super) commits_retried: Counter,
    pub(super) commits_given_up: Counter,
    pub(super) worker_concurrency: Gauge,
    pub(super) worker_runs: Gauge,
    pub(super) workers_died: Counter,
    pub(super) retention_deleted: Counter,
}

impl Common {
    pub(super) fn new(target: &Target) -> Self {
        target.describe();
        target.gauge(&metric::BUILD_INFO, [env!("CARGO_PKG_VERSION")]).set(1.0);
        Self {
            claims: target.counter(&metric::CLAIMS, []),
            claim_runs: target.histogram(&metric::CLAIM_RUNS, []),
            claim_duration: target.histogram(&metric::CLAIM_DURATION, []),
            commits: target.counter(&metric::COMMITS_MADE, []),
            commit_duration: target.histogram(&metric::COMMIT_DURATION, []),
            commit_writes: target.histogram(&metric::COMMIT_WRITES, []),
            commits_retried: target.counter(&metric::COMMIT_FAILURES, ["retried"]),
            commits_given_up: target.counter(&metric::COMMIT_FAILURES, ["given_up"]),
            worker_concurrency: target.gauge(&metric::WORKER_CONCURRENCY, []),
            worker_runs: target.gauge(&metric::WORKER_RUNS, []),
            workers_died: target.counter(&metric::WORKERS_DIED, []),
            retention_deleted: target.counter(&metric::RETENTION_DELETED, []),
        }
    }
}

/// The series of the runs of a lane.
pub(super) struct LaneSeries {
    names: [String; 3],
    pub(super) started: Counter,
    pub(super) claimed: Counter,
    pub(super) succeeded: Counter,
    pub(super) failed: Counter,
    pub(super) canceled: Counter,
    pub(super) duration: Histogram,
    pub(super) parked: Counter,
    pub(super) retried: Counter,
    pub(super) taken_over: Counter,
    pub(super) leases_lost: Counter,
    pub(super) crash_loops: Counter,
    pub(super) divergences: Counter,
    steps: RwLock<HashMap<String, Arc<StepSeries>>>,
}

impl LaneSeries {
    fn new(target: &Target, [queue, workflow, version]: [&str; 3]) -> Self {
        let ended =
            |status: RunStatus| target.counter(&metric::RUNS_ENDED, [queue, workflow, version, status.as_str()]);
        let of_workflow = |metric| target.counter(metric, [workflow]);
        Self {
            names: [queue, workflow, version].map(str::to_owned),
            started: target.counter(&metric::RUNS_STARTED, [queue, workflow, version]),
            claimed: target.counter(&metric::RUNS_CLAIMED, [queue, workflow, version]),
            succeeded: ended(RunStatus::Succeeded),
            failed: ended(RunStatus::Failed),
            canceled: ended(RunStatus::Canceled),
            duration: target.histogram(&metric::RUN_DURATION, [queue, workflow]),
            parked: of_workflow(&metric::RUNS_PARKED),
            retried: of_workflow(&metric::RUNS_RETRIED),
            taken_over: of_workflow(&metric::RUNS_TAKEN_OVER),
            leases_lost: of_workflow(&metric::LEASES_LOST),
            crash_loops: of_workflow(&metric::CRASH_LOOPS),
            divergences: of_workflow(&metric::DIVERGENCES),
            steps: RwLock::default(),
        }
    }

    /// Returns the series of the step with this key.
    pub(super) fn step(&self, target: &Target, key: &str) -> Arc<StepSeries> {
        let label = step_name(key);
        if let Some(known) = self.steps.read().unwrap_or_else(PoisonError::into_inner).get(label) {
            return Arc::clone(known);
        }
        let mut steps = self.steps.write().unwrap_or_else(PoisonError::into_inner);
        let label = if steps.contains_key(label) || steps.len() < MOST_STEPS { label } else { OTHER };
        let [_, workflow, _] = &self.names;
        Arc::clone(steps.entry(label.to_owned()).or_insert_with(|| Arc::new(StepSeries::new(target, workflow, label))))
    }
}

/// The series of a step.
pub(super) struct StepSeries {
    pub(super) succeeded: Counter,
    pub(super) failed: Counter,
    pub(super) retries: Counter,
    pub(super) duration: Histogram,
}

impl StepSeries {
    fn new(target: &Target, workflow: &str, step: &str) -> Self {
        Self {
            succeeded: target.counter(&metric::STEPS, [workflow, step, "succeeded"]),
            failed: target.counter(&metric::STEPS, [workflow, step, "failed"]),
            retries: target.counter(&metric::STEP_RETRIES, [workflow, step]),
            duration: target.histogram(&metric::STEP_DURATION, [workflow, step]),
        }
    }
}

/// The series of every lane.
#[derive(Default)]
pub(super) struct Lanes {
    by_hash: RwLock<HashMap<u64, Vec<Arc<LaneSeries>>>>,
    hasher: RandomState,
}

impl Lanes {
    pub(super) fn of(&self, target: &Target, run: RunName<'_>) -> Arc<LaneSeries> {
        self.get(target, [run.queue, run.workflow, run.version])
    }

    fn get(&self, target: &Target, names: [&str; 3]) -> Arc<LaneSeries> {
        let hash = self.hasher.hash_one(names);
        if let Some(known) = find(&self.by_hash.read().unwrap_or_else(PoisonError::into_inner), hash, names) {
            return known;
        }
        let mut lanes = self.by_hash.write().unwrap_or_else(PoisonError::into_inner);
        let (hash, names) = match lanes.len() < MOST_LANES {
            true => (hash, names),
            false => (self.hasher.hash_one([OTHER; 3]), [OTHER; 3]),
        };
        if let Some(known) = find(&lanes, hash, names) {
            return known;
        }
        let series = Arc::new(LaneSeries::new(target, names));
        lanes.entry(hash).or_default().push(Arc::clone(&series));
        series
    }
}

fn find(lanes: &HashMap<u64, Vec<Arc<LaneSeries>>>, hash: u64, names: [&str; 3]) -> Option<Arc<LaneSeries>> {
    lanes.get(&hash)?.iter().find(|lane| lane.names == names).cloned()
}

#[cfg(test)]
mod tests {
    use ::metrics::NoopRecorder;

    use super::*;

    #[test]
    fn labels_are_bounded() {
        let target = Target::new(NoopRecorder);
        let lanes = Lanes::default();
        for queue in 0..MOST_LANES + 5 {
            lanes.get(&target, [&queue.to_string(), "checkout", "1"]);
        }
        assert!(lanes.by_hash.read().unwrap().len() <= MOST_LANES + 1);
        let lane = lanes.get(&target, ["7", "checkout", "1"]);
        assert_eq!(lane.names[0], "7", "a lane that has labels keeps them");
        assert_eq!(lanes.get(&target, ["new", "checkout", "1"]).names, [OTHER; 3]);
        for step in 0..MOST_STEPS + 5 {
            lane.step(&target, &format!("step-{step}"));
        }
        let steps = lane.steps.read().unwrap();
        assert_eq!(steps.len(), MOST_STEPS + 1);
        assert!(steps.contains_key(OTHER));
    }
}
