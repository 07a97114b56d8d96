use serde_json::Value;

/// The name under which a policy is asked whether an account may write a document.
pub(crate) const KB_WRITE: &str = "kb.write";

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
///         actor == "ops" || !tool.starts_with("shell.")
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

    /// Returns whether a flow of this account may contain this call. A check that asks the servers
    /// of tools asks this, too. The arguments are those of the document, so their templates are
    /// not rendered. Default: asks [`may`](Self::may). A policy that looks at arguments lets those
    /// through that are not known yet.
    fn may_plan(&self, actor: &str, tool: &str, args: &Value) -> bool {
        self.may(actor, tool, args)
    }
}

/// Allows everything: the policy of a runtime that names none.
#[derive(Debug, Clone, Copy, Default)]
pub struct AllowAll;

impl Policy for AllowAll {
    fn may(&self, _actor: &str, _tool: &str, _args: &Value) -> bool {
        true
    }
}
