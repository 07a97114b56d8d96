//! Steps that call an action.

use serde_json::{Map, Value};

use crate::ErrorClass;
use crate::document::Node;
use crate::graph::{Failure, FlowCall, Kind, Step, ToolUse};
use crate::lower::attempts::default_breaker;
use crate::lower::context::Lowering;
use crate::lower::fields::Fields;
use crate::lower::outline::{Call, CallKind, Role};

pub(super) fn lower(lowering: &mut Lowering<'_>, fields: &mut Fields<'_>, step: &mut Step) -> Option<Kind> {
    let node = fields.require(lowering, "action", "\"http.get\"");
    let params = fields.take("params");
    let action = node.and_then(|node| lowering.text(node, "action"))?;
    let node = node?;
    match action.as_str() {
        "workflow.fail" => {
            let reason = params.and_then(|params| params.get("reason"));
            let message = reason.and_then(|node| lowering.template_text(node, "reason", Role::Plain));
            let message = message.unwrap_or_else(|| "the workflow failed itself".to_owned());
            Some(Kind::Fail(Failure { class: ErrorClass::Invalid, message }))
        }
        "workflow.run" => child(lowering, node, params),
        _ => {
            let mut args = params.map(|node| lowering.template(node, "params", Role::ToolArgs)).unwrap_or_default();
            if action == "expr.eval" {
                add_scope(&mut args);
            }
            let span = params.map_or(node.span, |params| params.span);
            let call =
                Call { kind: CallKind::Tool, name: action.clone(), span: node.span, args: Some((span, args.clone())) };
            lowering.outline.calls.push(call);
            let tool = ToolUse { tool: action, args, external: false };
            step.breaker = Some(default_breaker(&tool));
            Some(Kind::Tool(tool))
        }
    }
}

/// Its expressions read the results and the input without templates.
fn add_scope(args: &mut Value) {
    let scope = serde_json::json!({ "steps": "{{steps}}", "inputs": "{{input}}" });
    match args {
        Value::Object(map) => drop(map.insert("scope".to_owned(), scope)),
        _ => *args = Value::Object(Map::from_iter([("scope".to_owned(), scope)])),
    }
}

fn child(lowering: &mut Lowering<'_>, action: &Node, params: Option<&Node>) -> Option<Kind> {
    let mut fields = match params {
        Some(params) => Fields::read(lowering, params, "params of workflow.run")?,
        None => {
            lowering.error(crate::check::Code::F013, action.span, "workflow.run has no params");
            return None;
        }
    };
    let name = fields.require(lowering, "template_name", "\"my-template\"");
    let span = name.map_or(action.span, |node| node.span);
    let name = name.and_then(|node| lowering.text(node, "template_name"));
    let version = fields.take("version").and_then(|node| lowering.text(node, "version"));
    let args = fields.take("params").map(|node| lowering.template(node, "params", Role::Plain)).unwrap_or_default();
    fields.finish(lowering, &["template_name", "version", "params"]);
    let name = name?;
    lowering.outline.calls.push(Call { kind: CallKind::Flow, name: name.clone(), span, args: None });
    Some(Kind::Flow(FlowCall { name, version, is_workflow: false, args, detach: false, queue: None }))
}
