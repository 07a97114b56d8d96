//! Steps that call an action.

use serde_json::{Map, Value, json};

use super::{program, workflow};
use crate::check::{Code, Edit, Fix};
use crate::document::{Data, Entry, Node};
use crate::expression::{Path, Segment, nearest};
use crate::graph::{Kind, Step, ToolUse};
use crate::lower::attempts::default_breaker;
use crate::lower::context::Lowering;
use crate::lower::fields::Fields;
use crate::lower::outline::{Call, CallKind, Role};

/// The parameters of requests. `http.get` and `http.post` ignore the method.
const HTTP: &[&str] = &[
    "url",
    "method",
    "headers",
    "body",
    "body_encoding",
    "auth",
    "timeout",
    "follow_redirects",
    "max_redirects",
    "tls_skip_verify",
    "fail_on_error_status",
];
const SHELL: &[&str] = &["command", "args", "env", "cwd", "stdin", "timeout", "shell"];

/// The actions of the format, each with its parameters. Others are those of plugins.
const ACTIONS: [(&str, &[&str]); 26] = [
    ("http.request", HTTP),
    ("http.get", HTTP),
    ("http.post", HTTP),
    ("fs.read", &["path", "encoding"]),
    ("fs.write", &["path", "content", "create_dirs", "mode"]),
    ("fs.append", &["path", "content"]),
    ("fs.delete", &["path", "recursive"]),
    ("fs.list", &["path", "pattern", "recursive"]),
    ("fs.stat", &["path"]),
    ("fs.copy", &["src", "dst", "create_dirs"]),
    ("fs.move", &["src", "dst", "create_dirs"]),
    ("shell.exec", SHELL),
    ("crypto.hash", &["data", "algorithm"]),
    ("crypto.hmac", &["data", "key", "algorithm"]),
    ("crypto.uuid", &[]),
    ("assert.equals", &["expected", "actual", "message"]),
    ("assert.contains", &["haystack", "needle", "message"]),
    ("assert.matches", &["value", "pattern", "message"]),
    ("assert.schema", &["data", "schema", "message"]),
    ("expr.eval", &["expression", "data"]),
    ("workflow.run", &["template_name", "version", "params"]),
    ("workflow.emit", &["event_type", "payload"]),
    ("workflow.context", &["action", "workflow_id", "data", "agent_notes"]),
    ("workflow.fail", &["reason"]),
    ("workflow.log", &["message", "level", "data"]),
    ("workflow.notify", &["message", "data"]),
];

/// The namespaces of the format, which no plugin has.
const NAMESPACES: [&str; 7] = ["http", "fs", "shell", "crypto", "assert", "expr", "workflow"];

pub(super) fn lower(lowering: &mut Lowering<'_>, fields: &mut Fields<'_>, step: &mut Step) -> Option<Kind> {
    let node = fields.require(lowering, "action", "\"http.get\"");
    let params = fields.take("params").filter(|params| params.data != Data::Null);
    let action = node.and_then(|node| lowering.text(node, "action"))?;
    let node = node?;
    match action.as_str() {
        "expr.eval" => evaluation(lowering, node, params, step),
        "workflow.run" => workflow::run(lowering, node, params),
        "workflow.emit" => workflow::emit(lowering, node, params, step),
        "workflow.context" => workflow::context(lowering, node, params, step),
        "workflow.fail" => workflow::fail(lowering, params),
        _ => tool(lowering, node, params, step, action),
    }
}

