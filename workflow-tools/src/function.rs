//! Small tools that are functions of their arguments.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use workflow_flows::{Tool, ToolCall, ToolError};

type Body = dyn Fn(&ToolCall) -> Result<Value, ToolError> + Send + Sync;

/// A tool from a function that does not wait.
#[derive(Clone)]
pub(crate) struct Function {
    name: &'static str,
    description: &'static str,
    input_schema: Value,
    blocks: bool,
    body: Arc<Body>,
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Function").field(&self.name).finish()
    }
}

impl Function {
    /// A tool whose function takes a moment.
    pub(crate) fn new(
        name: &'static str,
        description: &'static str,
        input_schema: Value,
        body: impl Fn(&ToolCall) -> Result<Value, ToolError> + Send + Sync + 'static,
    ) -> Self {
        Self { name, description, input_schema, blocks: false, body: Arc::new(body) }
    }

    /// Runs the function on a thread for blocking calls.
    #[cfg(any(feature = "fs", feature = "assert"))]
    pub(crate) fn blocking(mut self) -> Self {
        self.blocks = true;
        self
    }

    /// Returns the tool in the form that a runtime takes.
    pub(crate) fn shared(self) -> Arc<dyn Tool> {
        Arc::new(self)
    }
}

#[async_trait]
impl Tool for Function {
    fn name(&self) -> &str {
        self.name
    }

    fn description(&self) -> &str {
        self.description
    }

    fn input_schema(&self) -> Value {
        self.input_schema.clone()
    }

    async fn call(&self, call: ToolCall) -> Result<Value, ToolError> {
        if !self.blocks {
            return (self.body)(&call);
        }
        let body = Arc::clone(&self.body);
        let ended = tokio::task::spawn_blocking(move || body(&call)).await;
        ended.unwrap_or_else(|_| Err(crate::arguments::failed(format!("{} was stopped", self.name))))
    }
}
