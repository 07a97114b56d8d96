//! Every metric is emitted, and stands in the guide, on the board or in the alert rules under the
//! name under which it is emitted.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use workflow_engine::model::{ErrorKind, RunId, RunStatus, StepKind, Timestamp, WorkerId};
use workflow_engine::observe::{Event, Observer, RunName, StepName};
use workflow_engine::store::{DatabaseError, DatabaseErrorKind};

use super::{METRICS, Metric, MetricKind, Metrics};

fn recorded() -> (Metrics, PrometheusHandle) {
    let mut builder = PrometheusBuilder::new();
    for metric in METRICS.iter().filter(|metric| metric.kind == MetricKind::Histogram) {
        builder = builder.set_buckets_for_metric(Matcher::Full(metric.name.to_owned()), metric.buckets).unwrap();
    }
    let recorder = builder.build_recorder();
    let shown = recorder.handle();
    (Metrics::with_recorder(recorder), shown)
}

fn value(shown: &PrometheusHandle, series: &str) -> f64 {
    let text = shown.render();
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{series} is missing:\n{text}")).parse().unwrap()
}

const SECOND: Duration = Duration::from_secs(1);

fn run(id: &RunId) -> RunName<'_> {
    RunName { id: *id, workflow: "checkout", version: "2", queue: "mail" }
}

fn step(id: &RunId) -> StepName<'_> {
    StepName { run_id: *id, key: "items/7/charge:1", kind: StepKind::Step, attempt: 1 }
}

/// Sends at least one event of each kind; the last one is the stop of the worker.
fn send_every_event(metrics: &Metrics) {
    let (id, worker) = (RunId::generate(), WorkerId::generate());
    let (run, step) = (run(&id), step(&id));
    let error = DatabaseError::new(DatabaseErrorKind::Unreachable, "commit", "gone");
    let failed = |retry_after| Event::CommitFailed { writes: 1, failures: 1, retry_after, error: &error };
    let ended = |status, kind| Event::RunEnded { run, status, kind, step: None, attempt: 1, duration: SECOND };
    let claimed = Event::RunClaimed { run, worker, epoch: 1, attempt: 1 };
    let diverged = |is_new| Event::RunDiverged { run, report: "", is_new };
    let events = [
        Event::WorkerStarted { worker, lanes: 1, concurrency: 8 },
        Event::ClaimAnswered { worker, wanted: 8, claimed: 1, duration: SECOND },
        Event::ClaimAnswered { worker, wanted: 8, claimed: 0, duration: SECOND },
        Event::RunStarted { run },
        claimed,
        Event::RunTakenOver { run, worker, crashes: 1 },
        Event::StepBegun { step },
        Event::StepRetried { step, error: Some(ErrorKind::Application), duration: SECOND },
        Event::StepEnded { step, error: None, duration: SECOND },
        Event::StepEnded { step, error: Some(ErrorKind::Timeout), duration: SECOND },
        Event::RunParked { run, until: None },
        claimed,
        Event::RunWoken { run, worker },
        diverged(true),
        diverged(false),
        claimed,
        Event::RunRetried { run, attempt: 1, kind: ErrorKind::Panic, until: Timestamp::FAR_FUTURE },
        claimed,
        Event::RunContinued { run, generation: 1 },
        claimed,
        Event::RunReleased { run },
        claimed,
        Event::LeaseLost { run, worker },
        claimed,
        ended(RunStatus::Succeeded, None),
        ended(RunStatus::Canceled, None),
        ended(RunStatus::Failed, Some(ErrorKind::CrashLoop)),
        Event::ScheduleFired { schedule: "daily", started: 1, skipped: 2, missed: 3, lateness: Some(SECOND) },
        Event::Committed { writes: 3, duration: SECOND },
        failed(Some(SECOND)),
        failed(None),
        Event::OldRunsDeleted { worker, deleted: 5, kept: 1, duration: SECOND },
        Event::WorkerDied { worker: WorkerId::generate(), claims: 1 },
        Event::WorkerStopping { worker, claims: 0 },
    ];
    events.iter().for_each(|event| metrics.event(event));
}

