//! Channels that tell people: `webhook`, `pushover` and `in-app`. (`mail` is a channel of its own.)
//!
//! All channels are tools with equal arguments: `{to, title, text, data}`, of which only `text` is
//! required. So a flow, a handoff and an approval can use any of them. The operator names the
//! receivers, and `to` chooses one of the names.

mod in_app;
mod pushover;
mod webhook;

use serde_json::{Value, json};
use workflow_flows::{ToolCall, ToolError};

pub use in_app::{InApp, Inbox};
pub use pushover::{Pushover, PushoverBuilder};
pub use webhook::{Webhook, WebhookBuilder};

use crate::arguments::{invalid, parse};

/// A message to people or agents.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Notice {
    /// The receiver, in words of the operator. Empty: the channel's default.
    #[serde(default)]
    pub to: String,
    /// One line. Empty: none.
    #[serde(default)]
    pub title: String,
    /// The text.
    pub text: String,
    /// The part for programs. Default: null.
    #[serde(default)]
    pub data: Value,
}

impl Notice {
    /// Creates a message without a receiver, a title and data.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self { to: String::new(), title: String::new(), text: text.into(), data: Value::Null }
    }
}

/// The longest text, in bytes.
const LONGEST: usize = 64 * 1024;

/// Reads the message of a call.
fn notice(channel: &str, call: &ToolCall) -> Result<Notice, ToolError> {
    let notice: Notice = parse(channel, &call.args)?;
    if notice.text.len() + notice.title.len() > LONGEST {
        return Err(invalid(format!("{channel}: the text is longer than {LONGEST} bytes, the limit")));
    }
    Ok(notice)
}

fn input_schema() -> Value {
    json!({
        "type": "object", "required": ["text"], "additionalProperties": false,
        "properties": {
            "to": { "type": "string", "description": "A receiver that the operator has named." },
            "title": { "type": "string" },
            "text": { "type": "string" },
            "data": { "description": "Any value, for programs." },
        },
    })
}
