//! The HTTP interface of workflows: everything that an operator does, and the start of runs, for
//! programs in any language.
//!
//! [`router`] is an axum router that an application nests under any prefix. Requests and answers
//! are the types of [`workflow_sdk::operate`] as JSON; errors are problems as RFC 9457 describes
//! them. `docs/guide/http-api.md` lists the routes.
//!
//! ```no_run
//! // no_run: it listens on a port.
//! use std::net::SocketAddr;
//!
//! use workflow_http::{Access, Actor, router};
//! use workflow_sdk::Client;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect("sqlite://orders.db").await?;
//! let access = Access::token(std::env::var("API_TOKEN")?, Actor::operator("ci"));
//! let app = axum::Router::new().nest("/workflows", router(client, access));
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:7777").await?;
//! axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
//! # Ok(())
//! # }
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

mod access;
mod body;
mod bulks;
mod events;
mod flow_actor;
#[cfg(feature = "flows")]
mod flows;
mod frame;
mod interface;
mod items;
#[cfg(feature = "metrics")]
mod metrics;
mod orders;
mod origin;
mod problem;
mod reads;
mod redaction;
mod run_events;
mod runs;
mod statistics;
#[cfg(feature = "flows")]
mod steps;
mod streams;
#[cfg(feature = "flows")]
mod triggers;

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{from_fn_with_state, map_response};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use workflow_sdk::operate::{ListRuns, Operate};

pub use access::{Access, Actor, Refusal};
use interface::Redacted;
#[cfg(feature = "metrics")]
pub use metrics::metrics_router;
use problem::Problem;
pub use redaction::Redact;
pub use streams::Streams;

/// Functions that the dashboard and the interface over MCP use, too. Internal: exempt from semantic
/// versioning.
#[doc(hidden)]
pub mod internal {
    pub use crate::access::refusal_response;
    pub use crate::events::{last_id, stream_of_changes};
    pub use crate::interface::Redacted;
    pub use crate::items::may_search;
    pub use crate::orders::{perform_as, require};
    pub use crate::reads::shown;
}

/// The state that the handlers share.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub(crate) operate: Arc<dyn Operate>,
    pub(crate) streams: Streams,
}

/// The largest body of a request, in bytes: the largest payload and a little around it.
const LARGEST_BODY: usize = 64 * 1024 * 1024 + 16 * 1024;

/// Returns the routes below `/api/v1`, and `/healthz` and `/readyz`. `access` says which requests
/// are let in. The last two and `/api/v1/openapi.json` are open to all, because they show nothing
/// of the database.
///
/// [`Access::local`] needs the address of the peer: serve the application with
/// `into_make_service_with_connect_info::<SocketAddr>()`.
///
/// # Errors
/// Each error is an answer with the content type `application/problem+json`.
pub fn router(operate: impl Operate + 'static, access: Access) -> Router {
    assemble(operate, Arc::new(access), Further::default())
}

/// Returns the routes of [`router`], and those of flows: checks, deploys, starts by the name of a
/// flow, and answers to gates, by an actor or by the token of one gate.
///
/// ```no_run
/// // no_run: it opens a database.
/// use workflow_flows::{FlowStore, Flows};
/// use workflow_http::{Access, Actor, router_with_flows};
/// use workflow_sdk::Client;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("sqlite://orders.db").await?;
/// let flows = Flows::new(client.clone(), FlowStore::connect("sqlite://orders.db").await?);
/// let access = Access::token(std::env::var("API_TOKEN")?, Actor::admin("ci"));
/// let app = axum::Router::new().nest("/workflows", router_with_flows(client, access, flows));
/// # drop(app);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Each error is an answer with the content type `application/problem+json`.
#[cfg(feature = "flows")]
pub fn router_with_flows(operate: impl Operate + 'static, access: Access, flows: workflow_flows::Flows) -> Router {
    let access = Arc::new(access);
    let further = flows::routes(flows, &access);
    assemble(operate, access, further)
}

