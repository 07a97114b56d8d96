use std::sync::Arc;

use serde_json::Value;

/// How a step ended without a failure.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    pub(super) value: Arc<Value>,
    /// The step of the graph to which an `on_error` leads, and the error.
    pub(super) goto: Option<(String, Value)>,
}

impl Outcome {
    pub(super) fn of(value: Arc<Value>) -> Self {
        Self { value, goto: None }
    }
}
