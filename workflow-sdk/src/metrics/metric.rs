//! Every metric: its name, its labels and its meaning. `docs/guide/metrics.md` shows the same list.

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MetricKind {
    /// A number that only grows, until the process ends.
    Counter,
    /// A number that grows and shrinks.
    Gauge,
    /// A distribution of values in buckets.
    Histogram,
}

/// Describes one metric that this crate emits.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Metric {
    /// The name, as Prometheus shows it. Times are in seconds.
    pub name: &'static str,
    /// The kind.
    pub kind: MetricKind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// The upper bounds of the buckets of a histogram; empty for other kinds.
    pub buckets: &'static [f64],
    /// One sentence that says what the metric shows.
    pub help: &'static str,
}

/// Bounds from a millisecond to about a day, by a factor of 4.
const DURATIONS: &[f64] = &[
    0.001, 0.004, 0.016, 0.064, 0.256, 1.024, 4.096, 16.384, 65.536, 262.144, 1048.576, 4194.304, 16777.216, 67108.864,
];

/// From 250 microseconds to 16 s, by a factor of 2: the time of a commit.
const COMMITS: &[f64] = &[
    0.00025, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192,
    16.384,
];

/// From 1 to 4,096, by a factor of 4.
const SIZES: &[f64] = &[1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0];

type Labels = &'static [&'static str];

const fn counter(name: &'static str, labels: Labels, help: &'static str) -> Metric {
    Metric { name, kind: MetricKind::Counter, labels, buckets: &[], help }
}

const fn gauge(name: &'static str, labels: Labels, help: &'static str) -> Metric {
    Metric { name, kind: MetricKind::Gauge, labels, buckets: &[], help }
}

const fn histogram(name: &'static str, labels: Labels, buckets: &'static [f64], help: &'static str) -> Metric {
    Metric { name, kind: MetricKind::Histogram, labels, buckets, help }
}

const LANE: Labels = &["queue", "workflow", "version"];
const WORKFLOW: Labels = &["workflow"];
const STEP: Labels = &["workflow", "step"];

/// Defines a constant per metric, and the list of all.
macro_rules! metrics {
    ($($id:ident = $metric:expr;)*) => {
        $(pub(super) const $id: Metric = $metric;)*

        /// Every metric that this crate emits, for a recorder that needs buckets or descriptions
        /// before the first value.
        pub const METRICS: &[Metric] = &[$($id),*];
    };
}

