//! The HTTP port of a program: its health, its metrics, the interface for operators, and the pages.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use workflow_flows::Flows;
use workflow_http::{Access, Actor, Streams, metrics_router, router, router_with_flows};
use workflow_mcp::Mcp;
use workflow_sdk::metrics::{DatabaseGauges, METRICS, MetricKind};
use workflow_sdk::operate::Operate;
use workflow_sdk::{Client, Event, Observer};

use crate::{Exit, Failure};

/// The variable of the environment that holds the token of the interface.
pub(crate) const TOKEN: &str = "WORKFLOW_HTTP_TOKEN";

/// How often the recorder merges the values of its histograms, so that they take no memory while
/// nothing scrapes them.
const UPKEEP: Duration = Duration::from_secs(5);

/// How long open requests may take after the worker has ended.
const LAST_REQUESTS: Duration = Duration::from_secs(2);

/// Whether the worker takes new runs. An observer of its client keeps it up to date.
#[derive(Clone, Debug, Default)]
pub(crate) struct Readiness(Arc<AtomicBool>);

impl Readiness {
    /// Returns the readiness of a program without a worker, which is always ready.
    pub(crate) fn always() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }

    fn is_ready(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Observer for Readiness {
    fn event(&self, event: &Event<'_>) {
        match event {
            Event::WorkerStarted { .. } => self.0.store(true, Ordering::Release),
            Event::WorkerStopping { .. } => self.0.store(false, Ordering::Release),
            _ => {}
        }
    }
}

/// Makes a recorder of Prometheus that of this process. `None` if the program has one already.
pub(crate) fn install_recorder() -> Option<PrometheusHandle> {
    let histograms = METRICS.iter().filter(|metric| metric.kind == MetricKind::Histogram);
    let builder = histograms.fold(PrometheusBuilder::new(), |builder, metric| {
        let name = Matcher::Full(metric.name.to_owned());
        // Refuses only an empty list of buckets, and then shows quantiles.
        builder.set_buckets_for_metric(name, metric.buckets).unwrap_or_default()
    });
    builder.install_recorder().ok()
}

/// Returns the token of the environment, without spaces and line breaks around it, or `None` if the
/// variable is not set. Refuses a token that no request could send.
pub(crate) fn token() -> Result<Option<String>, Failure> {
    std::env::var_os(TOKEN).map(|token| checked(&token)).transpose()
}

fn checked(token: &OsStr) -> Result<String, Failure> {
    let can_be_sent = |c: char| matches!(c, ' '..='~' | '\t');
    match token.to_str().map(str::trim) {
        Some("") => Err(Failure::usage(
            format!("{TOKEN} is empty"),
            "set it to a long random token, or remove it to let in requests from this machine alone",
        )),
        Some(token) if token.chars().all(can_be_sent) => Ok(token.to_owned()),
        _ => Err(Failure::usage(
            format!("the token in {TOKEN} has characters that no header can carry"),
            "use visible ASCII characters on one line",
        )),
    }
}

/// A port on which nothing is answered yet.
pub(crate) struct Port {
    listener: TcpListener,
    address: SocketAddr,
    token: Option<String>,
}

impl Port {
    /// Reads the token of the environment, and binds the address.
    pub(crate) async fn bind(address: SocketAddr) -> Result<Self, Failure> {
        let token = token()?;
        let failed = |error| {
            Failure::new(Exit::Error, format!("cannot listen on {address}: {error}"))
                .help("choose another address with --http, as 127.0.0.1:7778")
        };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address, token })
    }

    /// Returns the address, with the port that was chosen if it was 0.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Begins to answer, until [`Server::stop`].
    pub(crate) fn serve(
        self,
        client: Client,
        flows: Option<Flows>,
        readiness: Readiness,
        recorder: Option<PrometheusHandle>,
    ) -> Server {
        let mut tasks = JoinSet::new();
        if let Some(recorder) = recorder.clone() {
            tasks.spawn(keep_small(recorder));
        }
        let metrics = match recorder {
            Some(recorder) => metrics_router(DatabaseGauges::new(client.clone()), move || recorder.render()),
            None => Router::new().route("/metrics", get(shown_elsewhere)),
        };
        let shared = Shared { operate: Arc::new(client.clone()), readiness };
        let streams = Streams::default();
        let of_port = access(self.token);
        let access = of_port.clone().streams(streams.clone());
        let pages = of_port.clone().for_browsers().streams(streams.clone());
        let pages = match flows.clone() {
            Some(flows) => workflow_dashboard::router_with_flows(client.clone(), pages, flows),
            None => workflow_dashboard::router(client.clone(), pages),
        };
        let interface = match flows {
            Some(flows) => {
                let mcp = Mcp::new(client.clone()).flows(flows.clone());
                router_with_flows(client, access, flows).nest("/mcp", mcp.router(of_port))
            }
            None => router(client, access),
        };
        let app = app(shared, metrics, pages, interface);
        let (stop, stopped) = oneshot::channel::<()>();
        let served = axum::serve(self.listener, app.into_make_service_with_connect_info::<SocketAddr>());
        let server = tokio::spawn(async move {
            // An error means that the server was dropped, which ends it, too.
            let graceful = served.with_graceful_shutdown(async move {
                drop(stopped.await);
                streams.end();
            });
            if let Err(error) = graceful.await {
                tracing::error!(error = &error as &dyn std::error::Error, "the HTTP port is closed");
            }
        });
        Server { stop, server, _tasks: tasks }
    }
}

/// A port on which requests are answered.
pub(crate) struct Server {
    stop: oneshot::Sender<()>,
    server: tokio::task::JoinHandle<()>,
    _tasks: JoinSet<()>,
}

impl Server {
    /// Takes no further request, and lets open ones end for a moment.
    pub(crate) async fn stop(mut self) {
        // A receiver that is gone means that the server has ended.
        let _ = self.stop.send(());
        if tokio::time::timeout(LAST_REQUESTS, &mut self.server).await.is_err() {
            self.server.abort();
        }
    }
}

async fn keep_small(recorder: PrometheusHandle) {
    let mut interval = tokio::time::interval(UPKEEP);
    loop {
        interval.tick().await;
        recorder.run_upkeep();
    }
}

/// Returns the access to the interface and the pages: by the token, or from this machine only.
fn access(token: Option<String>) -> Access {
    match token {
        Some(token) => Access::token(token, Actor::admin("token")),
        None => Access::local(),
    }
}

/// The state that the handlers share.
#[derive(Clone, Debug)]
struct Shared {
    operate: Arc<dyn Operate>,
    readiness: Readiness,
}

/// Returns the routes of the program. The router of the interface answers every path that neither
/// the program nor a page has, so a program gets a problem document for an unknown path below
/// `/api`.
fn app(shared: Shared, metrics: Router, pages: Router, interface: Router) -> Router {
    let own: Router = Router::new().route("/readyz", get(ready)).with_state(shared).merge(metrics);
    own.merge(pages.reset_fallback()).fallback_service(interface)
}

/// Answers 200 if the worker takes runs and the database can be reached.
async fn ready(State(shared): State<Shared>) -> Response {
    if !shared.readiness.is_ready() {
        return (StatusCode::SERVICE_UNAVAILABLE, "the worker has not started, or stops\n").into_response();
    }
    match shared.operate.counts().await {
        Ok(_) => "ok\n".into_response(),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{}\n", error.message)).into_response(),
    }
}

/// Says where the metrics are, if not here.
async fn shown_elsewhere() -> (StatusCode, &'static str) {
    let why = "this program has a recorder of its own, so its metrics are where that one shows them\n";
    (StatusCode::NOT_FOUND, why)
}
