use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The kind of a tool's failure. It decides whether the step is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    /// The call is wrong and stays wrong: bad arguments, a schema that does not fit, a permission
    /// that is missing. Never tried again.
    Invalid,
    /// The other side asks to wait.
    RateLimited,
    /// The other side is there and cannot serve now, or this worker lacks what the step needs.
    /// Another worker may have it.
    Unavailable,
    /// The call took longer than it may.
    Timeout,
    /// The other side cannot be reached, or the connection broke.
    Connection,
    /// Any other failure.
    Failed,
}

/// A failure of a [`Tool`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ToolError {
    /// The kind of the failure.
    pub class: ErrorClass,
    /// The cause, and what to do next. Never contains the value of a secret.
    pub message: String,
    /// The time to wait before the next attempt, if the other side named one.
    pub retry_after: Option<Duration>,
}

impl ToolError {
    /// Creates an error of this class, without a time to wait.
    #[must_use]
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), retry_after: None }
    }
}

/// One call of a [`Tool`]: one attempt of one step. Its `Debug` output shows no arguments.
#[derive(Clone)]
#[non_exhaustive]
pub struct ToolCall {
    /// The arguments, rendered. A secret stands in them as its value.
    pub args: Value,
    /// The account on whose behalf the run acts: the one that started it. Empty if none was given.
    pub actor: String,
    /// Identical in every attempt of this step, and in no other step. An approval has one per
    /// receiver that it tells.
    pub idempotency_key: String,
    /// The time that the attempt may take. `None`: no limit. The interpreter drops the call then.
    pub timeout: Option<Duration>,
    /// The token that ends an `external` step, or decides the approval that notifies this tool.
    /// `None`: the worker has no tokens (see
    /// [`FlowRuntimeBuilder::tokens`](crate::FlowRuntimeBuilder::tokens)), or neither is the case.
    pub token: Option<String>,
}

impl ToolCall {
    /// Creates a call without a limit of its time.
    #[must_use]
    pub fn new(args: Value, actor: impl Into<String>, idempotency_key: impl Into<String>) -> Self {
        Self { args, actor: actor.into(), idempotency_key: idempotency_key.into(), timeout: None, token: None }
    }
}

/// Leaves the arguments out: secrets stand in them.
impl fmt::Debug for ToolCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolCall").field("idempotency_key", &self.idempotency_key).finish_non_exhaustive()
    }
}

/// Something that a step of a flow can call: a function of the application, an HTTP request, a
/// program, a tool of another server.
///
/// # Cancel safety
/// The interpreter drops the future of [`call`](Tool::call) at the step's timeout and when the run
/// is told to end. What the call has begun outside must end with it or be harmless.
#[async_trait]
pub trait Tool: Send + Sync + 'static {
    /// The name by which flows call it, such as `http` or `kb-server/search_nodes`.
    fn name(&self) -> &str;

    /// One sentence for people and agents that choose a tool. Default: empty.
    fn description(&self) -> &str {
        ""
    }

    /// The JSON Schema of the arguments. Default: `true`, which allows all.
    fn input_schema(&self) -> Value {
        Value::Bool(true)
    }

    /// The JSON Schema of the result, or of the field `structured` in the result of an MCP server's
    /// tool, which checks each of its answers against it. Default: `None`, because the tool
    /// promises nothing.
    fn output_schema(&self) -> Option<Value> {
        None
    }

    /// Returns the server of the tool, which a check may ask. Default: `None`, because a tool of
    /// this process has none.
    fn server(&self) -> Option<Arc<dyn ToolServer>> {
        None
    }

    /// Runs one attempt and returns its result.
    ///
    /// # Errors
    /// A [`ToolError`] with the class that decides whether the step is tried again.
    async fn call(&self, call: ToolCall) -> Result<Value, ToolError>;
}

/// The server behind some tools, as a check asks it.
#[async_trait]
pub trait ToolServer: Send + Sync + 'static {
    /// The name by which findings name it. Tools of one name have one server.
    fn name(&self) -> &str;

    /// Connects on behalf of an account. Returns the JSON Schemas of the arguments of all tools
    /// that the server has now, by the names under which flows call them. No tool is called.
    ///
    /// # Errors
    /// A [`ToolError`] if the server cannot be reached.
    ///
    /// # Cancel safety
    /// A check drops the future if the answer takes too long. What it has begun ends with it.
    async fn schemas(&self, actor: &str) -> Result<BTreeMap<String, Value>, ToolError>;
}