#[test]
fn events_become_the_metrics_that_the_list_names() {
    let (metrics, shown) = recorded();
    send_every_event(&metrics);
    let lane = "queue=\"mail\",workflow=\"checkout\",version=\"2\"";
    let of_step = "workflow=\"checkout\",step=\"charge\"";
    for (series, expected) in [
        (format!("workflow_runs_started_total{{{lane}}}"), 1.0),
        (format!("workflow_runs_claimed_total{{{lane}}}"), 7.0),
        (format!("workflow_runs_ended_total{{{lane},outcome=\"succeeded\"}}"), 1.0),
        (format!("workflow_runs_ended_total{{{lane},outcome=\"failed\"}}"), 1.0),
        (format!("workflow_runs_ended_total{{{lane},outcome=\"canceled\"}}"), 1.0),
        ("workflow_run_duration_seconds_count{queue=\"mail\",workflow=\"checkout\"}".into(), 3.0),
        ("workflow_run_duration_seconds_bucket{queue=\"mail\",workflow=\"checkout\",le=\"0.256\"}".into(), 0.0),
        ("workflow_run_duration_seconds_bucket{queue=\"mail\",workflow=\"checkout\",le=\"1.024\"}".into(), 3.0),
        ("workflow_divergences_total{workflow=\"checkout\"}".into(), 1.0),
        ("workflow_crash_loops_total{workflow=\"checkout\"}".into(), 1.0),
        ("workflow_runs_parked_total{workflow=\"checkout\"}".into(), 1.0),
        ("workflow_runs_retried_total{workflow=\"checkout\"}".into(), 1.0),
        ("workflow_runs_taken_over_total{workflow=\"checkout\"}".into(), 1.0),
        ("workflow_leases_lost_total{workflow=\"checkout\"}".into(), 1.0),
        (format!("workflow_steps_total{{{of_step},outcome=\"succeeded\"}}"), 1.0),
        (format!("workflow_steps_total{{{of_step},outcome=\"failed\"}}"), 1.0),
        (format!("workflow_step_retries_total{{{of_step}}}"), 1.0),
        (format!("workflow_step_duration_seconds_count{{{of_step}}}"), 3.0),
        ("workflow_claims_total".into(), 2.0),
        ("workflow_claim_runs_count".into(), 1.0),
        ("workflow_commits_total".into(), 1.0),
        ("workflow_commit_failures_total{action=\"retried\"}".into(), 1.0),
        ("workflow_commit_failures_total{action=\"given_up\"}".into(), 1.0),
        ("workflow_schedule_occurrences_total{schedule=\"daily\",result=\"missed\"}".into(), 3.0),
        ("workflow_schedule_lateness_seconds_count{schedule=\"daily\"}".into(), 1.0),
        ("workflow_retention_deleted_total".into(), 5.0),
        ("workflow_workers_died_total".into(), 1.0),
        ("workflow_worker_concurrency".into(), 8.0),
        ("workflow_worker_runs".into(), 0.0),
    ] {
        assert_eq!(value(&shown, &series), expected, "{series}");
    }
}

#[test]
fn a_worker_that_stops_leaves_no_run_behind() {
    let (metrics, shown) = recorded();
    let (id, worker) = (RunId::generate(), WorkerId::generate());
    metrics.event(&Event::WorkerStarted { worker, lanes: 1, concurrency: 8 });
    metrics.event(&Event::RunClaimed { run: run(&id), worker, epoch: 1, attempt: 1 });
    assert_eq!(value(&shown, "workflow_worker_runs"), 1.0);
    metrics.event(&Event::WorkerStopped { worker });
    assert_eq!(value(&shown, "workflow_worker_runs"), 0.0);
    assert_eq!(value(&shown, "workflow_worker_concurrency"), 0.0);
}

