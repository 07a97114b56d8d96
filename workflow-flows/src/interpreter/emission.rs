//! Events and signals that a flow sends.

use serde_json::{Value, json};
use workflow_sdk::{Result, RunId};

use super::evaluation::{as_text, prepared_key};
use super::frame::Frame;
use crate::graph::{Emission, Step};
use crate::{ErrorClass, FlowCode, FlowError};

/// Emits an event to all runs that wait for its name and key, or signals one run. The result is the
/// number of runs that it reached.
pub(super) async fn run_emission(frame: &Frame<'_>, step: &Step, emission: &Emission) -> Result<Value> {
    let template = json!({ "key": emission.key, "to": emission.to, "data": emission.data });
    let sent = frame.render_step(&prepared_key(&step.id), &step.id, "emit", &template).await?;
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
