//! Changes: each is an order with the actor of the request.

use axum::extract::rejection::ExtensionRejection;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::{Extension, Json};
use workflow_sdk::TraceContext;
use workflow_sdk::operate::{Action, Done, Operate, Order, Role};

use crate::body::Body;
use crate::{Actor, Answer, Problem, Shared};

/// The sender of a change: its actor, and its place in a distributed trace.
pub(crate) struct Caller {
    pub(crate) actor: Actor,
    trace: Option<TraceContext>,
}

impl Caller {
    /// The actor of a request with these headers.
    pub(crate) fn new(actor: Actor, headers: &HeaderMap) -> Self {
        Self { actor, trace: trace_of(headers) }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = ExtensionRejection;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let Extension(actor) = Extension::from_request_parts(parts, state).await?;
        Ok(Self::new(actor, &parts.headers))
    }
}

/// Reads the header `traceparent`. One that is not understood, or that is there twice, begins no
/// trace and refuses no request: so the recommendation has it.
fn trace_of(headers: &HeaderMap) -> Option<TraceContext> {
    let mut values = headers.get_all("traceparent").iter();
    match (values.next(), values.next()) {
        (Some(only), None) => only.to_str().ok()?.parse().ok(),
        _ => None,
    }
}

/// `POST /orders`: performs any order.
pub(crate) async fn perform(State(shared): State<Shared>, caller: Caller, Body(order): Body<Order>) -> Answer<Done> {
    carry_out(&*shared.operate, &caller, order).await.map(Json)
}

/// Performs an order as this caller, whatever name the order has.
pub(crate) async fn carry_out(operate: &dyn Operate, caller: &Caller, order: Order) -> Result<Done, Problem> {
    let Caller { actor, trace } = caller;
    allow(actor, &order.action)?;
    let order = match trace {
        Some(parent) => order.trace_parent(*parent),
        None => order,
    };
    Ok(operate.perform(order.actor(&actor.name)).await?)
}

fn allow(actor: &Actor, action: &Action) -> Result<(), Problem> {
    require(actor, action.role(), action.verb())
}

/// Refuses an actor that has less than this role.
pub(crate) fn require(actor: &Actor, needed: Role, verb: &str) -> Result<(), Problem> {
    if actor.role >= needed {
        return match action {
            Action::StartBulk(bulk) => crate::items::may_search(actor, &bulk.query),
            _ => Ok(()),
        };
    }
    Err(Problem::new(
        StatusCode::FORBIDDEN,
        "forbidden",
        format!("{verb} needs the role {needed:?}, and {} is {:?}", actor.name, actor.role),
        "ask an actor that may do this",
    ))
}
