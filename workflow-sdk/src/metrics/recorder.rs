//! The recorder that takes the values.

use std::fmt;
use std::sync::Arc;

use ::metrics::{Counter, Gauge, Histogram, Key, KeyName, Label, Level, Metadata, Recorder, SharedString, Unit};

use super::metric::{METRICS, Metric, MetricKind};

const METADATA: Metadata<'static> = Metadata::new("workflow", Level::INFO, Some(module_path!()));

/// The recorder of a process, or one that was given.
#[derive(Clone, Default)]
pub(super) struct Target(Option<Arc<dyn Recorder + Send + Sync>>);

impl Target {
    pub(super) fn new(recorder: impl Recorder + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(recorder)))
    }

    fn with<R>(&self, use_it: impl FnOnce(&dyn Recorder) -> R) -> R {
        match &self.0 {
            Some(recorder) => use_it(recorder.as_ref()),
            None => ::metrics::with_recorder(use_it),
        }
    }

    /// Tells the recorder what each metric means.
    pub(super) fn describe(&self) {
        self.with(|recorder| {
            for &Metric { name, kind, help, .. } in METRICS {
                let unit = name.ends_with("_seconds").then_some(Unit::Seconds);
                let (name, help) = (KeyName::from_const_str(name), SharedString::const_str(help));
                match kind {
                    MetricKind::Counter => recorder.describe_counter(name, unit, help),
                    MetricKind::Gauge => recorder.describe_gauge(name, unit, help),
                    MetricKind::Histogram => recorder.describe_histogram(name, unit, help),
                }
            }
        });
    }

    pub(super) fn counter<const N: usize>(&self, metric: &Metric, values: [&str; N]) -> Counter {
        self.with(|recorder| recorder.register_counter(&key(metric, values), &METADATA))
    }

    pub(super) fn gauge<const N: usize>(&self, metric: &Metric, values: [&str; N]) -> Gauge {
        self.with(|recorder| recorder.register_gauge(&key(metric, values), &METADATA))
    }

    pub(super) fn histogram<const N: usize>(&self, metric: &Metric, values: [&str; N]) -> Histogram {
        self.with(|recorder| recorder.register_histogram(&key(metric, values), &METADATA))
    }
}

/// Returns the key of a series: the values are those of the labels, in their order.
fn key<const N: usize>(metric: &Metric, values: [&str; N]) -> Key {
    debug_assert_eq!(metric.labels.len(), N, "{}", metric.name);
    let labels = metric.labels.iter().zip(values);
    let labels: Vec<Label> = labels.map(|(name, value)| Label::new(*name, value.to_owned())).collect();
    Key::from_parts(metric.name, labels)
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "given" } else { "global" })
    }
}