/// Lowers an action that is a tool of the worker.
fn tool(
    lowering: &mut Lowering<'_>,
    node: &Node,
    params: Option<&Node>,
    step: &mut Step,
    action: String,
) -> Option<Kind> {
    let known = ACTIONS.iter().find(|(name, _)| *name == action).map(|(_, known)| *known);
    // A worker whose tools are known decides by itself.
    if known.is_none() && lowering.options.catalog.is_none() && !check_name(lowering, node, &action) {
        return None;
    }
    let args = match (params, known) {
        (None, _) => Value::Null,
        (Some(params), Some(known)) if params.entries().is_some() => arguments(lowering, params, &action, known),
        (Some(params), _) => lowering.template(params, "params", Role::ToolArgs),
    };
    let span = params.map_or(node.span, |params| params.span);
    let call = Call { kind: CallKind::Tool, name: action.clone(), span: node.span, args: Some((span, args.clone())) };
    lowering.outline.calls.push(call);
    step.breaker = default_breaker(&action, &args);
    Some(Kind::Tool(ToolUse { tool: action, args, external: false, texts: true }))
}

/// Reports an action that the format does not have, unless a plugin may have it.
fn check_name(lowering: &mut Lowering<'_>, node: &Node, action: &str) -> bool {
    let is_of_plugin = action.split_once('.').is_none_or(|(namespace, _)| !NAMESPACES.contains(&namespace));
    if is_of_plugin {
        return true;
    }
    if lowering.leaves_out() {
        return false;
    }
    let message = format!("no action \"{action}\" in the format");
    match nearest(action, ACTIONS.iter().map(|(name, _)| *name)) {
        Some(near) => {
            let path = lowering.pointer(node.span);
            let fix = Fix::new(format!("write \"{near}\""), Edit::Replace { path, value: near.into() });
            let message = format!("{message}; did you mean \"{near}\"?");
            lowering.error(Code::F040, node.span, message).fix(fix);
        }
        None => {
            let names: Vec<&str> = ACTIONS.iter().map(|(name, _)| *name).collect();
            lowering.error(Code::F040, node.span, message).help(format!("it has: {}", names.join(", ")));
        }
    }
    false
}

/// Lowers the parameters of a known action. The engine ignores others, and a line of the log has
/// them as its data here.
fn arguments(lowering: &mut Lowering<'_>, params: &Node, action: &str, known: &[&str]) -> Value {
    let (mut args, mut data) = (Map::new(), Map::new());
    let keeps_others = action == "workflow.log" && params.get("data").is_none();
    for entry in params.entries().unwrap_or_default() {
        let is_known = known.contains(&entry.key.as_str());
        if is_known || keeps_others {
            let value = lowering.template(&entry.value, "params", Role::ToolArgs);
            let to = if is_known { &mut args } else { &mut data };
            to.insert(entry.key.clone(), value);
        } else {
            warn_of_key(lowering, entry, action, known);
        }
    }
    if !data.is_empty() {
        args.insert("data".to_owned(), Value::Object(data));
    }
    Value::Object(args)
}

/// Takes a parameter that must be there. A key that is nearly its name is one without effect.
pub(super) fn needed<'n>(
    lowering: &mut Lowering<'_>,
    fields: &mut Fields<'n>,
    key: &str,
    example: &str,
) -> Option<&'n Node> {
    let found = fields.take(key);
    if found.is_none() {
        let message = format!("{} has no \"{key}\"", fields.owner);
        lowering.error(Code::F013, fields.span, message).help(format!("add \"{key}\": {example}"));
    }
    found
}

/// Warns of a parameter that has no effect.
pub(super) fn warn_of_key(lowering: &mut Lowering<'_>, entry: &Entry, action: &str, known: &[&str]) {
    if lowering.leaves_out() {
        return;
    }
    let path = lowering.pointer(entry.key_span);
    let near = nearest(&entry.key, known.iter().copied());
    let mean = near.map_or_else(String::new, |near| format!("; did you mean \"{near}\"?"));
    let message = format!("{action} has no parameter \"{}\", so it has no effect{mean}", entry.key);
    let fix = Fix::new(format!("remove \"{}\"", entry.key), Edit::Remove { path });
    let help = format!("its parameters: {}", if known.is_empty() { "none".to_owned() } else { known.join(", ") });
    lowering.error(Code::F010, entry.key_span, message).warning().help(help).fix(fix);
}

