//! The metrics of the process and of the database, as text for a scraper.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use workflow_sdk::metrics::DatabaseGauges;

/// How long a scrape waits for the database. Scrapers give up after ten seconds or more.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Clone)]
struct Scraped {
    gauges: DatabaseGauges,
    render: Arc<dyn Fn() -> String + Send + Sync>,
}

/// Returns the route `/metrics` for Prometheus. Each scrape reads the gauges of the database anew,
/// unless they are young, and answers the text of `render`: what the recorder of the process has.
/// If the database does not answer within two seconds, its gauges are those of the last scrape.
///
/// The route is open to all, as a scraper expects. Metrics show names of queues and workflows, and
/// no payload; nest the route where only the scraper reaches it.
///
/// ```no_run
/// // no_run: it listens on a port.
/// use workflow_http::{Access, metrics_router, router};
/// use workflow_sdk::Client;
/// use workflow_sdk::metrics::{DatabaseGauges, Metrics};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // Here: let recorder = PrometheusBuilder::new().install_recorder()?;
/// let render = || String::new(); // move || recorder.render()
/// let client = Client::connect("sqlite://orders.db").observer(Metrics::new()).await?;
/// let metrics = metrics_router(DatabaseGauges::new(client.clone()), render);
/// let app = metrics.nest("/workflows", router(client, Access::local()));
/// # drop(app);
/// # Ok(())
/// # }
/// ```
pub fn metrics_router(gauges: DatabaseGauges, render: impl Fn() -> String + Send + Sync + 'static) -> Router {
    Router::new().route("/metrics", get(metrics)).with_state(Scraped { gauges, render: Arc::new(render) })
}

async fn metrics(State(Scraped { gauges, render }): State<Scraped>) -> Response {
    match tokio::time::timeout(PATIENCE, gauges.refresh()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "the gauges of the database are old");
        }
        Err(_) => tracing::warn!("the database does not answer in time: its gauges are old"),
    }
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], render()).into_response()
}
