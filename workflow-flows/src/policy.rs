use serde_json::Value;

/// Decides what the account of a run may do. It is asked before each attempt of a tool, and before
/// each write to the knowledge base as the tool `kb.write`, with `base`, `key` and `tags`.
///
/// ```
/// use serde_json::Value;
/// use workflow_flows::{FlowRuntime, Policy};
///
/// struct OnlyOps;
///
/// impl Policy for OnlyOps {
///     fn may(&self, actor: &str, tool: &str, _args: &Value) -> bool {
///         actor == "ops" || tool != "shell.run"
///     }
/// }
///
/// let runtime = FlowRuntime::builder().policy(OnlyOps).build();
/// # let _ = runtime;
/// ```
pub trait Policy: Send + Sync + 'static {
    /// Returns whether this account may call this tool with these arguments. Secrets stand in the
    /// arguments as their values. A refusal fails the step with F250 and the class `invalid`.
    fn may(&self, actor: &str, tool: &str, args: &Value) -> bool;
}

/// Allows everything: the policy of a runtime that names none.
#[derive(Debug, Clone, Copy, Default)]
pub struct AllowAll;

impl Policy for AllowAll {
    fn may(&self, _actor: &str, _tool: &str, _args: &Value) -> bool {
        true
    }
}
