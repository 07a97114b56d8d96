//! Changes: each is an order with the actor of the request.

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use workflow_sdk::operate::{Action, Done, Operate, Order};

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
    let needed = action.role();
    if actor.role >= needed {
        return match action {
            Action::StartBulk(bulk) => crate::items::may_search(actor, &bulk.query),
            _ => Ok(()),
        };
    }
    Err(Problem::new(
        StatusCode::FORBIDDEN,
        "forbidden",
        format!("{} needs the role {needed:?}, and {} is {:?}", action.verb(), actor.name, actor.role),
        "ask an actor that may do this",
    ))
}
