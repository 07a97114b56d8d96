//! Flows: checks, deploys, versions and starts.

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use workflow_flows::check::{Checked, Dialect};
use workflow_flows::graph::Flow;
use workflow_flows::{CheckedFlow, FlowDiagram, FlowDocument, FlowStart, FlowSummary, Flows};
use workflow_sdk::operate::{Action, Order, Role, StartRun};
use workflow_sdk::{Priority, Timestamp};

use crate::body::{Body, Path, Query};
use crate::items::sees_payloads;
use crate::orders::{Caller, perform_as, require};
use crate::runs::{Wait, idempotency_key, started};
use crate::steps::{decide_by_token, done, question_of_token, ready};
use crate::triggers::{emit, receive};
use crate::{Access, Actor, Answer, Further, Problem, Shared, not_allowed};

/// The largest body of a request with a document, in bytes: the document as a JSON text, and an
/// input beside it.
const LARGEST_DOCUMENT: usize = 4 * 1024 * 1024;
/// The largest body of a request that has no actor, in bytes.
const LARGEST_ANSWER: usize = 64 * 1024;

/// The largest body of a webhook, in bytes.
const LARGEST_HOOK: usize = 1024 * 1024;

/// The things that the handlers of flows share.
#[derive(Clone, Debug)]
pub(crate) struct SharedFlows {
    pub(crate) flows: Flows,
    pub(crate) access: Arc<Access>,
}

pub(crate) fn routes(flows: Flows, access: &Arc<Access>) -> Further {
    let shared = Extension(SharedFlows { flows, access: Arc::clone(access) });
    let api = Router::new()
        .route("/flows:check", post(check))
        .route("/flows:run", post(run))
        .route("/flows", get(list))
        .route("/flows/{flow}", get(read).put(deploy))
        .route("/flows/{flow}/versions", get(versions))
        .route("/flows/{flow}/diagram", get(diagram))
        .route("/events/{event}", post(emit))
        .route("/steps/{run}/{key}/ready", post(ready))
        .route("/steps/{run}/{key}/done", post(done))
        .layer(DefaultBodyLimit::max(LARGEST_DOCUMENT))
        .layer(shared.clone());
    let open = Router::new()
        .route("/api/v1/gates/{token}", get(question_of_token).post(decide_by_token))
        .layer(DefaultBodyLimit::max(LARGEST_ANSWER));
    let hooks = Router::new().route("/api/v1/hooks/{path}", post(receive)).layer(DefaultBodyLimit::max(LARGEST_HOOK));
    let open = open.merge(hooks).method_not_allowed_fallback(not_allowed).layer(shared);
    Further { api, open }
}

/// Checks a document on a thread that may be busy.
async fn checked(document: FlowDocument) -> Result<Checked, Problem> {
    let checked = tokio::task::spawn_blocking(move || document.check()).await;
    checked.map_err(|_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "error", "the check failed", "report it"))
}

/// Returns the flow of a checked document, or all of its faults.
fn valid(checked: Checked) -> Result<Flow, Problem> {
    checked.flow.ok_or_else(|| {
        let detail = format!("the document has {} findings", checked.findings.len() + checked.untold);
        let help = "mend what `findings` tells; most have a `fix`";
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_flow", detail, help).findings(&checked.findings)
    })
}

/// Whether the tools of a document are asked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Connect {
    #[serde(default)]
    connect: bool,
}

impl Connect {
    /// Checks a document, and asks its tools on behalf of the actor if that is wanted. Asking them
    /// may start programs, so it needs the right to start runs.
    async fn check(&self, flows: &Flows, actor: &Actor, document: FlowDocument) -> Result<Checked, Problem> {
        if !self.connect {
            return checked(document).await;
        }
        require(actor, Role::Operator, "flow.check")?;
        Ok(flows.check_connected(&document, &actor.name).await?)
    }
}

/// `POST /flows:check`: tells every fault of a document.
async fn check(
    Extension(shared): Extension<SharedFlows>,
    Extension(actor): Extension<Actor>,
    Query(connect): Query<Connect>,
    Body(document): Body<FlowDocument>,
) -> Answer<CheckedFlow> {
    let checked = connect.check(&shared.flows, &actor, document).await?;
    Ok(Json(CheckedFlow::from(&checked)))
}

/// A document that is to be a version.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewVersion {
    document: String,
    dialect: Option<Dialect>,
    version: Option<String>,
}

/// `PUT /flows/{flow}`: deploys a document. 201 if it is a new version, 200 if it was one before.
async fn deploy(
    Extension(shared): Extension<SharedFlows>,
    Extension(actor): Extension<Actor>,
    Path(name): Path<String>,
    Query(connect): Query<Connect>,
    Body(new): Body<NewVersion>,
) -> Result<Response, Problem> {
    require(&actor, Role::Admin, "flow.deploy")?;
    let mut document = FlowDocument::new(new.document).name(&name);
    document.dialect = new.dialect;
    let flow = valid(connect.check(&shared.flows, &actor, document.clone()).await?)?;
    document.check_name(&flow)?;
    let deployed = shared.flows.deploy(&flow, &actor.name, new.version.as_deref()).await?;
    let status = if deployed.is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(deployed)).into_response())
}

