//! Changes: each is an order with the actor of the request.

use axum::extract::rejection::ExtensionRejection;
use axum::extract::{FromRequestParts, State};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum::{Extension, Json};
use workflow_sdk::TraceContext;
use workflow_sdk::operate::{Action, Done, Operate, OperateError, OperateErrorCode, Order, Role};

use crate::body::Body;
use crate::flow_actor::act_for;
use crate::items::may_search;
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

    /// Puts the order into the caller's distributed trace.
    pub(crate) fn traced(&self, order: Order) -> Order {
        match self.trace {
            Some(parent) => order.trace_parent(parent),
            None => order,
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = ExtensionRejection;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let Extension(actor) = Extension::from_request_parts(parts, state).await?;
        Ok(Self::new(actor, &parts.headers))
    }
}

/// Reads the header `traceparent`. As W3C Trace Context asks, a header that cannot be read, or that
/// is there twice, is ignored: the request is not refused.
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
    Ok(perform_as(operate, &caller.actor, caller.traced(order)).await?)
}

/// Performs an order as this actor, whatever name the order has. The runs of flows that it starts
/// act for this actor too, whatever name their input has.
///
/// # Errors
/// [`OperateErrorCode::Forbidden`] if the actor may not give the order, and those of
/// [`Operate::perform`].
///
/// # Cancel safety
/// If the future is dropped, the order may or may not have had its effect.
pub async fn perform_as(operate: &dyn Operate, actor: &Actor, mut order: Order) -> Result<Done, OperateError> {
    require(actor, order.action.role(), order.action.verb())?;
    act_for(operate, &actor.name, &mut order.action).await?;
    if let Action::StartBulk(bulk) = &order.action {
        may_search(actor, &bulk.query)?;
    }
    operate.perform(order.actor(&actor.name)).await
}

/// Refuses an actor that has less than this role.
///
/// # Errors
/// [`OperateErrorCode::Forbidden`].
pub fn require(actor: &Actor, needed: Role, verb: &str) -> Result<(), OperateError> {
    if actor.role >= needed {
        return Ok(());
    }
    let message = format!("{verb} needs the role {needed:?}, and {} is {:?}", actor.name, actor.role);
    Err(OperateError::new(OperateErrorCode::Forbidden, message, "ask an actor that may do this"))
}