/// Lowers a program in Expr, as the output of a step that does nothing else.
fn evaluation(lowering: &mut Lowering<'_>, node: &Node, params: Option<&Node>, step: &mut Step) -> Option<Kind> {
    let Some(params) = params else {
        lowering.error(Code::F013, node.span, "expr.eval has no params").help("add params: { expression: .. }");
        return None;
    };
    let mut fields = Fields::read(lowering, params, "params of expr.eval")?;
    let source = needed(lowering, &mut fields, "expression", "\"len(steps.a.items)\"");
    let data = fields.take("data");
    for entry in fields.rest() {
        warn_of_key(lowering, entry, "expr.eval", &["expression", "data"]);
    }
    let source = source?;
    let text = lowering.text(source, "expression")?;
    let limit = lowering.options.limits.expression;
    if text.len() > limit {
        let message = format!("the expression has {} bytes; {limit} is the limit", text.len());
        lowering.error(Code::F050, source.span, message).help("let a tool or a Rust workflow compute it");
        return None;
    }
    let data = data.map(literal);
    match program::translate(&text, data.as_deref()) {
        Ok(cel) => {
            let expression = lowering.translated(source, &cel, "expression");
            step.output = Some(json!({ "result": format!("{{{{ {expression} }}}}") }));
            Some(Kind::Nothing)
        }
        Err(fault) => {
            let code = if fault.is_foreign { Code::F040 } else { Code::F033 };
            let (byte, path) = (lowering.byte_in(source, fault.at), lowering.pointer(source.span));
            let message = format!("in expression: {}", fault.message);
            let help = "write it with what the guide lists for expr.eval, or let a tool compute it";
            lowering.error_at(code, byte, path, message).help(help);
            None
        }
    }
}

/// Returns a value of the document in CEL.
fn literal(node: &Node) -> String {
    match &node.data {
        Data::Text(text) => text_literal(text),
        Data::List(items) => format!("[{}]", items.iter().map(literal).collect::<Vec<_>>().join(", ")),
        Data::Map(entries) => {
            let member = |entry: &Entry| format!("{}: {}", program::quoted(&entry.key), literal(&entry.value));
            // The space keeps the braces of two objects apart, which would end a template.
            format!("{{{} }}", entries.iter().map(member).collect::<Vec<_>>().join(", "))
        }
        _ => node.to_json().to_string(),
    }
}

/// Returns a text with `${{ }}` in CEL. One that is a whole template gives the value itself.
fn text_literal(text: &str) -> String {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${{") {
        let Some((inner, after)) = after.split_once("}}") else { break };
        if before.is_empty() && after.is_empty() && parts.is_empty() {
            return expression_literal(inner);
        }
        if !before.is_empty() {
            parts.push(program::quoted(before));
        }
        parts.push(format!("string({})", expression_literal(inner)));
        rest = after;
    }
    if !rest.is_empty() || parts.is_empty() {
        parts.push(program::quoted(rest));
    }
    format!("({})", parts.join(" + "))
}

/// Returns an expression of a template in CEL, where a name with a hyphen stands in brackets.
fn expression_literal(text: &str) -> String {
    let Some(path) = Path::parse(text) else { return format!("({})", text.trim()) };
    let segments = path.segments().iter().map(|segment| match segment {
        Segment::Name(name) => program::member(name, ""),
        Segment::Index(index) => format!("[{index}]"),
    });
    format!("{}{}", path.root(), segments.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_with_templates_are_values_of_cel() {
        for (text, cel) in [
            ("${{steps.fetch-data.output.body}}", "steps['fetch-data'].output.body"),
            ("${{ inputs.n + 1 }}", "(inputs.n + 1)"),
            ("a ${{inputs.b}}'s", "('a ' + string(input.b) + '\\'s')"),
            ("plain", "('plain')"),
            ("", "('')"),
        ] {
            assert_eq!(text_literal(text), cel);
        }
    }
}
