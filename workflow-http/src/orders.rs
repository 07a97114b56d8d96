//! Changes: each is an order with the actor of the request.

use axum::extract::State;
use axum::{Extension, Json};
use workflow_sdk::operate::{Action, Done, Operate, OperateError, OperateErrorCode, Order};

use crate::body::Body;
use crate::{Actor, Answer, Shared};

/// `POST /orders`: performs any order.
pub(crate) async fn perform(
    State(shared): State<Shared>,
    Extension(actor): Extension<Actor>,
    Body(order): Body<Order>,
) -> Answer<Done> {
    Ok(Json(carry_out(&*shared.operate, actor, order).await?))
}

/// Performs an order as this actor, whatever name the order has.
///
/// # Errors
/// [`OperateErrorCode::Forbidden`] if the role of the actor does not allow the order, and those of
/// [`Operate::perform`].
///
/// # Cancel safety
/// If the future is dropped, the order may or may not have had its effect.
pub async fn carry_out(operate: &dyn Operate, actor: Actor, order: Order) -> Result<Done, OperateError> {
    allow(&actor, &order.action)?;
    operate.perform(order.actor(actor.name)).await
}

fn allow(actor: &Actor, action: &Action) -> Result<(), OperateError> {
    let needed = action.role();
    if actor.role >= needed {
        return Ok(());
    }
    let message = format!("{} needs the role {needed:?}, and {} is {:?}", action.verb(), actor.name, actor.role);
    Err(OperateError::new(OperateErrorCode::Forbidden, message, "ask an actor that may do this"))
}
