use std::future::Future;
use std::time::Duration;

use serde_json::Value;
use workflow_sdk::{Error, ErrorKind, Result, Timestamp};

use super::frame::Frame;
use crate::graph::{Kind, Step, Wait};
use crate::{ErrorClass, FlowCode, FlowError};

/// Returns the time at which an attempt that begins now has to end, by the step's timeout.
pub(super) fn deadline(frame: &Frame<'_>, step: &Step) -> Option<Timestamp> {
    let limit = match &step.kind {
        // These watch their time themselves.
        Kind::Approval(_) | Kind::Decision(_) | Kind::Tool(_) | Kind::Handoff(_) | Kind::Wait(Wait::Event { .. }) => {
            None
        }
        // The child has the deadline, because a child whose wait is dropped goes on.
        Kind::Flow(call) if !call.detach => None,
        _ => step.timeout,
    };
    limit.map(|limit| Timestamp::from(frame.ctx.now()) + limit)
}

/// Runs one attempt of a step whose kind has no timeout of its own, until its deadline.
pub(super) async fn limited(
    frame: &Frame<'_>,
    step: &Step,
    deadline: Option<Timestamp>,
    attempt: impl Future<Output = Result<Value>> + Send,
) -> Result<Value> {
    let (Some(limit), Some(deadline)) = (step.timeout, deadline) else { return attempt.await };
    let scope = frame.ctx.scope(format!("{}.time", step.id));
    match scope.timeout(deadline.since(frame.ctx.now().into()), attempt).await {
        Err(error) if error.kind() == ErrorKind::Timeout && error.downcast::<FlowError>().is_none() => {
            Err(time_is_up(step, limit))
        }
        other => other,
    }
}

/// Returns the failure of an attempt that took longer than the step's timeout.
pub(super) fn time_is_up(step: &Step, limit: Duration) -> Error {
    let message = format!("it had not ended after {limit:?}");
    FlowError::new(FlowCode::Tool, ErrorClass::Timeout, &step.id, message).into()
}
