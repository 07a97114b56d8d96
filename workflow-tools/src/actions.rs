//! The tools of all actions that documents of the dialect `opcode` call.
//!
//! Each tool has the arguments and the results of the format. The tools can do no more than their
//! parts: requests go where [`Http`] allows it, `fs.*` is there with [`Actions::files`] alone, and
//! `shell.exec` with `Actions::shell` alone. `workflow.emit`, `workflow.fail`, `workflow.run`,
//! `workflow.context` and `expr.eval` need no tool: they become steps of the flow.
//!
//! ```
//! use workflow_flows::FlowRuntime;
//! use workflow_tools::actions::Actions;
//! use workflow_tools::http::Http;
//!
//! let actions = Actions::new(&Http::builder().build().unwrap());
//! let runtime = FlowRuntime::builder().tools(actions.tools()).build();
//! assert!(runtime.find_tool("workflow.log").is_some());
//! ```

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use workflow_flows::{Tool, ToolCall, ToolError};

use crate::arguments::parse;
use crate::http::Http;
use crate::{assert, crypto, log};

/// Collects the tools. See the [module](self).
#[derive(Clone)]
#[must_use = "nothing happens before `tools`"]
pub struct Actions {
    tools: Vec<Arc<dyn Tool>>,
    channel: Option<Arc<dyn Tool>>,
}

impl fmt::Debug for Actions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.tools.iter().map(|tool| tool.name()).collect();
        f.debug_struct("Actions").field("tools", &names).finish_non_exhaustive()
    }
}

impl Actions {
    /// Begins with `http.*` by this tool, `assert.*`, `crypto.*`, `workflow.log` and
    /// `workflow.notify`.
    pub fn new(http: &Http) -> Self {
        let mut tools = http.actions();
        tools.extend(assert::tools());
        tools.extend(crypto::tools());
        tools.push(log::action());
        Self { tools, channel: None }
    }

    /// Adds `fs.*` for the files below `root`, of at most `limit` bytes each. See
    /// [`files::tools`](crate::files::tools).
    ///
    /// # Errors
    /// The error of the system if the directory cannot be opened, or the kernel cannot keep paths
    /// in it.
    #[cfg(target_os = "linux")]
    pub fn files(mut self, root: impl AsRef<std::path::Path>, limit: u64) -> std::io::Result<Self> {
        self.tools.extend(crate::files::tools(root, limit)?);
        Ok(self)
    }

    /// Adds `fs.*` for the files below `root`, with these bounds. See
    /// [`files::tools_with`](crate::files::tools_with).
    ///
    /// # Errors
    /// See [`files`](Self::files).
    #[cfg(target_os = "linux")]
    pub fn files_with(
        mut self,
        root: impl AsRef<std::path::Path>,
        limits: crate::files::Limits,
    ) -> std::io::Result<Self> {
        self.tools.extend(crate::files::tools_with(root, limits)?);
        Ok(self)
    }

    /// Adds `shell.exec` by this tool, with the programs that it lists.
    #[cfg(all(target_os = "linux", feature = "shell"))]
    pub fn shell(mut self, shell: &crate::shell::Shell) -> Self {
        self.tools.push(shell.action());
        self
    }

    /// Sets the channel of `workflow.notify`, such as `in-app`. The receiver of a message is the
    /// actor of the run. Default: none; then such a step ends with `notified: false`.
    pub fn channel(mut self, channel: impl Tool) -> Self {
        self.channel = Some(Arc::new(channel));
        self
    }

    /// Returns the tools.
    #[must_use]
    pub fn tools(self) -> Vec<Arc<dyn Tool>> {
        let Self { mut tools, channel } = self;
        tools.push(Arc::new(Notification { channel }));
        tools
    }
}

/// The tool `workflow.notify`. A message that does not arrive fails no step, as in the format.
struct Notification {
    channel: Option<Arc<dyn Tool>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    message: String,
    #[serde(default)]
    data: Value,
}

#[async_trait]
impl Tool for Notification {
    fn name(&self) -> &str {
        "workflow.notify"
    }

    fn description(&self) -> &str {
        "Tells the actor of the run. The step does not fail if the message does not arrive."
    }

    fn input_schema(&self) -> Value {
        json!({
            "type": "object", "required": ["message"], "additionalProperties": false,
            "properties": { "message": { "type": "string" }, "data": {} },
        })
    }

    async fn call(&self, mut call: ToolCall) -> Result<Value, ToolError> {
        let Arguments { message, data } = parse("workflow.notify", &call.args)?;
        let Some(channel) = &self.channel else {
            return Ok(json!({ "notified": false, "reason": "no_notifier" }));
        };
        call.args = json!({ "to": call.actor, "text": message, "data": data });
        Ok(match channel.call(call).await {
            Ok(_) => json!({ "notified": true }),
            Err(error) => json!({ "notified": false, "reason": error.message }),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use workflow_flows::ErrorClass;

    use super::*;

    #[derive(Default)]
    struct Channel {
        seen: Arc<Mutex<Vec<Value>>>,
        is_broken: bool,
    }

    #[async_trait]
    impl Tool for Channel {
        fn name(&self) -> &str {
            "channel"
        }

        async fn call(&self, call: ToolCall) -> Result<Value, ToolError> {
            self.seen.lock().unwrap().push(call.args);
            if self.is_broken { Err(ToolError::new(ErrorClass::Unavailable, "away")) } else { Ok(Value::Null) }
        }
    }

    async fn notify(channel: Option<Channel>) -> Value {
        let actions = Actions::new(&Http::builder().build().unwrap());
        let actions = match channel {
            Some(channel) => actions.channel(channel),
            None => actions,
        };
        let tools = actions.tools();
        let tool = tools.iter().find(|tool| tool.name() == "workflow.notify").unwrap();
        tool.call(ToolCall::new(json!({ "message": "done", "data": [1] }), "ann", "key")).await.unwrap()
    }

    #[tokio::test]
    async fn a_message_goes_to_the_actor_and_fails_no_step() {
        assert_eq!(notify(None).await, json!({ "notified": false, "reason": "no_notifier" }));
        let channel = Channel::default();
        let seen = Arc::clone(&channel.seen);
        assert_eq!(notify(Some(channel)).await, json!({ "notified": true }));
        assert_eq!(*seen.lock().unwrap(), [json!({ "to": "ann", "text": "done", "data": [1] })]);
        let broken = Channel { is_broken: true, ..Channel::default() };
        assert_eq!(notify(Some(broken)).await, json!({ "notified": false, "reason": "away" }));
    }
}
