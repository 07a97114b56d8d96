//! Steps that are done outside: a tool hands them over, and a report ends them.

use serde_json::Value;
use workflow_sdk::{Result, Retry};

use super::approval::gate_of;
use super::evaluation::prepared_key;
use super::frame::Frame;
use super::mentions::Mentions;
use super::tool::{Caller, Failed, Place, call_tool, run_named};
use crate::flows::{REPORT, Report};
use crate::graph::{Step, ToolUse};
use crate::{ErrorClass, FlowCode, FlowError};

pub(super) async fn run_external(frame: &Frame<'_>, step: &Step, call: &ToolUse) -> Result<Value> {
    hand_over(frame, step, call).await?;
    let signal = format!("{REPORT}{}{}", frame.path, step.id);
    let wait = frame.ctx.signal::<Report>(signal.as_str());
    let report = match step.timeout {
        Some(timeout) => wait.timeout(timeout).await?,
        None => wait.await?,
    };
    match report {
        Some(Report { error: Some(error), .. }) => {
            Err(FlowError::new(FlowCode::Tool, error.class, &step.id, error.message).into())
        }
        Some(Report { result, .. }) => Ok(result.unwrap_or_default()),
        None => {
            let message = format!("no report came within {:?}", step.timeout.unwrap_or_default());
            Err(FlowError::new(FlowCode::Unanswered, ErrorClass::Timeout, &step.id, message).into())
        }
    }
}

/// Calls the tool once. Another attempt of the step hands the work over again, after a failed
/// report too, so the call has no attempts of its own.
async fn hand_over(frame: &Frame<'_>, step: &Step, call: &ToolUse) -> Result<Value> {
    let scope = &frame.scope(&Mentions::of([&call.args]));
    let body = || async move {
        let token = frame.runtime().tokens().map(|tokens| tokens.issue(&gate_of(frame, step)));
        let place = Place { step: &step.id, key: frame.ctx.idempotency_key(), timeout: step.timeout, token };
        call_tool(&Caller::of(frame), &place, call, scope).await.map_err(|failure| match failure {
            Failed::Step(error) => error,
            Failed::Tool(error, _) => error.into(),
        })
    };
    run_named(frame, step, (&prepared_key(&step.id), Retry::none()), body).await
}