/// `GET /flows`: lists the newest version of each flow.
async fn list(Extension(shared): Extension<SharedFlows>) -> Answer<Vec<FlowSummary>> {
    Ok(Json(shared.flows.list().await?))
}

/// `GET /flows/{flow}/versions`: lists the versions of a flow, the newest first.
async fn versions(Extension(shared): Extension<SharedFlows>, Path(name): Path<String>) -> Answer<Vec<FlowSummary>> {
    Ok(Json(shared.flows.versions(&name).await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Version {
    version: Option<String>,
}

/// A version with its graph.
#[derive(Serialize)]
struct FlowDetail {
    #[serde(flatten)]
    summary: FlowSummary,
    /// `None`: the actor sees no payloads.
    #[serde(skip_serializing_if = "Option::is_none")]
    definition: Option<Value>,
}

/// `GET /flows/{flow}`: reads a version with its graph, without the fields that are left out of
/// payloads.
async fn read(
    Extension(shared): Extension<SharedFlows>,
    Extension(actor): Extension<Actor>,
    Path(name): Path<String>,
    Query(Version { version }): Query<Version>,
) -> Answer<FlowDetail> {
    let found = shared.flows.find(&name, version.as_deref()).await?;
    let definition = serde_json::to_string(&found.definition).unwrap_or_default();
    let definition = serde_json::from_str(&shared.access.redacting().json(&definition)).unwrap_or_default();
    Ok(Json(FlowDetail { summary: FlowSummary::from(&found), definition: actor.payloads.then_some(definition) }))
}

/// `GET /flows/{flow}/diagram`: draws a version.
async fn diagram(
    Extension(shared): Extension<SharedFlows>,
    Extension(actor): Extension<Actor>,
    Path(name): Path<String>,
    Query(Version { version }): Query<Version>,
) -> Answer<FlowDiagram> {
    // The drawing shows conditions and programs, as the definition does.
    sees_payloads(&actor)?;
    let found = shared.flows.find(&name, version.as_deref()).await?;
    Ok(Json(FlowDiagram::from(&found)))
}

/// Asks for a run of a deployed flow, or of a document.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewFlowRun {
    flow: Option<String>,
    version: Option<String>,
    document: Option<String>,
    dialect: Option<Dialect>,
    name: Option<String>,
    #[serde(default)]
    input: Value,
    key: Option<String>,
    queue: Option<String>,
    priority: Option<Priority>,
    at: Option<Timestamp>,
    delay_ms: Option<u64>,
    #[serde(default)]
    tags: std::collections::BTreeMap<String, String>,
}

/// `POST /flows:run`: starts a run of a deployed flow, or of a document that need not be deployed.
/// The run acts for the actor of the request. A request that is sent again with its key and input
/// is answered with its run, whatever was deployed since.
async fn run(
    State(shared): State<Shared>,
    Extension(SharedFlows { flows, .. }): Extension<SharedFlows>,
    caller: Caller,
    Query(wait): Query<Wait>,
    headers: HeaderMap,
    Body(mut new): Body<NewFlowRun>,
) -> Result<Response, Problem> {
    require(&caller.actor, Role::Operator, "run.start")?;
    let wait = wait.duration()?;
    let key = idempotency_key(&headers, new.key.take())?;
    let start = start_of(&flows, &mut new).await?.input(new.input).actor(&caller.actor.name);
    let perform = |mut run: StartRun| {
        (run.queue, run.priority, run.at, run.delay_ms) = (new.queue, new.priority, new.at, new.delay_ms);
        let flow = std::mem::take(&mut run.tags);
        run.tags = new.tags.into_iter().chain(flow).collect();
        let order = caller.traced(Order::new(Action::StartRun(Box::new(run))));
        perform_as(&*shared.operate, &caller.actor, order)
    };
    let done = flows.start(start, key.as_deref(), perform).await?;
    started(&shared, &caller.actor, done, "runs/", wait).await
}

async fn start_of(flows: &Flows, new: &mut NewFlowRun) -> Result<FlowStart, Problem> {
    match (new.flow.take(), new.document.take()) {
        (Some(name), None) if new.dialect.is_none() && new.name.is_none() => {
            Ok(flows.find(&name, new.version.as_deref()).await?.into_start())
        }
        (None, Some(document)) if new.version.is_none() => {
            let mut document = FlowDocument::new(document);
            (document.dialect, document.name) = (new.dialect, new.name.take());
            let flow = valid(checked(document.clone()).await?)?;
            document.check_name(&flow)?;
            Ok(FlowStart::new(flow))
        }
        _ => {
            let detail =
                "a run has one of flow, with or without version, and document, with or without dialect and name";
            Err(Problem::bad_input(detail, "leave the others out"))
        }
    }
}
