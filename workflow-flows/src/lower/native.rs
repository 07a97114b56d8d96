//! The top of a document in the native dialect.

use std::time::Duration;

use serde_json::Value;

use super::context::Lowering;
use super::fields::Fields;
use super::outline::{Role, Section};
use super::{attempts, block, keys, schema, trigger};
use crate::check::{Code, Edit, Fix};
use crate::document::{Data, Node};
use crate::graph::{Block, Flow, MissingPath, OnTimeout};

/// The time of a run if the document says nothing.
pub(crate) const DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub(crate) fn lower(lowering: &mut Lowering<'_>, root: &Node) -> Option<Flow> {
    let mut fields = Fields::read(lowering, root, "the flow")?;
    language(lowering, &mut fields);
    let name = read_name(lowering, &mut fields);
    let description = fields.take("description").and_then(|node| lowering.text(node, "description"));
    let input = fields.take("input").and_then(|node| schema::read(lowering, node, "input"));
    let timeout = fields.take("timeout").and_then(|node| attempts::read_time(lowering, node, "timeout"));
    let choices = [("fail", OnTimeout::Fail), ("cancel", OnTimeout::Cancel), ("pause", OnTimeout::Pause)];
    let on_timeout = fields.take("on_timeout").and_then(|node| lowering.choice(node, "on_timeout", &choices));
    if let Some(node) = fields.take("defaults") {
        defaults(lowering, node);
    }
    let body = block::of_fields(lowering, &mut fields, None, "");
    let output = fields.take("output").map(|node| lowering.template(node, "output", Role::FlowOutput));
    let mut hook = |lowering: &mut Lowering<'_>, key: &str, section| -> Option<Block> {
        let node = fields.take(key)?;
        lowering.section = section;
        let block = block::lower(lowering, node, key, None);
        lowering.section = Section::Body;
        block
    };
    let on_error = hook(lowering, "on_error", Section::OnError);
    let on_complete = hook(lowering, "on_complete", Section::OnComplete);
    let triggers = fields.take("triggers").map(|node| trigger::lower(lowering, node)).unwrap_or_default();
    fields.finish(lowering, keys::FLOW);
    Some(Flow {
        language: 1,
        name: name?,
        description: description.unwrap_or_default(),
        input: input.unwrap_or(Value::Bool(true)),
        timeout: timeout.unwrap_or(DAY),
        on_timeout: on_timeout.unwrap_or_default(),
        missing_path: MissingPath::Error,
        body: body?,
        output,
        on_error,
        on_complete,
        triggers,
    })
}

fn language(lowering: &mut Lowering<'_>, fields: &mut Fields<'_>) {
    match fields.take("flow") {
        None => {
            let fix = Fix::new("add flow: 1", Edit::Add { path: "/flow".to_owned(), value: 1.into() });
            let finding = lowering.error(Code::F013, fields.span, "the document has no \"flow\": the language version");
            finding.help("begin with flow: 1").fix(fix);
        }
        Some(node) => match &node.data {
            Data::Number(number) if number.as_u64() == Some(1) => {}
            Data::Number(number) => {
                lowering.replace(node, format!("flow is {number}; 1 is the only language version"), 1);
            }
            _ => drop(lowering.replace(node, format!("flow is {}; it has to be 1", node.kind()), 1)),
        },
    }
}

fn read_name(lowering: &mut Lowering<'_>, fields: &mut Fields<'_>) -> Option<String> {
    let Some(node) = fields.take("name") else {
        let fix = Fix::new("add a name", Edit::Add { path: "/name".to_owned(), value: "my-flow".into() });
        lowering.error(Code::F013, fields.span, "the flow has no \"name\"").help("as name: order-processing").fix(fix);
        return None;
    };
    let name = lowering.text(node, "name")?;
    if !is_name(&name) {
        let message = format!("\"{name}\" is no name");
        let finding = lowering.replace(node, message, repaired_name(&name));
        finding.help("names have a-z, 0-9, \".\", \"_\" and \"-\", at most 128, and begin with a letter or digit");
    }
    Some(name)
}

/// `[a-z0-9][a-z0-9._-]{0,127}`
pub(crate) fn is_name(name: &str) -> bool {
    let is_first = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_part = |c: char| is_first(c) || matches!(c, '.' | '_' | '-');
    name.starts_with(is_first) && name.len() <= 128 && name.chars().all(is_part)
}

/// Returns the nearest text that is a name.
pub(crate) fn repaired_name(text: &str) -> String {
    let part = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_') { c.to_ascii_lowercase() } else { '-' };
    let name: String = text.chars().map(part).collect();
    let name = name.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let name: String = name.chars().take(128).collect();
    if name.is_empty() { "my-flow".to_owned() } else { name }
}

fn defaults(lowering: &mut Lowering<'_>, node: &Node) {
    let Some(mut fields) = Fields::read(lowering, node, "defaults") else { return };
    let timeout = fields.take("timeout");
    lowering.defaults.timeout = timeout.and_then(|node| attempts::read_time(lowering, node, "defaults.timeout"));
    let retry = fields.take("retry");
    lowering.defaults.retry = retry.and_then(|node| attempts::read_retry(lowering, node, "the defaults"));
    fields.finish(lowering, keys::DEFAULTS);
}
