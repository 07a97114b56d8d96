//! The tool `log`, and the action `workflow.log` of the dialect `opcode`: they write a line to the
//! log of the worker.
//!
//! ```
//! assert_eq!(workflow_tools::log::tool().name(), "log");
//! ```

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use workflow_flows::{Tool, ToolCall, ToolError};

use crate::arguments::parse;
use crate::function::Function;

/// The target of the lines, for filters.
const TARGET: &str = "workflow_tools::log";
/// The longest line, in characters.
const LINE: usize = 2_000;

/// Returns the tool. Its lines have the target `workflow_tools::log`, and the fields `actor` and
/// `step`, which is the idempotency key.
#[must_use]
pub fn tool() -> Arc<dyn Tool> {
    let schema = json!({
        "type": "object", "required": ["message"], "additionalProperties": false,
        "properties": {
            "message": { "type": "string" },
            "level": { "enum": ["debug", "info", "warn", "error"], "default": "info" },
            "data": {},
        },
    });
    Function::new("log", "Writes a line to the log of the worker.", schema, log).shared()
}

/// Returns the tool `workflow.log`, which documents of the dialect `opcode` call. A level that the
/// tool does not know is `info`.
#[must_use]
pub fn action() -> Arc<dyn Tool> {
    let schema = json!({
        "type": "object", "required": ["message"], "additionalProperties": false,
        "properties": { "message": { "type": "string" }, "level": { "type": "string", "default": "info" }, "data": {} },
    });
    Function::new("workflow.log", "Writes a line to the log of the worker.", schema, log_of_action).shared()
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "lowercase")]
enum Level {
    Debug,
    #[default]
    Info,
    Warn,
    Error,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    message: String,
    #[serde(default)]
    level: Level,
    #[serde(default)]
    data: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ActionArguments {
    message: String,
    #[serde(default)]
    level: String,
    #[serde(default)]
    data: Value,
}

fn log(call: &ToolCall) -> Result<Value, ToolError> {
    Ok(write(parse("log", &call.args)?, call))
}

fn log_of_action(call: &ToolCall) -> Result<Value, ToolError> {
    let ActionArguments { message, level, data } = parse("workflow.log", &call.args)?;
    let level = match level.as_str() {
        "debug" => Level::Debug,
        "warn" => Level::Warn,
        "error" => Level::Error,
        _ => Level::Info,
    };
    Ok(write(Arguments { message, level, data }, call))
}

fn write(Arguments { message, level, data }: Arguments, call: &ToolCall) -> Value {
    let line = line(&message);
    let data = if data.is_null() { String::new() } else { self::line(&data.to_string()) };
    let (actor, step) = (call.actor.as_str(), call.idempotency_key.as_str());
    match level {
        Level::Debug => tracing::debug!(target: TARGET, actor, step, data, "{line}"),
        Level::Info => tracing::info!(target: TARGET, actor, step, data, "{line}"),
        Level::Warn => tracing::warn!(target: TARGET, actor, step, data, "{line}"),
        Level::Error => tracing::error!(target: TARGET, actor, step, data, "{line}"),
    }
    json!({ "logged": true })
}

/// One line: control characters could forge others.
fn line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LINE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_bounded_line() {
        assert_eq!(line("a\nERROR forged\u{1b}[0m"), "a ERROR forged [0m");
        assert_eq!(line(&"x".repeat(5_000)).len(), LINE);
        let logged = log(&ToolCall::new(json!({ "message": "hi", "level": "warn", "data": [1] }), "", ""));
        assert_eq!(logged.unwrap(), json!({ "logged": true }));
        let loud = ToolCall::new(json!({ "message": "hi", "level": "loud" }), "", "");
        assert!(log(&loud).is_err());
        assert_eq!(log_of_action(&loud).unwrap(), json!({ "logged": true }));
    }
}
