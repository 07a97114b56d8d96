//! Gauges of the database: the runs that wait in it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ::metrics::Recorder;
use tokio::sync::Mutex;
use tokio::time::Instant;
use workflow_engine::model::Timestamp;

use super::metric::{self, Metric};
use super::recorder::Target;
use crate::operate::{Counts, LimitView, Operate, OperateError, QueueView, WorkflowView};

/// How old the values of [`DatabaseGauges`] may be before they are read again.
pub const MOST_AGE: Duration = Duration::from_secs(5);

/// Gauges of the database: how many runs are in which state, how long the oldest one has been due,
/// which queues are full. Every process of a database shows the same values.
///
/// Call [`refresh`](DatabaseGauges::refresh) before each scrape. Counts end at 10,000, so a read
/// costs about the same whatever the database holds.
///
/// ```
/// use workflow_sdk::Client;
/// use workflow_sdk::metrics::DatabaseGauges;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("sqlite::memory:").await?;
/// let gauges = DatabaseGauges::new(client);
/// gauges.refresh().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct DatabaseGauges {
    operate: Arc<dyn Operate>,
    target: Target,
    last: Arc<Mutex<Last>>,
}

/// The state after the last read.
#[derive(Debug, Default)]
struct Last {
    read: Option<Instant>,
    error: Option<OperateError>,
    /// The series with labels. One whose subject is gone is set to 0.
    series: HashSet<(&'static str, Vec<String>)>,
}

/// The answers of one read.
struct Answers {
    counts: Counts,
    queues: Vec<QueueView>,
    limits: Vec<LimitView>,
    workflows: Vec<WorkflowView>,
}

impl DatabaseGauges {
    /// Returns gauges of this database for the recorder of the process. Nothing is read yet.
    pub fn new(operate: impl Operate + 'static) -> Self {
        Self { operate: Arc::new(operate), target: Target::default(), last: Arc::default() }
    }

    /// Uses this recorder, whatever the recorder of the process is.
    #[must_use]
    pub fn with_recorder(mut self, recorder: impl Recorder + Send + Sync + 'static) -> Self {
        self.target = Target::new(recorder);
        self
    }

    /// Reads the database and sets the gauges, unless they are younger than [`MOST_AGE`]. If calls
    /// overlap, one reads and the others wait for it.
    ///
    /// # Errors
    /// [`Unavailable`](crate::operate::OperateErrorCode::Unavailable) or
    /// [`TimedOut`](crate::operate::OperateErrorCode::TimedOut): `workflow_database_up` is then 0,
    /// and the other gauges keep their values. An error is returned for as long as values would be
    /// kept.
    ///
    /// # Cancel safety
    /// If the future is dropped, the next call reads again.
    pub async fn refresh(&self) -> Result<(), OperateError> {
        let mut last = self.last.lock().await;
        if last.read.is_some_and(|read| read.elapsed() < MOST_AGE) {
            return last.error.clone().map_or(Ok(()), Err);
        }
        let answers = read(self.operate.as_ref()).await;
        last.read = Some(Instant::now());
        let up = self.target.gauge(&metric::DATABASE_UP, []);
        match answers {
            Ok(answers) => {
                up.set(1.0);
                self.set(&answers, &mut last.series);
                last.error = None;
                Ok(())
            }
            Err(error) => {
                up.set(0.0);
                last.error = Some(error.clone());
                Err(error)
            }
        }
    }

