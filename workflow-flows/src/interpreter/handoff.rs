//! Messages that need no answer.

use serde_json::{Value, json};
use workflow_sdk::Result;

use super::evaluation::as_text;
use super::frame::Frame;
use super::mentions::Mentions;
use super::tool::{Caller, Failed, Place, call_tool};
use crate::expression::Scope;
use crate::graph::{Handoff, Step, ToolUse};

/// Tells people or agents. A failure is recorded as the step's value and does not fail the run, and
/// neither does a channel that takes longer than the step's timeout.
pub(super) async fn run_handoff(frame: &Frame<'_>, step: &Step, handoff: &Handoff) -> Result<Value> {
    let template = json!({ "to": handoff.to, "text": handoff.text });
    let (template, scope) = (&template, &frame.scope(&Mentions::of([&template])));
    let channels = if handoff.via.is_empty() { frame.runtime().channels() } else { &handoff.via };
    let key = &frame.call_key(&step.id);
    let body = || async move {
        let rendered = frame.render(&step.id, "handoff", template, scope).await?;
        let message = json!({ "to": as_text(&rendered["to"]), "text": as_text(&rendered["text"]) });
        let place = Place { step: &step.id, key, timeout: step.timeout, token: None };
        let mut not_told = tell(frame, &place, channels, &message).await;
        if channels.is_empty() {
            not_told.push("the flow names no channel, and this worker has none".to_owned());
        }
        Ok(if not_told.is_empty() { Value::Null } else { json!({ "not_told": not_told }) })
    };
    frame.record::<Value, _>(&step.id, body).await?;
    Ok(Value::Null)
}

/// Sends a message through these channels, each of which is a tool. Returns what failed. Call it in
/// the body of a step only.
pub(super) async fn tell(frame: &Frame<'_>, place: &Place<'_>, channels: &[String], message: &Value) -> Vec<String> {
    let mut failures = Vec::new();
    for channel in channels {
        // The message is rendered already. It is passed in the scope, so that no text of it is read
        // as a template.
        let call = ToolUse { tool: channel.clone(), args: "{{message}}".into(), external: false, texts: false };
        let scope = Scope::new().with("message", message.clone());
        match call_tool(&Caller::of(frame), place, &call, &scope).await {
            Ok(_) => {}
            Err(Failed::Step(error)) => failures.push(format!("{channel}: {error}")),
            Err(Failed::Tool(error, _)) => failures.push(format!("{channel}: {}", error.message)),
        }
    }
    failures
}