/// Routes beside those that every router has.
#[derive(Default)]
pub(crate) struct Further {
    /// Those below the prefix, for requests that are let in.
    api: Router<Shared>,
    /// Those with their whole path, for every request.
    open: Router<Shared>,
}

fn assemble(operate: impl Operate + 'static, access: Arc<Access>, further: Further) -> Router {
    let shared = Shared { operate: Redacted::over(Arc::new(operate), &access), streams: access.open_streams().clone() };
    let api = Router::new()
        .route("/runs", get(reads::runs).post(runs::start))
        .route("/runs/find", get(reads::find))
        .route("/runs/{run}", get(reads::run).delete(runs::delete))
        .route("/runs/{run}/payload", get(reads::payload))
        .route("/runs/{run}/history", get(reads::history))
        .route("/runs/{run}/timeline", get(reads::timeline))
        .route("/runs/{run}/result", get(runs::result))
        .route("/runs/{run}/events", get(run_events::events))
        .route("/runs/{run}/stream/{name}", get(items::stream))
        .route("/runs/{run}/emitted/{name}", get(items::emitted))
        .route("/runs/{run}/published/{name}", get(items::published))
        .route("/runs/{run}/fork", post(runs::fork))
        .route("/runs/{run}/signals", post(runs::signal))
        .route("/runs/{run}/priority", post(runs::set_priority))
        .route("/runs/{run}/queue", post(runs::move_to))
        .route("/runs/{run}/approvals/{approval}", post(runs::decide))
        .route("/runs/{run}/{change}", post(runs::change))
        .route("/orders", post(orders::perform))
        .route("/changes", get(events::changes))
        .route("/events", get(events::events))
        .route("/counts", get(reads::counts))
        .route("/queues", get(reads::queues))
        .route("/queues/{queue}/gates", get(reads::gates))
        .route("/limits", get(reads::limits))
        .route("/limits/{limit}/seats", get(reads::seats))
        .route("/workers", get(reads::workers))
        .route("/workflows", get(reads::workflows))
        .route("/schedules", get(reads::schedules))
        .route("/schedules/{schedule}", get(reads::schedule))
        .route("/schedules/{schedule}/next", get(reads::next_occurrences))
        .route("/schedules/{schedule}/backfill", get(reads::backfill_preview))
        .route("/approvals", get(reads::approvals))
        .route("/audit", get(reads::audit))
        .route("/stats", get(statistics::stats))
        .route("/failures", get(statistics::failures))
        .route("/system", get(reads::system))
        .route("/bulk", get(bulks::list).post(bulks::start))
        .route("/bulk/preview", post(bulks::preview))
        .route("/bulk/{bulk}", get(bulks::read))
        .route("/bulk/{bulk}/stop", post(bulks::stop))
        .merge(further.api)
        .fallback(unknown)
        .method_not_allowed_fallback(not_allowed)
        .layer(from_fn_with_state(access, access::check))
        .layer(DefaultBodyLimit::max(LARGEST_BODY));
    Router::new()
        .nest("/api/v1", api)
        .merge(further.open)
        .route("/api/v1/openapi.json", get(document))
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(ready))
        .fallback(unknown)
        .with_state(shared)
        .layer(map_response(with_headers))
}

/// The OpenAPI document. A test holds it equal to the types.
async fn document() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], include_str!("../openapi.json")).into_response()
}

/// Answers 200 if the database can be reached: reads one run.
async fn ready(State(shared): State<Shared>) -> Response {
    match shared.operate.runs(ListRuns::default().limit(1)).await {
        Ok(_) => "ok".into_response(),
        Err(error) => Problem::from(error).into_response(),
    }
}

async fn unknown() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "not_found", "there is no such path", "docs/guide/http-api.md lists the paths")
}

async fn not_allowed() -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "the path does not know this method",
        "docs/guide/http-api.md lists the methods",
    )
}

/// Keeps answers out of caches, and browsers from taking them for something else.
async fn with_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (HeaderName::from_static("x-robots-tag"), "noindex"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The answer of a read, or a problem.
pub(crate) type Answer<T> = Result<Json<T>, Problem>;

/// Compiles the code on this page of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/http-api.md")]
struct HttpPage;