    fn set(&self, answers: &Answers, before: &mut HashSet<(&'static str, Vec<String>)>) {
        let mut now_set = HashSet::new();
        for Value { metric, labels, value } in values(answers, now()) {
            self.series(metric, &labels).set(value);
            now_set.insert((metric.name, labels));
        }
        for (name, labels) in before.difference(&now_set) {
            if let Some(metric) = metric::METRICS.iter().find(|metric| metric.name == *name) {
                self.series(metric, labels).set(0.0);
            }
        }
        *before = now_set;
    }

    fn series(&self, metric: &Metric, labels: &[String]) -> ::metrics::Gauge {
        match labels {
            [a] => self.target.gauge(metric, [a]),
            [a, b] => self.target.gauge(metric, [a, b]),
            _ => self.target.gauge(metric, []),
        }
    }
}

async fn read(operate: &dyn Operate) -> Result<Answers, OperateError> {
    Ok(Answers {
        counts: operate.counts().await?,
        queues: operate.queues().await?,
        limits: operate.limits().await?,
        workflows: operate.workflows().await?,
    })
}

/// Returns the time of this machine. A clock that is ahead of the database's makes the oldest due
/// run look older by the difference.
fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// The value of one series.
struct Value {
    metric: &'static Metric,
    labels: Vec<String>,
    value: f64,
}

/// Computes the value of every series.
fn values(answers: &Answers, now: Timestamp) -> Vec<Value> {
    let mut values = Vec::new();
    let mut add = |metric: &'static Metric, labels: &[&str], value: f64| {
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        values.push(Value { metric, labels, value });
    };
    let Counts { pending, due, delayed, running, parked, paused, stuck, failed, canceled, .. } = answers.counts;
    let states = [
        ("pending", pending),
        ("due", due),
        ("delayed", delayed),
        ("running", running),
        ("parked", parked),
        ("paused", paused),
        ("stuck", stuck),
        ("failed", failed),
        ("canceled", canceled),
    ];
    for (state, count) in states {
        add(&metric::RUNS, &[state], f64::from(count.runs));
    }
    for queue in &answers.queues {
        let label = &[queue.name.as_str()];
        let oldest = queue.oldest_due.map_or(Duration::ZERO, |at| now.since(at));
        add(&metric::QUEUE_RUNNING, label, f64::from(queue.running.runs));
        add(&metric::QUEUE_WAITING, label, f64::from(queue.waiting.runs));
        add(&metric::QUEUE_OLDEST_DUE, label, oldest.as_secs_f64());
        add(&metric::QUEUE_PAUSED, label, f64::from(u8::from(queue.pause.is_some())));
        add(&metric::QUEUE_WORKERS, label, f64::from(queue.workers));
        add(&metric::QUEUE_LIMIT, label, queue.limits.concurrency.map_or(f64::INFINITY, f64::from));
    }
    for workflow in &answers.workflows {
        // Each queue has a value, even if it is 0, so that an alert ends.
        let mut unserved: Vec<(&str, u32)> = Vec::new();
        for version in &workflow.versions {
            match unserved.last_mut() {
                Some((queue, number)) if *queue == version.queue => *number += u32::from(version.unserved),
                _ => unserved.push((&version.queue, u32::from(version.unserved))),
            }
        }
        for (queue, number) in unserved {
            add(&metric::UNSERVED, &[queue, &workflow.name], f64::from(number));
        }
    }
    for limit in &answers.limits {
        add(&metric::LIMIT_HELD, &[&limit.name], f64::from(limit.held.runs));
        add(&metric::LIMIT_WAITING, &[&limit.name], f64::from(limit.waiting.runs));
    }
    values
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

    use super::*;
    use crate::Client;
    use crate::operate::{Action, Order};

    #[allow(clippy::unwrap_used)]
    async fn gauges() -> (Client, DatabaseGauges, PrometheusHandle) {
        let client = Client::connect("sqlite::memory:").await.unwrap();
        let recorder = PrometheusBuilder::new().build_recorder();
        let shown = recorder.handle();
        (client.clone(), DatabaseGauges::new(client).with_recorder(recorder), shown)
    }

    /// Reads again although the values are young.
    #[allow(clippy::unwrap_used)]
    async fn read_again(gauges: &DatabaseGauges) {
        gauges.last.lock().await.read = None;
        gauges.refresh().await.unwrap();
    }

    fn has(shown: &PrometheusHandle, line: &str) -> bool {
        shown.render().lines().any(|shown| shown == line)
    }

    #[tokio::test]
    async fn gauges_show_what_waits_and_are_read_again_only_when_they_are_old() {
        let (client, gauges, shown) = gauges().await;
        client.start_by_name("checkout", &7.into()).queue("mail").await.unwrap();
        gauges.refresh().await.unwrap();
        for line in [
            "workflow_database_up 1",
            "workflow_runs{state=\"due\"} 1",
            "workflow_runs{state=\"running\"} 0",
            "workflow_queue_waiting{queue=\"mail\"} 1",
            "workflow_queue_workers{queue=\"mail\"} 0",
            "workflow_queue_limit{queue=\"mail\"} inf",
            "workflow_unserved_versions{queue=\"mail\",workflow=\"checkout\"} 1",
        ] {
            assert!(has(&shown, line), "{line}:\n{}", shown.render());
        }
        client.start_by_name("checkout", &8.into()).queue("mail").await.unwrap();
        gauges.refresh().await.unwrap();
        assert!(has(&shown, "workflow_queue_waiting{queue=\"mail\"} 1"), "the values are young");
        read_again(&gauges).await;
        assert!(has(&shown, "workflow_queue_waiting{queue=\"mail\"} 2"));
        let pause = Action::PauseQueue { queue: "mail".into() };
        client.operate().perform(Order::new(pause).reason("flood")).await.unwrap();
        read_again(&gauges).await;
        assert!(has(&shown, "workflow_queue_paused{queue=\"mail\"} 1"));
    }

    #[tokio::test]
    async fn a_series_whose_subject_is_gone_is_0() {
        let (_, gauges, shown) = gauges().await;
        let view = |name: &str| {
            serde_json::from_value(serde_json::json!({
                "name": name, "held": {"runs": 3, "at_least": false}, "waiting": {"runs": 1, "at_least": false},
            }))
        };
        let mut answers = Answers {
            counts: Counts::default(),
            queues: vec![],
            limits: vec![view("llm").unwrap()],
            workflows: vec![],
        };
        let mut last = gauges.last.lock().await;
        gauges.set(&answers, &mut last.series);
        assert!(has(&shown, "workflow_limit_held{limit=\"llm\"} 3"));
        answers.limits.clear();
        gauges.set(&answers, &mut last.series);
        assert!(has(&shown, "workflow_limit_held{limit=\"llm\"} 0"));
    }
}
