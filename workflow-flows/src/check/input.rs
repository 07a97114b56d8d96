//! F032 and F060: the input and its schema.

use serde_json::Value;

use super::expressions::{each, is_of_trigger, place, rename, shown};
use super::tools::{Given, check_given};
use super::{Code, Finding, Severity, schema};
use crate::document::Node;
use crate::expression::nearest;
use crate::graph::Flow;
use crate::lower::Lowering;
use crate::lower::outline::Use;
use crate::lower::reference::Read;

/// Checks an input against the schema of a flow.
///
/// ```
/// use workflow_flows::check::{Code, Options, check, check_input};
///
/// let source = "flow: 1\nname: a\ninput: { required: [id] }\ndo: [ { id: a, tool: log } ]\n";
/// let flow = check(source, &Options::default()).flow.ok_or("not valid")?;
/// assert!(check_input(&flow, &serde_json::json!({ "id": 1 })).is_empty());
/// assert_eq!(check_input(&flow, &serde_json::json!({}))[0].code, Code::F060);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn check_input(flow: &Flow, input: &Value) -> Vec<Finding> {
    let finding = |path: String, message: String| Finding {
        code: Code::F060,
        severity: Severity::Error,
        message: format!("input: {}{message}", if path.is_empty() { String::new() } else { format!("{path}: ") }),
        path,
        line: 1,
        column: 1,
        help: String::new(),
        fix: None,
    };
    match schema::compile(&flow.input) {
        Ok(validator) => {
            let found = schema::violations(&validator, input, false);
            found.into_iter().map(|(path, message)| finding(path, message)).collect()
        }
        Err((_, message)) => vec![finding(String::new(), format!("its schema is no JSON Schema: {message}"))],
    }
}

pub(super) fn check_references(lowering: &mut Lowering<'_>, flow: Option<&Flow>) {
    let schema = flow.map(|flow| flow.input.clone());
    let schema = schema.or_else(|| lowering.root.get("input").map(crate::document::Node::to_json));
    let Some(schema) = schema else { return };
    each(lowering, |lowering, it| {
        // The expressions of triggers have no input, which is reported elsewhere.
        for read in it.reads.iter().filter(|read| read.path.root() == "input" && !is_of_trigger(it)) {
            walk(lowering, it, read, &schema);
        }
    });
}

/// Checks the inputs that the clock gives. They are no templates.
pub(super) fn check_triggers(lowering: &mut Lowering<'_>, flow: Option<&Flow>) {
    let Some(flow) = flow else { return };
    for trigger in lowering.root.get("triggers").and_then(Node::items).unwrap_or_default() {
        if trigger.get("cron").is_none() {
            continue;
        }
        let input = trigger.get("input");
        let value = input.map(Node::to_json).unwrap_or_default();
        let what = "input of the trigger".to_owned();
        let span = input.map_or(trigger.span, |input| input.span);
        let help = if input.is_none() { "add an input that fits, as input: { topic: daily }" } else { "" };
        let given = Given { what, span, value: &value, has_templates: false, help };
        check_given(lowering, &given, &flow.input, Code::F060);
    }
}

fn walk(lowering: &mut Lowering<'_>, it: &Use, read: &Read, schema: &Value) {
    let mut walked = "the input".to_owned();
    let mut node = schema;
    for index in 0..read.path.segments().len() {
        let Some(name) = read.name(index) else {
            let Some(items) = node.get("items") else { return };
            node = items;
            continue;
        };
        let Some(fields) = closed_fields(node) else { return };
        if let Some(next) = fields.get(name) {
            walked = format!("\"{name}\"");
            node = next;
            continue;
        }
        if lowering.leaves_out() {
            return;
        }
        let names: Vec<&str> = fields.keys().map(String::as_str).collect();
        let message = format!("{}: {walked} has no \"{name}\"; it has: {}", shown(it, read), names.join(", "));
        let range = read.name_range(index);
        let byte = place(lowering, it, range.start);
        let fix = nearest(name, names.iter().copied()).and_then(|near| rename(lowering, it, range, near));
        let path = lowering.pointer(it.span);
        lowering.error_at(Code::F032, byte, path, message).fix = fix;
        return;
    }
}

/// The fields of a schema that lists them all.
fn closed_fields(schema: &Value) -> Option<&serde_json::Map<String, Value>> {
    let open = ["patternProperties", "allOf", "anyOf", "oneOf", "$ref", "if", "$dynamicRef", "dependentSchemas"];
    let map = schema.as_object()?;
    if open.iter().any(|key| map.contains_key(*key)) {
        return None;
    }
    let is_closed = map.get("additionalProperties").is_none_or(|more| *more == Value::Bool(false));
    is_closed.then(|| map.get("properties")?.as_object()).flatten()
}
