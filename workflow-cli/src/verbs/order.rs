//! Orders: a change with its author and its reason.

use workflow_sdk::operate::{Action, Done, Operate, Order, OrderOutcome};

use crate::arguments::Author;
use crate::output::Output;
use crate::{Exit, Failure};

/// Returns the author of a change: the one that was named, or the user of this process.
pub(crate) fn actor(author: &Author) -> Option<String> {
    let user = || std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).ok();
    author.actor.clone().or_else(user).filter(|actor| !actor.is_empty())
}

/// Returns the order for an action.
pub(crate) fn order(action: Action, author: &Author) -> Order {
    let mut order = Order::new(action);
    if let Some(actor) = actor(author) {
        order = order.actor(actor);
    }
    match &author.reason {
        Some(reason) => order.reason(reason),
        None => order,
    }
}

/// Returns the test whether an order came too late, by its outcome. The run that was to be told or
/// moved has ended, or the opposite was decided before.
pub(super) fn came_too_late(action: &Action) -> impl Fn(&OrderOutcome) -> bool + use<> {
    let needs_an_open_run =
        matches!(action, Action::DecideApproval { .. } | Action::SignalRun { .. } | Action::MoveTo { .. });
    let opposite = if let Action::DecideApproval { approve, .. } = action { Some(!approve) } else { None };
    move |outcome| match outcome {
        OrderOutcome::AlreadyEnded { .. } => needs_an_open_run,
        OrderOutcome::AlreadyDecided { approved: Some(approved), .. } => opposite == Some(*approved),
        _ => false,
    }
}

/// Performs one order and prints its outcome.
pub(super) async fn perform(
    operate: &dyn Operate,
    output: &Output,
    action: Action,
    author: &Author,
) -> Result<Exit, Failure> {
    let (target, came_too_late) = (action.target(), came_too_late(&action));
    let done: Done = operate.perform(order(action, author)).await?;
    output.one(&done, || target, |_| done.message.clone())?;
    Ok(if came_too_late(&done.outcome) { Exit::Error } else { Exit::Ok })
}
