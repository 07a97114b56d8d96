use std::future::Future;

use serde_json::Value;
use workflow_sdk::{ErrorKind, Result};

use super::frame::Frame;
use crate::graph::{Kind, Step};
use crate::{ErrorClass, FlowCode, FlowError};

/// Runs one attempt of a step whose kind has no timeout of its own, within the step's timeout.
pub(super) async fn limited(
    frame: &Frame<'_>,
    step: &Step,
    attempt: impl Future<Output = Result<Value>> + Send,
) -> Result<Value> {
    let limit = match step.kind {
        // These watch their time themselves.
        Kind::Approval(_) | Kind::Decision(_) | Kind::Wait(_) | Kind::Tool(_) => None,
        _ => step.timeout,
    };
    let Some(limit) = limit else { return attempt.await };
    let scope = frame.ctx.scope(format!("{}.time", step.id));
    match scope.timeout(limit, attempt).await {
        Err(error) if error.kind() == ErrorKind::Timeout && error.downcast::<FlowError>().is_none() => {
            let message = format!("it had not ended after {limit:?}");
            Err(FlowError::new(FlowCode::Tool, ErrorClass::Timeout, &step.id, message).into())
        }
        other => other,
    }
}
