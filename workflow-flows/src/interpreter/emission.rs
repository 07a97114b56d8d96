//! Events and signals that a flow sends.

use serde_json::{Value, json};
use workflow_sdk::operate::{Action, OperateError, OperateErrorCode, Order};
use workflow_sdk::{Result, RunId};

use super::evaluation::{as_text, prepared_key};
use super::frame::Frame;
use super::mentions::Mentions;
use crate::graph::{Emission, Step};
use crate::{ErrorClass, FlowCode, FlowError, Triggered};

/// Emits an event to all runs that wait for its name and key, or signals one run. The result is the
/// number of runs that it reached.
pub(super) async fn run_emission(frame: &Frame<'_>, step: &Step, emission: &Emission) -> Result<Value> {
    let template = json!({ "key": emission.key, "to": emission.to, "data": emission.data });
    let (template, scope) = (&template, &frame.scope(&Mentions::of([&template])));
    let body = || async move {
        // In the body, so that a replay of an older run goes on as it went.
        if emission.is_answer() {
            let message = format!("emit.event is {:?}, which answers a step of another run", emission.event);
            return Err(FlowError::new(FlowCode::Expression, ErrorClass::Invalid, &step.id, message).into());
        }
        let sent = frame.render(&step.id, "emit", template, scope).await?;
        if emission.to.is_none() {
            start_triggered(frame, step, &emission.event, &sent["data"]).await?;
        }
        Ok(sent)
    };
    let sent: Value = frame.record(&prepared_key(&step.id), body).await?;
    let scope = frame.ctx.scope(&step.id);
    if emission.to.is_none() {
        let reached = scope.emit_event::<Value>(emission.event.as_str(), as_text(&sent["key"]), &sent["data"]).await?;
        return Ok(json!({ "reached": reached }));
    }
    let to = as_text(&sent["to"]);
    let Ok(run_id) = to.parse::<RunId>() else {
        let message = format!("emit.to is {to:?}, which is not the id of a run");
        return Err(FlowError::new(FlowCode::Expression, ErrorClass::Invalid, &step.id, message).into());
    };
    let outcome = scope.send_signal::<Value>(run_id, emission.event.as_str(), &sent["data"]).await?;
    let is_reached = !matches!(outcome, workflow_sdk::SignalOutcome::Finished);
    Ok(json!({ "reached": u64::from(is_reached) }))
}

/// Starts the flows that have this event as a trigger. Call it in the body of a step only: each
/// attempt of the body has one key, so each flow is started once.
async fn start_triggered(frame: &Frame<'_>, step: &Step, event: &str, data: &Value) -> Result<()> {
    let runtime = frame.runtime();
    let (Some(flows), Some(client)) = (runtime.triggers(), runtime.client()) else { return Ok(()) };
    let failed = |error: OperateError| {
        FlowError::new(FlowCode::Tool, ErrorClass::Unavailable, &step.id, format!("triggers: {}", error.message))
    };
    let actor = &frame.run.start.actor;
    for run in flows.started_by(event, data, Some(frame.ctx.idempotency_key())).await.map_err(failed)? {
        let Triggered::Start(run) = run else { continue };
        let order = Order::new(Action::StartRun(run));
        let order = if actor.is_empty() { order } else { order.actor(actor) };
        match client.operate().perform(order).await {
            // Another emission with this key was first.
            Err(error) if error.code == OperateErrorCode::Conflict => {}
            started => drop(started.map_err(failed)?),
        }
    }
    Ok(())
}