/// The names that are emitted: after every event, and after a read of the gauges.
#[cfg(feature = "sqlite")]
#[tokio::test]
async fn every_metric_of_the_list_is_emitted_and_no_other() {
    let (metrics, shown) = recorded();
    send_every_event(&metrics);
    let recorder = PrometheusBuilder::new().build_recorder();
    let of_database = recorder.handle();
    let client = crate::Client::connect("sqlite::memory:").await.unwrap();
    client.start_by_name("checkout", &7.into()).await.unwrap();
    client.limit("llm").set(crate::LimitRule::default()).await.unwrap();
    super::DatabaseGauges::new(client).with_recorder(recorder).refresh().await.unwrap();
    let text = shown.render() + &of_database.render();
    let emitted: BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    assert_eq!(emitted, names());
}

fn names() -> BTreeSet<&'static str> {
    METRICS.iter().map(|metric| metric.name).collect()
}

/// Returns the names of metrics in a text, without the endings of the parts of a histogram.
fn names_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let of_metric = |word: &str| {
        let base = ["_bucket", "_count", "_sum"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word);
        let is_histogram = METRICS.iter().any(|metric| metric.name == base && metric.kind == MetricKind::Histogram);
        if is_histogram { base.to_owned() } else { word.to_owned() }
    };
    let is_other = |word: &str| ["workflow_sdk", "workflow_worker", "workflow_cli", "workflow_http"].contains(&word);
    words.filter(|word| word.starts_with("workflow_") && !is_other(word)).map(of_metric).collect()
}

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)).unwrap()
}

#[test]
fn the_guide_lists_every_metric_with_its_kind_and_labels() {
    let guide = read("docs/guide/metrics.md");
    for Metric { name, kind, labels, .. } in METRICS {
        let kind = format!("{kind:?}").to_lowercase();
        let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
        let row = format!("| `{name}` | {kind} | {} |", labels.join(", ")).replace("|  |", "| |");
        assert!(guide.contains(&row), "docs/guide/metrics.md lacks {row}");
    }
    let known: BTreeSet<String> = names().into_iter().map(str::to_owned).collect();
    assert_eq!(names_in(&guide), known, "left: the guide; right: the code");
}

#[test]
fn the_board_and_the_alert_rules_name_metrics_that_exist() {
    for path in ["ops/grafana.json", "ops/alerts.yml"] {
        let text = read(path);
        let unknown: Vec<String> =
            names_in(&text).into_iter().filter(|name| !names().contains(name.as_str())).collect();
        assert!(unknown.is_empty(), "{path} names {unknown:?}, which no code emits");
        assert!(names_in(&text).len() > 8, "{path}");
    }
}

/// A metric that neither the board nor an alert shows is one that is not looked at.
#[test]
fn every_metric_is_on_the_board_or_in_an_alert() {
    let shown = names_in(&(read("ops/grafana.json") + &read("ops/alerts.yml")));
    let missing: Vec<&str> = names().into_iter().filter(|name| !shown.contains(*name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_board_is_json_and_its_panels_have_queries_and_titles() {
    let board: serde_json::Value = serde_json::from_str(&read("ops/grafana.json")).unwrap();
    let panels = board["panels"].as_array().unwrap();
    assert!(panels.len() >= 12);
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        assert!(!panel["title"].as_str().unwrap().is_empty());
        let targets = panel["targets"].as_array().unwrap();
        assert!(targets.iter().all(|target| target["expr"].as_str().is_some_and(|expr| !expr.is_empty())), "{panel}");
    }
}

#[test]
fn every_alert_stands_in_the_guide() {
    let guide = read("docs/guide/metrics.md");
    let rules = read("ops/alerts.yml");
    let alerts: Vec<&str> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() >= 10, "{alerts:?}");
    for alert in alerts {
        assert!(guide.contains(&format!("| `{alert}` |")), "docs/guide/metrics.md lacks {alert}");
    }
}
