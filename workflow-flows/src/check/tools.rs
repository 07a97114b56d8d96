//! F040 and F041: what the flow calls exists, and the arguments fit.

use serde_json::{Value, json};

use super::server::{self, Servers};
use super::{Code, Edit, Fix, ToolCatalog, schema};
use crate::document::{Node, Span};
use crate::expression::nearest;
use crate::graph::Flow;
use crate::lower::outline::{Call, CallKind};
use crate::lower::{Dialect, Lowering};

pub(super) fn check(lowering: &mut Lowering<'_>, flow: Option<&Flow>, servers: &mut Servers) {
    let Some(catalog) = lowering.options.catalog else { return };
    for call in lowering.outline.calls.clone() {
        match call.kind {
            CallKind::Tool => check_tool(lowering, catalog, &call, servers),
            CallKind::Recipe => check_name(lowering, catalog, &call, catalog.recipes()),
            CallKind::Flow => check_flow(lowering, catalog, &call, flow),
            CallKind::Workflow => check_name(lowering, catalog, &call, catalog.workflows()),
            CallKind::Model => check_service(lowering, &call, catalog.has_model()),
            CallKind::Knowledge => {
                check_service(lowering, &call, catalog.has_knowledge_base());
                server::check_policy(lowering, catalog, &call);
            }
        }
    }
}

fn check_tool(lowering: &mut Lowering<'_>, catalog: &dyn ToolCatalog, call: &Call, servers: &mut Servers) {
    let Some(schema) = catalog.tool(&call.name) else {
        unknown(lowering, catalog, call, &catalog.tools());
        return;
    };
    let fits = check_arguments(lowering, call, &schema, Code::F041);
    servers.check(lowering, catalog, call, (&schema, fits));
    server::check_policy(lowering, catalog, call);
}

fn check_name(lowering: &mut Lowering<'_>, catalog: &dyn ToolCatalog, call: &Call, names: Option<Vec<String>>) {
    if let Some(names) = names.filter(|names| !names.contains(&call.name)) {
        unknown(lowering, catalog, call, &names);
    }
}

/// Checks that a flow exists in the version that the document names, and that the arguments fit the
/// schema of its input, if that is known.
fn check_flow(lowering: &mut Lowering<'_>, catalog: &dyn ToolCatalog, call: &Call, flow: Option<&Flow>) {
    let pointer = lowering.pointer(call.span);
    let step = pointer.strip_suffix("/flow").filter(|_| lowering.dialect == Dialect::Native);
    let text = step.and_then(|_| lowering.node_at(&pointer)).and_then(Node::text).unwrap_or_default();
    let version = text.split_once('@').map(|(_, version)| version);
    // A flow that calls itself calls the version that this document becomes.
    let own = flow.filter(|flow| flow.name == call.name && version.is_none()).map(|flow| flow.input.clone());
    let names = catalog.flows().filter(|_| own.is_none());
    let is_known = names.as_ref().is_some_and(|names| names.contains(&call.name));
    check_name(lowering, catalog, call, names);
    if let Some(version) = version.filter(|version| is_known && !catalog.has_version(&call.name, version)) {
        let message = format!("the flow \"{}\" has no version \"{version}\" in this worker", call.name);
        let help = format!("deploy that version first, or write {}, the newest one", call.name);
        lowering.error(Code::F040, call.span, message).help(help);
    }
    let (Some(step), Some(schema)) = (step, own.or_else(|| catalog.flow(&call.name, version))) else { return };
    let args = lowering.node_at(&format!("{step}/args"));
    let span = args.map_or(call.span, |args| args.span);
    let value = args.map(Node::to_json).unwrap_or_default();
    let help = if args.is_none() { "add the input of the flow, as args: { id: \"{{input.id}}\" }" } else { "" };
    let what = format!("args of \"{}\"", call.name);
    let given = Given { what, span, value: &value, has_templates: true, help };
    check_given(lowering, &given, &schema, Code::F041);
}

fn check_service(lowering: &mut Lowering<'_>, call: &Call, is_there: bool) {
    if !is_there {
        let kind = call.kind.name();
        let help = format!("give the worker a {kind}, or leave the step out");
        lowering.error(Code::F040, call.span, format!("this worker has no {kind}")).help(help);
    }
}

