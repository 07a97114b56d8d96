//! The action `shell.exec` of the dialects `opcode` and `cncf`, in terms of the tool `shell.run`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use workflow_flows::{ErrorClass, Tool, ToolCall, ToolError};

use super::Shell;
use crate::arguments::{invalid, parse};

/// The tool `shell.exec`.
#[derive(Debug, Clone)]
struct Action {
    shell: Shell,
}

impl Shell {
    /// Returns the tool `shell.exec`, which documents of the dialects `opcode` and `cncf` call.
    /// Exit codes do not fail a step. `command` is a name of the list, with its words in `args`.
    /// The tool has the bounds of this one. `shell: true` is refused: list a shell, and give it
    /// the words `-c` and a script.
    #[must_use]
    pub fn action(&self) -> Arc<dyn Tool> {
        Arc::new(Action { shell: self.clone() })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    command: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    cwd: Option<String>,
    stdin: Option<String>,
    timeout: Option<Value>,
    #[serde(default)]
    shell: bool,
}

/// Translates the arguments into those of the tool `shell.run`.
fn translated(arguments: Arguments) -> Result<Value, ToolError> {
    if arguments.shell {
        return Err(invalid("shell.exec: shell: true is not possible; let the operator list a shell, and call it"));
    }
    let mut native = json!({
        "program": arguments.command, "args": arguments.args, "env": arguments.env,
        "accept": (1..=255).collect::<Vec<i32>>(),
    });
    let given = [
        ("stdin", arguments.stdin.map(Value::String)),
        ("folder", arguments.cwd.map(Value::String)),
        ("timeout", arguments.timeout),
    ];
    for (field, value) in given {
        if let Some(value) = value {
            native[field] = value;
        }
    }
    Ok(native)
}

#[async_trait]
impl Tool for Action {
    fn name(&self) -> &str {
        "shell.exec"
    }

    fn description(&self) -> &str {
        "Runs a listed program. Exit codes do not fail the step."
    }

    fn input_schema(&self) -> Value {
        let text = json!({ "type": "string" });
        json!({
            "type": "object", "required": ["command"], "additionalProperties": false,
            "properties": {
                "command": text, "args": { "type": "array", "items": text }, "env": { "type": "object" },
                "cwd": text, "stdin": text, "timeout": { "type": ["string", "number"] }, "shell": { "const": false },
            },
        })
    }

    async fn call(&self, mut call: ToolCall) -> Result<Value, ToolError> {
        call.args = translated(parse("shell.exec", &call.args)?)?;
        let begun = Instant::now();
        let ended = self.shell.call(call).await;
        let duration = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        match ended {
            Ok(mut result) => {
                let json = result["stdout"].as_str().and_then(|text| serde_json::from_str(text).ok());
                result["stdout_raw"] = result["stdout"].clone();
                if let Some(json) = json {
                    result["stdout"] = json;
                }
                result["duration_ms"] = Value::from(duration);
                result["killed"] = Value::Bool(false);
                Ok(result)
            }
            // The dialect tells a timeout by the result.
            Err(error) if error.class == ErrorClass::Timeout => Ok(json!({
                "exit_code": -1, "stdout": "", "stdout_raw": "", "stderr": "", "duration_ms": duration, "killed": true,
            })),
            Err(error) => Err(error),
        }
    }
}
