//! Steps that are done outside: a tool hands them over, and a report ends them.

use serde_json::{Value, json};
use workflow_sdk::{Result, Retry};

use super::approval::gate_of;
use super::evaluation::prepared_key;
use super::frame::Frame;
use super::mentions::Mentions;
use super::tool::{Caller, Place, after, call_tool, run_named};
use crate::flows::{REPORT, Report, SentReport, visit_number};
use crate::graph::{Step, ToolUse};
use crate::{ErrorClass, FlowCode, FlowError};

pub(super) async fn run_external(frame: &Frame<'_>, step: &Step, call: &ToolUse) -> Result<Value> {
    let handed_over = hand_over(frame, step, call).await?;
    // An older release has recorded the result of the tool alone.
    let visit = handed_over[HANDED_OVER].as_str();
    let began = frame.ctx.now();
    let signal = format!("{REPORT}{}{}", frame.path, step.id);
    loop {
        let mut wait = frame.ctx.signal::<SentReport>(signal.as_str());
        if let Some(timeout) = step.timeout {
            // The present time is equal in each replay.
            let passed = frame.ctx.now().duration_since(began).unwrap_or_default();
            wait = wait.timeout(timeout.saturating_sub(passed));
        }
        let Some(sent) = wait.await? else {
            let message = format!("no report came within {:?}", step.timeout.unwrap_or_default());
            return Err(FlowError::new(FlowCode::Unanswered, ErrorClass::Timeout, &step.id, message).into());
        };
        match sent.of_visit(visit) {
            Some(Report { error: Some(error), .. }) => {
                return Err(FlowError::new(FlowCode::Tool, error.class, &step.id, error.message).into());
            }
            Some(Report { result, .. }) => return Ok(result.unwrap_or_default()),
            // It came while an earlier visit handed the work over, which failed after it.
            None => {}
        }
    }
}

/// The name of the visit's number in the record of a call that hands work over.
const HANDED_OVER: &str = "handed_over";

/// Calls the tool once. Another attempt of the step hands the work over again, after a failed
/// report too, so the call has no attempts of its own. Returns the number of the visit with the
/// result of the tool.
async fn hand_over(frame: &Frame<'_>, step: &Step, call: &ToolUse) -> Result<Value> {
    let scope = &frame.scope(&Mentions::of([&call.args]));
    let body = || async move {
        let gate = gate_of(frame, step);
        let token = frame.runtime().tokens().map(|tokens| tokens.issue(&gate));
        let place = Place { step: &step.id, key: frame.ctx.idempotency_key(), timeout: step.timeout, token };
        let called = call_tool(&Caller::of(frame), &place, call, scope).await;
        let result = called.map_err(|failure| after(frame, None, failure))?;
        Ok(json!({ HANDED_OVER: visit_number(gate.generation, gate.visit), "result": result }))
    };
    run_named(frame, step, (&prepared_key(&step.id), Retry::none()), body).await
}
