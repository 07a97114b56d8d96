//! The actions that concern the run itself.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::action::{needed, warn_of_key};
use crate::ErrorClass;
use crate::check::Code;
use crate::document::{Data, Node};
use crate::graph::{Emission, Failure, FlowCall, Kind, Step};
use crate::lower::context::Lowering;
use crate::lower::fields::Fields;
use crate::lower::outline::{Call, CallKind, Role};

/// The template of the id of the own run.
const OWN_RUN: &str = "{{run.id}}";

pub(super) fn fail(lowering: &mut Lowering<'_>, params: Option<&Node>) -> Option<Kind> {
    let reason = params.and_then(|params| params.get("reason"));
    let message = reason.and_then(|node| lowering.template_text(node, "reason", Role::Plain));
    let message = message.unwrap_or_else(|| "the workflow failed itself".to_owned());
    Some(Kind::Fail(Failure { class: ErrorClass::Invalid, message }))
}

/// Reads the parameters of an action that needs some.
fn read<'n>(lowering: &mut Lowering<'_>, action: &Node, params: Option<&'n Node>, name: &str) -> Option<Fields<'n>> {
    match params {
        Some(params) => Fields::read(lowering, params, format!("params of {name}")),
        None => {
            lowering.error(Code::F013, action.span, format!("{name} has no params"));
            None
        }
    }
}

pub(super) fn run(lowering: &mut Lowering<'_>, action: &Node, params: Option<&Node>) -> Option<Kind> {
    let mut fields = read(lowering, action, params, "workflow.run")?;
    let name = needed(lowering, &mut fields, "template_name", "\"my-template\"");
    let span = name.map_or(action.span, |node| node.span);
    let name = name.and_then(|node| lowering.text(node, "template_name"));
    let version = fields.take("version").filter(|node| node.text() != Some(""));
    let version = version.and_then(|node| lowering.text(node, "version"));
    let args = fields.take("params").map(|node| lowering.template(node, "params", Role::Plain)).unwrap_or_default();
    for entry in fields.rest() {
        warn_of_key(lowering, entry, "workflow.run", &["template_name", "version", "params"]);
    }
    let name = name?;
    if name.contains("{{") {
        lowering.error(Code::F013, span, "template_name is a template; it has to be the name of a flow");
        return None;
    }
    lowering.outline.calls.push(Call { kind: CallKind::Flow, name: name.clone(), span, args: None });
    Some(Kind::Flow(FlowCall { name, version, is_workflow: false, args, detach: false, queue: None }))
}

/// Lowers the emission of an event with the own run as its key. The examples of the format also
/// write `event` or `signal` for the type, and `data` for the payload.
pub(super) fn emit(lowering: &mut Lowering<'_>, action: &Node, params: Option<&Node>, step: &mut Step) -> Option<Kind> {
    let mut fields = read(lowering, action, params, "workflow.emit")?;
    let event = ["event_type", "event", "signal"].into_iter().find(|key| fields.peek(key).is_some());
    let event = needed(lowering, &mut fields, event.unwrap_or("event_type"), "\"order.paid\"");
    let payload = if fields.peek("payload").is_some() { "payload" } else { "data" };
    let data = fields.take(payload);
    let data = data.map(|node| lowering.template(node, payload, Role::Plain)).unwrap_or_default();
    for entry in fields.rest() {
        warn_of_key(lowering, entry, "workflow.emit", &["event_type", "payload"]);
    }
    let node = event?;
    let event = lowering.text(node, "event_type")?;
    if event.is_empty() || event.contains("{{") {
        let message = "event_type is empty or a template; it has to be the name of an event";
        lowering.error(Code::F013, node.span, message).help("name the event, and put what varies into the payload");
        return None;
    }
    step.output = Some(json!({ "emitted": true }));
    Some(Kind::Emit(Emission { event, key: Some(OWN_RUN.to_owned()), to: None, data }))
}

/// Lowers a look into the context of the run, or a change of it: its data are the variables.
pub(super) fn context(
    lowering: &mut Lowering<'_>,
    action: &Node,
    params: Option<&Node>,
    step: &mut Step,
) -> Option<Kind> {
    let mut fields = read(lowering, action, params, "workflow.context")?;
    let choices = [("read", false), ("update", true)];
    let is_update = needed(lowering, &mut fields, "action", "\"read\"");
    let is_update = is_update.and_then(|node| lowering.choice(node, "action", &choices));
    let run = fields.take("workflow_id");
    let data = fields.take("data").filter(|node| node.data != Data::Null);
    let notes = fields.take("agent_notes");
    for entry in fields.rest() {
        warn_of_key(lowering, entry, "workflow.context", &["action", "workflow_id", "data", "agent_notes"]);
    }
    if let Some(node) = run {
        let id = lowering.template_text(node, "workflow_id", Role::Plain)?;
        if !id.is_empty() && id.replace(' ', "") != OWN_RUN {
            let message = "workflow.context of another run has no counterpart here";
            lowering.error(Code::F040, node.span, message).help("write \"${{workflow.run_id}}\", the own run");
            return None;
        }
    }
    if !is_update? {
        step.output = Some(json!({
            "workflow_id": OWN_RUN, "agent_id": "{{run.actor}}", "original_intent": "{{vars.intent ?? ''}}",
            "accumulated_data": "{{vars}}", "agent_notes": "{{vars.agent_notes ?? ''}}",
        }));
        return Some(Kind::Nothing);
    }
    let mut values: BTreeMap<String, Value> = BTreeMap::new();
    if let Some(node) = data {
        let Some(entries) = node.entries() else {
            lowering.wrong(node, "data", "a map, whose keys stand in the document");
            return None;
        };
        for entry in entries {
            values.insert(entry.key.clone(), lowering.template(&entry.value, "data", Role::Plain));
        }
    }
    if let Some(node) = notes {
        values.insert("agent_notes".to_owned(), lowering.template(node, "agent_notes", Role::Plain));
    }
    lowering.outline.variables.extend(values.keys().cloned());
    step.output = Some(json!({ "updated": true, "workflow_id": OWN_RUN }));
    Some(Kind::Set(values))
}
