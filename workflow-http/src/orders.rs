//! Changes: each is an order with the actor of the request.

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use workflow_sdk::operate::{Action, Done, Operate, Order, Role};

use crate::body::Body;
use crate::{Actor, Answer, Problem, Shared};

/// `POST /orders`: performs any order.
pub(crate) async fn perform(
    State(shared): State<Shared>,
    Extension(actor): Extension<Actor>,
    Body(order): Body<Order>,
) -> Answer<Done> {
    carry_out(&*shared.operate, actor, order).await.map(Json)
}

/// Performs an order as this actor, whatever name the order has.
pub(crate) async fn carry_out(operate: &dyn Operate, actor: Actor, order: Order) -> Result<Done, Problem> {
    allow(&actor, &order.action)?;
    Ok(operate.perform(order.actor(actor.name)).await?)
}

fn allow(actor: &Actor, action: &Action) -> Result<(), Problem> {
    require(actor, action.role(), action.verb())
}

/// Refuses an actor that has less than this role.
pub(crate) fn require(actor: &Actor, needed: Role, verb: &str) -> Result<(), Problem> {
    if actor.role >= needed {
        return Ok(());
    }
    Err(Problem::new(
        StatusCode::FORBIDDEN,
        "forbidden",
        format!("{verb} needs the role {needed:?}, and {} is {:?}", actor.name, actor.role),
        "ask an actor that may do this",
    ))
}
