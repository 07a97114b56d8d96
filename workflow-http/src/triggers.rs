//! Webhooks and events, which start flows.

use std::time::SystemTime;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use workflow_flows::{Hook, HookRequest, Triggered, check_event};
use workflow_sdk::RunId;
use workflow_sdk::operate::{Action, Done, Order, OrderOutcome, Role, StartRun};

use crate::access::refusal_response;
use crate::body::{Body, Path, exact, parse, unread};
use crate::flows::SharedFlows;
use crate::orders::{Caller, carry_out, require};
use crate::runs::{idempotency_key, started};
use crate::{Actor, Answer, Problem, Refusal, Shared};

/// `POST /hooks/{path}`: starts a run of the flow that has this webhook. A signed request needs no
/// actor; one to a webhook without a secret needs an actor that may start runs.
pub(crate) async fn receive(
    State(shared): State<Shared>,
    Extension(flows): Extension<SharedFlows>,
    Path(path): Path<String>,
    request: Request,
) -> Result<Response, Response> {
    if flows.access.is_read_only() {
        return Err(refusal_response(&flows.access, Refusal::ReadOnly));
    }
    let (parts, body) = request.into_parts();
    let hook = flows.flows.hook(&path).await.map_err(|error| Problem::from(error).into_response())?;
    let actor = if hook.is_signed() {
        Actor::operator(format!("hook: {path}"))
    } else {
        flows.access.admit(&parts).await.map_err(|refusal| refusal_response(&flows.access, refusal))?
    };
    let headers = parts.headers.clone();
    let body = Bytes::from_request(Request::from_parts(parts, body), &()).await;
    let body = body.map_err(|rejection| unread(rejection).into_response())?;
    trigger(&shared, &flows, &Caller::new(actor, &headers), (&hook, &headers, &body))
        .await
        .map_err(IntoResponse::into_response)
}

async fn trigger(
    shared: &Shared,
    SharedFlows { flows, .. }: &SharedFlows,
    caller: &Caller,
    (hook, headers, body): (&Hook, &HeaderMap, &[u8]),
) -> Result<Response, Problem> {
    require(&caller.actor, Role::Operator, "run.start")?;
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let request = HookRequest {
        body,
        id: text("webhook-id"),
        timestamp: text("webhook-timestamp"),
        signature: text("webhook-signature"),
        body_signature: text("x-hub-signature-256"),
    };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    match flows.receive(hook, &request, now).await? {
        Triggered::Existed(run) => Ok((StatusCode::OK, Json(Existing::of(run))).into_response()),
        Triggered::Start(run) => {
            let done = begin(shared, caller, run).await?;
            started(shared, &caller.actor, done, "../runs/", None).await
        }
    }
}

/// Starts a run of a flow. It acts for the account that deployed the flow, so the caller's own does
/// not take its place.
async fn begin(shared: &Shared, caller: &Caller, run: Box<StartRun>) -> Result<Done, Problem> {
    let action = Action::StartRun(run);
    require(&caller.actor, action.role(), action.verb())?;
    let order = caller.traced(Order::new(action)).actor(&caller.actor.name);
    Ok(shared.operate.perform(order).await?)
}

/// The answer to a webhook that was received before.
#[derive(Serialize)]
struct Existing {
    outcome: &'static str,
    run: RunId,
    message: String,
}

impl Existing {
    fn of(run: RunId) -> Self {
        Self { outcome: "existed", run, message: format!("run {run} has this key; nothing was started") }
    }
}

/// An event.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewEvent {
    key: String,
    /// As it was written: a workflow in Rust gets it with all digits of its numbers.
    data: Option<Box<RawValue>>,
}

/// The answer to an event.
#[derive(Serialize)]
pub(crate) struct Emitted {
    #[serde(flatten)]
    done: Done,
    /// The runs that flows have started, now or when the event was sent before.
    started: Vec<RunId>,
}

/// `POST /events/{event}`: starts the flows that have the event as a trigger, then delivers it to
/// the runs that wait for it. In this order a request that is sent again, with its
/// `Idempotency-Key`, leaves out no start and makes none twice.
pub(crate) async fn emit(
    State(shared): State<Shared>,
    Extension(SharedFlows { flows, .. }): Extension<SharedFlows>,
    caller: Caller,
    Path(name): Path<String>,
    headers: HeaderMap,
    Body(NewEvent { key, data }): Body<NewEvent>,
) -> Answer<Emitted> {
    require(&caller.actor, Role::Operator, "event.emit")?;
    check_event(&name, &key)?;
    let id = idempotency_key(&headers, None)?;
    let text = data.map_or_else(|| parse(b"null"), Ok)?;
    let mut started = Vec::new();
    for run in flows.started_by(&name, &parse(text.get().as_bytes())?, id.as_deref()).await? {
        started.extend(match run {
            Triggered::Existed(run) => Some(run),
            Triggered::Start(run) => run_of(&begin(&shared, &caller, run).await?),
        });
    }
    let emission = Action::EmitEvent { name, key, payload: exact(&text)? };
    let done = carry_out(&*shared.operate, &caller, Order::new(emission)).await?;
    Ok(Json(Emitted { done, started }))
}

fn run_of(done: &Done) -> Option<RunId> {
    match done.outcome {
        OrderOutcome::Started { run } | OrderOutcome::Existed { run } => Some(run),
        _ => None,
    }
}
