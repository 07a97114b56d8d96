//! The worker of a program: its log and its end.

use std::io;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;
#[cfg(feature = "otlp")]
use tracing_subscriber::{Layer, Registry, layer::SubscriberExt, util::SubscriberInitExt};
use workflow_flows::Flows;
use workflow_sdk::{Client, Replayed, RunId};
use workflow_worker::{PreflightReport, PruneError, Pruned, ReplayRunError, Worker, WorkerError};

use crate::arguments::Log;
use crate::server::{Port, Readiness};
use crate::{Exit, Failure};

/// A worker whatever its state.
pub(crate) trait Served {
    fn with_concurrency(self: Box<Self>, runs: u32) -> Box<dyn Served>;
    fn with_queues(self: Box<Self>, queues: Vec<String>) -> Box<dyn Served>;
    fn run(self: Box<Self>) -> LocalBoxFuture<'static, Result<(), WorkerError>>;
    fn run_once(self: Box<Self>) -> LocalBoxFuture<'static, Result<(), WorkerError>>;
    fn preflight(&self) -> LocalBoxFuture<'_, Result<PreflightReport, WorkerError>>;
    fn replay(&self, run: RunId) -> LocalBoxFuture<'_, Result<Replayed, ReplayRunError>>;
    fn prune(&self, counts_only: bool) -> LocalBoxFuture<'_, Result<Pruned, PruneError>>;
}

impl<S: Send + Sync + 'static> Served for Worker<S> {
    fn with_concurrency(self: Box<Self>, runs: u32) -> Box<dyn Served> {
        Box::new(self.concurrency(runs))
    }

    fn with_queues(self: Box<Self>, queues: Vec<String>) -> Box<dyn Served> {
        Box::new(self.only_queues(queues))
    }

    fn run(self: Box<Self>) -> LocalBoxFuture<'static, Result<(), WorkerError>> {
        Worker::run(*self).boxed_local()
    }

    fn run_once(self: Box<Self>) -> LocalBoxFuture<'static, Result<(), WorkerError>> {
        Worker::run_once(*self).boxed_local()
    }

    fn preflight(&self) -> LocalBoxFuture<'_, Result<PreflightReport, WorkerError>> {
        Worker::preflight(self).boxed_local()
    }

    fn replay(&self, run: RunId) -> LocalBoxFuture<'_, Result<Replayed, ReplayRunError>> {
        Worker::replay(self, run).boxed_local()
    }

    fn prune(&self, counts_only: bool) -> LocalBoxFuture<'_, Result<Pruned, PruneError>> {
        Worker::prune(self, counts_only).boxed_local()
    }
}

/// How a worker works, as the command line says.
#[derive(Debug)]
pub(crate) struct WorkOptions {
    /// How many runs it drives at once. `None`: as the code says.
    pub(crate) concurrency: Option<u32>,
    /// The queues that it serves. Empty: as the code says.
    pub(crate) queues: Vec<String>,
    /// `true` if the worker ends when nothing is due.
    pub(crate) once: bool,
}

/// Works until SIGTERM or SIGINT, or until nothing is due. Then it lets running steps end and gives
/// every run back.
pub(crate) async fn serve(mut worker: Box<dyn Served>, options: WorkOptions) -> Result<Exit, Failure> {
    if let Some(runs) = options.concurrency {
        worker = worker.with_concurrency(runs);
    }
    if !options.queues.is_empty() {
        worker = worker.with_queues(options.queues);
    }
    let ended = if options.once { worker.run_once().await } else { worker.run().await };
    ended.map_err(|error| Failure::new(Exit::Error, format!("the worker ended: {error}")))?;
    Ok(Exit::Ok)
}

/// Answers requests until SIGTERM or SIGINT.
pub(crate) async fn serve_interface(
    client: Client,
    flows: Option<Flows>,
    port: Port,
    recorder: Option<PrometheusHandle>,
) -> Result<Exit, Failure> {
    let failed = |error| Failure::new(Exit::Error, format!("cannot listen for signals: {error}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    tracing::info!(address = %port.address(), "listening for HTTP");
    let server = port.serve(client, flows, Readiness::always(), recorder);
    tokio::select! {
        biased;
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    server.stop().await;
    Ok(Exit::Ok)
}

/// Writes the log to the standard error, unless the program has a subscriber already. Shows
/// workers, failures and everything that needs attention; `RUST_LOG` shows more or less.
pub(crate) fn begin_log(log: Log) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    // A program that has its own subscriber keeps it.
    let _ = match log {
        Log::Text => lines.try_init(),
        Log::Json => lines.json().try_init(),
        Log::Off => Ok(()),
    };
}

/// Writes the log as [`begin_log`] does, and hands spans to this layer. Returns `false` if the
/// program has a subscriber already, which then gets everything.
#[cfg(feature = "otlp")]
pub(crate) fn begin_log_with(log: Log, spans: impl Layer<Registry> + Send + Sync) -> bool {
    // The filter belongs to the lines: it hides no span from the layer.
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    let registry = tracing_subscriber::registry().with(spans);
    let begun = match log {
        Log::Text => registry.with(lines.with_filter(filter)).try_init(),
        Log::Json => registry.with(lines.json().with_filter(filter)).try_init(),
        Log::Off => registry.try_init(),
    };
    begun.is_ok()
}