pub(super) fn unknown(lowering: &mut Lowering<'_>, catalog: &dyn ToolCatalog, call: &Call, names: &[String]) {
    if lowering.leaves_out() {
        return;
    }
    let kind = call.kind.name();
    let message = format!("no {kind} \"{}\" in this worker", call.name);
    if let Some(near) = nearest(&call.name, names.iter().map(String::as_str)) {
        let path = lowering.pointer(call.span);
        let fix = Fix::new(format!("write \"{near}\""), Edit::Replace { path, value: near.into() });
        let message = format!("{message}; did you mean \"{near}\"?");
        lowering.error(Code::F040, call.span, message).fix(fix);
        return;
    }
    let has = |names: Option<Vec<String>>| names.is_some_and(|names| names.contains(&call.name));
    let other = match call.kind {
        CallKind::Flow if has(catalog.workflows()) => Some("workflow"),
        CallKind::Workflow if has(catalog.flows()) => Some("flow"),
        _ => None,
    };
    let help = match other {
        Some(other) => format!("there is a {other} of this name; write {other}: {}", call.name),
        None => {
            let shown: Vec<&str> = names.iter().map(String::as_str).take(20).collect();
            format!("it has: {}", if shown.is_empty() { "none".to_owned() } else { shown.join(", ") })
        }
    };
    lowering.error(Code::F040, call.span, message).help(help);
}

/// Checks the arguments of a call. Returns whether they fit.
pub(super) fn check_arguments(lowering: &mut Lowering<'_>, call: &Call, schema: &Value, code: Code) -> bool {
    let Some((span, args)) = &call.args else { return true };
    let empty = json!({});
    let value = if args.is_null() { &empty } else { args };
    let since = if code == Code::F071 { ", because its server has changed it" } else { "" };
    let what = format!("args of \"{}\"{since}", call.name);
    check_given(lowering, &Given { what, span: *span, value, has_templates: true, help: "" }, schema, code)
}

/// A value of the document that has to fit a schema.
pub(super) struct Given<'v> {
    /// The value as messages name it.
    pub(super) what: String,
    /// The place of the value, or of what lacks it.
    pub(super) span: Span,
    pub(super) value: &'v Value,
    /// Whether texts may be templates, which fit everything.
    pub(super) has_templates: bool,
    /// Says what would be right. Empty if the message says it.
    pub(super) help: &'v str,
}

/// Reports where a value does not fit a schema. Returns whether it fits.
pub(super) fn check_given(lowering: &mut Lowering<'_>, given: &Given<'_>, schema: &Value, code: Code) -> bool {
    let Given { what, span, value, has_templates, help } = given;
    // One template may be anything.
    if *has_templates && value.is_string() {
        return true;
    }
    // A schema of another party that is wrong is no fault of the document.
    let Ok(validator) = schema::compile(schema) else { return true };
    let base = lowering.pointer(*span);
    let properties: Vec<String> = schema
        .get("properties")
        .and_then(|properties| properties.as_object())
        .map(|properties| properties.keys().cloned().collect())
        .unwrap_or_default();
    let violations = schema::violations(&validator, value, *has_templates);
    let fits = violations.is_empty();
    for (pointer, message) in violations {
        if lowering.leaves_out() {
            continue;
        }
        let name = message.strip_prefix('"').and_then(|rest| rest.strip_suffix("\" is not a property"));
        let is_free = |key: &&str| value.get(*key).is_none();
        let near = name.and_then(|name| nearest(name, properties.iter().map(String::as_str).filter(is_free)));
        let place = name.map_or_else(|| pointer.clone(), |name| format!("{pointer}/{name}"));
        let found = if place.is_empty() { None } else { key_byte(lowering, &format!("{base}{place}")) };
        let byte = found.unwrap_or(span.start);
        let at = if pointer.is_empty() { String::new() } else { format!("{pointer}: ") };
        let message = format!("{what}: {at}{message}");
        let path = format!("{base}{place}");
        match (name, near) {
            (Some(name), Some(near)) if pointer.is_empty() => {
                let message = format!("{message}; did you mean \"{near}\"?");
                let fix = Edit::Move { from: path.clone(), path: format!("{base}/{near}") };
                let fix = Fix::new(format!("rename \"{name}\" to \"{near}\""), fix);
                lowering.error_at(code, byte, path, message).fix(fix);
            }
            (Some(name), None) => {
                let fix = Fix::new(format!("remove \"{name}\""), Edit::Remove { path: path.clone() });
                let help = format!("its properties: {}", properties.join(", "));
                lowering.error_at(code, byte, path, message).help(help).fix(fix);
            }
            _ => drop(lowering.error_at(code, byte, path, message).help(*help)),
        }
    }
    fits
}

/// Returns the byte of the key that leads to a value, or of the value in a list.
fn key_byte(lowering: &Lowering<'_>, pointer: &str) -> Option<usize> {
    let (parent, key) = pointer.rsplit_once('/')?;
    let key = key.replace("~1", "/").replace("~0", "~");
    let parent = lowering.node_at(parent)?;
    let entry = parent.entries()?.iter().find(|entry| entry.key == key);
    entry.map_or_else(|| lowering.byte_at(pointer), |entry| Some(entry.key_span.start))
}
