//! The dashboard of workflows: pages in your own process that show runs, their timelines and
//! everything around them, and change what an operator may change.
//!
//! [`router`] is an axum router that an application nests under any prefix. The pages are complete
//! without a script. `docs/guide/dashboard.md` shows them.
//!
//! ```no_run
//! // no_run: it listens on a port.
//! use std::net::SocketAddr;
//!
//! use workflow_dashboard::{Access, router};
//! use workflow_sdk::Client;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect("sqlite://orders.db").await?;
//! let app = axum::Router::new().nest("/workflows", router(client, Access::local()));
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:7777").await?;
//! axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
//! # Ok(())
//! # }
//! ```

mod action;
mod address;
mod assets;
mod cache;
mod changes;
mod chart;
mod clock;
mod completion;
mod facets;
mod flow;
mod forms;
mod frame;
mod icons;
mod orders;
mod pages;
mod panel;
mod payload;
mod problem;
mod scale;
mod shared_reads;
mod status;
mod timeline;
mod timing;
mod verdict;
mod visit;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::middleware::{from_fn_with_state, map_response};
use axum::routing::{get, post};
use workflow_flows::Flows;
use workflow_sdk::operate::{Operate, OperateError};

use workflow_http::internal::Redacted;
pub use workflow_http::{Access, Actor, Redact, Streams};

use cache::Cached;
use frame::Known;
use pages::overview::Numbers;
use problem::Problem;
use shared_reads::SharedReads;

/// The state that the handlers share.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub(crate) operate: Arc<dyn Operate>,
    pub(crate) known: Arc<Cached<Known, OperateError>>,
    /// The statistics of the overview for each range.
    pub(crate) numbers: Arc<[Cached<Arc<Numbers>, Problem>; 3]>,
    /// The deployed flows, if the application has given them.
    deployed: Option<Flows>,
    pub(crate) streams: Streams,
}

impl Shared {
    /// Returns the deployed flows.
    pub(crate) fn deployed(&self) -> Result<&Flows, Problem> {
        self.deployed.as_ref().ok_or_else(|| {
            let message = "This dashboard was opened without the store of deployed flows.";
            Problem::new(StatusCode::NOT_FOUND, "There are no flows here", message, "List them by workflow flow list.")
        })
    }
}

/// The largest body of a form, in bytes. A larger payload goes through the API.
const LARGEST_FORM: usize = 1024 * 1024;

/// Returns the pages. `access` says which requests are let in, and each actor's role what it may
/// change; [`Access::read_only`] leaves every change out.
///
/// Links begin with the prefix below which the router is nested, so it works below any prefix. A
/// proxy in front of it must keep this prefix in the paths that it passes on. [`Access::local`]
/// needs the address of the peer: serve the application with
/// `into_make_service_with_connect_info::<SocketAddr>()`.
///
/// # Errors
/// Each error is a page that says what to do next.
pub fn router(operate: impl Operate + 'static, access: Access) -> Router {
    shared_router(Arc::new(operate), access)
}

/// Returns the pages over an interface that the application shares, or that asks a server: see
/// [`router`].
///
/// # Errors
/// Each error is a page that says what to do next.
///
/// ```
/// use std::sync::Arc;
///
/// use workflow_dashboard::{Access, shared_router};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = workflow_sdk::Client::connect("sqlite::memory:").await?;
/// let app = shared_router(Arc::new(client), Access::local());
/// # drop(app);
/// # Ok(())
/// # }
/// ```
pub fn shared_router(operate: Arc<dyn Operate>, access: Access) -> Router {
    assemble(operate, access, None)
}

/// Returns the pages of [`router`], with the deployed flows: their versions, their graphs, and the
/// start of a run by the name of a flow.
///
/// # Errors
/// Each error is a page that says what to do next.
///
/// ```no_run
/// // no_run: it opens a database.
/// use workflow_dashboard::{Access, router_with_flows};
/// use workflow_flows::{FlowStore, Flows};
/// use workflow_sdk::Client;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("sqlite://orders.db").await?;
/// let flows = Flows::new(client.clone(), FlowStore::connect("sqlite://orders.db").await?);
/// let pages = router_with_flows(client, Access::local(), flows);
/// let app = axum::Router::new().nest("/workflows", pages);
/// # drop(app);
/// # Ok(())
/// # }
/// ```
pub fn router_with_flows(operate: impl Operate + 'static, access: Access, flows: Flows) -> Router {
    shared_router_with_flows(Arc::new(operate), access, flows)
}

/// Returns the pages of [`router_with_flows`] over an interface that the application shares.
///
/// # Errors
/// Each error is a page that says what to do next.
pub fn shared_router_with_flows(operate: Arc<dyn Operate>, access: Access, flows: Flows) -> Router {
    assemble(operate, access, Some(flows))
}

fn assemble(operate: Arc<dyn Operate>, access: Access, deployed: Option<Flows>) -> Router {
    let streams = access.open_streams().clone();
    let operate = SharedReads::over(Redacted::over(operate, &access));
    let (known, numbers) = (Arc::default(), Arc::default());
    let shared = Shared { operate, known, numbers, deployed, streams };
    let pages = Router::new()
        .route("/", get(pages::overview::show))
        .route("/runs", get(pages::runs::show))
        .route("/words", get(pages::words::show))
        .route("/runs/{run}", get(pages::run::show))
        .route("/runs/{run}/payload", get(pages::run_payload::download))
        .route("/approvals", get(pages::approvals::show))
        .route("/failures", get(pages::failures::show))
        .route("/workflows", get(pages::workflows::show))
        .route("/workflows/{workflow}", get(pages::workflow::show))
        .route("/flows", get(pages::flows::show))
        .route("/flows/{flow}", get(pages::flow::show))
        .route("/queues", get(pages::queues::show))
        .route("/queues/{queue}", get(pages::gates::show))
        .route("/schedules", get(pages::schedules::show))
        .route("/workers", get(pages::workers::show))
        .route("/bulk", get(pages::bulk::show))
        .route("/bulk/new", get(pages::bulk_preview::show))
        .route("/bulk/{bulk}", get(pages::bulk::one))
        .route("/audit", get(pages::audit::show))
        .route("/system", get(pages::system::show))
        .route("/changes", get(changes::stream))
        .route("/orders", post(orders::perform))
        .fallback(|| async { Problem::no_page() })
        .method_not_allowed_fallback(|| async { Problem::no_page() })
        .layer(from_fn_with_state(Arc::new(access), visit::enter))
        .layer(DefaultBodyLimit::max(LARGEST_FORM));
    Router::new()
        .route("/assets/{name}", get(assets::serve))
        .merge(pages)
        .with_state(shared)
        .layer(map_response(headers))
}

/// Sets the headers that every answer has. No page may load or send anything elsewhere, and none
/// runs a script that stands in the page.
async fn headers(mut response: axum::response::Response) -> axum::response::Response {
    use axum::http::{HeaderName, HeaderValue, header};
    const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                          connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "same-origin"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (HeaderName::from_static("x-robots-tag"), "noindex"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Compiles the code on this page of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/dashboard.md")]
struct DashboardPage;