metrics! {
    RUNS_STARTED = counter("workflow_runs_started_total", LANE, "Runs that were started by this process");
    RUNS_ENDED = counter(
        "workflow_runs_ended_total",
        &["queue", "workflow", "version", "outcome"],
        "Runs that workers of this process ended",
    );
    RUN_DURATION = histogram(
        "workflow_run_duration_seconds",
        &["queue", "workflow"],
        DURATIONS,
        "Time from the first claim of a run to its end",
    );
    RUNS_CLAIMED = counter("workflow_runs_claimed_total", LANE, "Claims of runs by workers of this process");
    RUNS_PARKED = counter("workflow_runs_parked_total", WORKFLOW, "Parks: a run waits without a worker");
    RUNS_RETRIED = counter("workflow_runs_retried_total", WORKFLOW, "Attempts of runs that failed and are tried again");
    RUNS_TAKEN_OVER = counter(
        "workflow_runs_taken_over_total",
        WORKFLOW,
        "Claims of runs whose last worker died or let its lease end",
    );
    LEASES_LOST = counter("workflow_leases_lost_total", WORKFLOW, "Claims that a worker of this process has lost");
    CRASH_LOOPS = counter("workflow_crash_loops_total", WORKFLOW, "Runs that failed because their workers kept dying");
    DIVERGENCES = counter("workflow_divergences_total", WORKFLOW, "Histories that were found not to fit the code");
    STEPS = counter(
        "workflow_steps_total",
        &["workflow", "step", "outcome"],
        "Outcomes of steps, waits and children, without replayed ones",
    );
    STEP_RETRIES = counter("workflow_step_retries_total", STEP, "Attempts of steps that failed and are tried again");
    STEP_DURATION = histogram("workflow_step_duration_seconds", STEP, DURATIONS, "Time of one attempt of a step");
    CLAIMS = counter("workflow_claims_total", &[], "Claims that were answered, with those that found nothing");
    CLAIM_RUNS = histogram("workflow_claim_runs", &[], SIZES, "Runs per claim that found any");
    CLAIM_DURATION = histogram("workflow_claim_duration_seconds", &[], COMMITS, "Time of the commit of a claim");
    COMMITS_MADE = counter("workflow_commits_total", &[], "Batches that the executor committed");
    COMMIT_FAILURES = counter(
        "workflow_commit_failures_total",
        &["action"],
        "Commits that failed and are retried, or were given up",
    );
    COMMIT_DURATION = histogram("workflow_commit_duration_seconds", &[], COMMITS, "Time of a commit");
    COMMIT_WRITES = histogram("workflow_commit_writes", &[], SIZES, "Writes per commit");
    WORKER_CONCURRENCY = gauge("workflow_worker_concurrency", &[], "Runs that the workers of this process may drive at once");
    WORKER_RUNS = gauge("workflow_worker_runs", &[], "Runs that the workers of this process hold");
    WORKERS_DIED = counter("workflow_workers_died_total", &[], "Dead workers that this process has found");
    SCHEDULE_OCCURRENCES = counter(
        "workflow_schedule_occurrences_total",
        &["schedule", "result"],
        "Occurrences of schedules that this process decided about",
    );
    SCHEDULE_LATENESS = histogram(
        "workflow_schedule_lateness_seconds",
        &["schedule"],
        DURATIONS,
        "Time from an occurrence to the start of its run",
    );
    RETENTION_DELETED = counter("workflow_retention_deleted_total", &[], "Old runs that this process has deleted");
    BUILD_INFO = gauge("workflow_build_info", &["version"], "Always 1; the label names the release of the SDK");
    DATABASE_UP = gauge("workflow_database_up", &[], "1 if the last read of these gauges succeeded, otherwise 0");
    RUNS = gauge("workflow_runs", &["state"], "Runs in this state, counted to 10,000");
    QUEUE_RUNNING = gauge("workflow_queue_running", &["queue"], "Runs of the queue that workers drive, counted to 10,000");
    QUEUE_WAITING = gauge("workflow_queue_waiting", &["queue"], "Runs that have not begun, due or not, counted to 10,000");
    QUEUE_OLDEST_DUE = gauge("workflow_queue_oldest_due_seconds", &["queue"], "How long the oldest due run has been due; 0 if none is");
    QUEUE_LIMIT = gauge("workflow_queue_limit", &["queue"], "The limit of runs at once; infinite if the queue has none");
    QUEUE_PAUSED = gauge("workflow_queue_paused", &["queue"], "1 if the queue is paused, otherwise 0");
    QUEUE_WORKERS = gauge("workflow_queue_workers", &["queue"], "Live workers that serve the queue");
    UNSERVED = gauge(
        "workflow_unserved_versions",
        &["queue", "workflow"],
        "Versions of the workflow with a due run that no live worker serves",
    );
    LIMIT_HELD = gauge("workflow_limit_held", &["limit"], "Seats of the limit that are taken, counted to 10,000");
    LIMIT_WAITING = gauge("workflow_limit_waiting", &["limit"], "Steps that wait for a seat, counted to 10,000");
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_follow_the_rules_of_prometheus() {
        let names: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), METRICS.len(), "each name once");
        for Metric { name, kind, buckets, help, .. } in METRICS {
            assert!(name.starts_with("workflow_"), "{name}");
            assert_eq!(name.ends_with("_total"), *kind == MetricKind::Counter, "{name}");
            assert_eq!(buckets.is_empty(), *kind != MetricKind::Histogram, "{name}");
            assert!(buckets.is_sorted(), "{name}");
            assert!(!help.ends_with('.') && !help.is_empty(), "{name}");
        }
    }

    #[test]
    fn no_label_names_a_run_a_key_or_a_gate() {
        let labels: BTreeSet<&str> = METRICS.iter().flat_map(|metric| metric.labels).copied().collect();
        let bounded =
            ["action", "limit", "outcome", "queue", "result", "schedule", "state", "step", "version", "workflow"];
        assert_eq!(labels, BTreeSet::from(bounded));
    }
}
