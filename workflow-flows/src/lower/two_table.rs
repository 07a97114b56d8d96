//! The dialect `two-table`: the map of steps of the engine with two tables, as it stands.

use std::time::Duration;

use serde_json::{Map, Value};

use super::block;
use super::context::Lowering;
use super::fields::Fields;
use super::joins;
use super::native::{DAY, is_name, repaired_name};
use super::outline::{Call, CallKind, Named, Shape, Transition};
use super::step::{begin, is_id, repaired_id};
use crate::check::Code;
use crate::document::{Data, Entry, Node};
use crate::graph::{
    Approval, Backoff, Block, Flow, Kind, MissingPath, Next, OnReject, OnTimeout, RetryRule, Step, ToolUse,
};

const STEP: &[&str] = &["name", "tool", "args", "next", "branch", "parallel", "join", "done"];

pub(crate) fn lower(lowering: &mut Lowering<'_>, root: &Node) -> Option<Flow> {
    let Some(entries) = root.entries().filter(|entries| !entries.is_empty()) else {
        lowering.wrong(root, "the flow", "a map from names to steps");
        return None;
    };
    let block = block::begin(lowering, Shape::Graph, None, root.span)?;
    // The names exist before the steps that lead to them.
    let ids = Ids { entries };
    let mut steps: Vec<Step> = entries.iter().filter_map(|entry| step(lowering, entry, block, &ids)).collect();
    let first = entries.iter().find(|entry| entry.key == "start").or_else(|| entries.first());
    let start = first.map(|entry| own_id(&entry.key)).unwrap_or_default();
    lowering.outline.blocks[block].start = lowering.outline.find_in(block, &start);
    joins::resolve(lowering, block, &mut steps);
    let name = lowering.options.name.unwrap_or("flow");
    Some(Flow {
        language: 1,
        name: if is_name(name) { name.to_owned() } else { repaired_name(name) },
        description: String::new(),
        input: Value::Bool(true),
        timeout: DAY * 365,
        on_timeout: OnTimeout::Fail,
        missing_path: MissingPath::Empty,
        body: Block::Graph { start, steps },
        output: None,
        on_error: None,
        on_complete: None,
        triggers: Vec::new(),
    })
}

/// The steps of a map, by their keys and by their names.
struct Ids<'n> {
    entries: &'n [Entry],
}

impl Ids<'_> {
    fn find(&self, name: &str) -> String {
        let by_key = self.entries.iter().find(|entry| entry.key == name);
        let has_name = |entry: &&Entry| entry.value.get("name").and_then(Node::text) == Some(name);
        let found = by_key.or_else(|| self.entries.iter().find(has_name));
        found.map_or_else(|| name.to_owned(), |entry| own_id(&entry.key))
    }
}

fn own_id(key: &str) -> String {
    if is_id(key) { key.to_owned() } else { repaired_id(key) }
}

fn step(lowering: &mut Lowering<'_>, entry: &Entry, block: usize, ids: &Ids<'_>) -> Option<Step> {
    let id = own_id(&entry.key);
    let mut fields = Fields::read(lowering, &entry.value, format!("step \"{}\"", entry.key))?;
    let index = begin(lowering, &id, entry.key_span, entry.value.span, block);
    let outer = lowering.step.replace(index);
    let mut step = Step::new(id, Kind::Nothing);
    let name = fields.take("name").and_then(Node::text).filter(|name| *name != entry.key);
    for alias in name.into_iter().chain(Some(entry.key.as_str()).filter(|key| *key != step.id)) {
        lowering.outline.add_alias(index, alias);
        step.aliases.push(alias.to_owned());
    }
    let args = fields.take("args").map(|node| arguments(lowering, node)).unwrap_or_default();
    let tool = fields.take("tool");
    step.next = next(lowering, &mut fields, index, ids);
    fields.finish(lowering, STEP);
    match tool.map(|node| &node.data) {
        Some(Data::Null) => {
            let joins = matches!(lowering.outline.steps[index].transition, Some(Transition::Parallel(_)));
            lowering.outline.steps[index].kind = if joins { "" } else { "approval" };
            step.kind = if joins { Kind::Nothing } else { Kind::Approval(gate(&entry.key, args)) };
        }
        Some(_) => {
            let node = tool?;
            lowering.outline.steps[index].kind = "tool";
            if let Some(tool) = lowering.text(node, "tool") {
                let args_span = entry.value.get("args").map_or(node.span, |args| args.span);
                let call = Call {
                    kind: CallKind::Tool,
                    name: tool.clone(),
                    span: node.span,
                    args: Some((args_span, args.clone())),
                };
                lowering.outline.calls.push(call);
                step.kind = Kind::Tool(ToolUse { tool, args, external: false, texts: false });
            }
            let waits = vec![Duration::from_secs(30), Duration::from_secs(120)];
            let backoff = Backoff::Delays(waits);
            step.retry = Some(RetryRule { attempts: 3, backoff, jitter: false, added: None, on: Vec::new() });
            step.timeout = Some(Duration::from_secs(120));
        }
        None => {}
    }
    lowering.step = outer;
    Some(step)
}

/// The approval of a step that has no tool: by the account that started the run.
fn gate(name: &str, args: Value) -> Approval {
    Approval {
        to: vec!["{{run.actor}}".to_owned()],
        title: format!("Approve \"{name}\""),
        show: args,
        notify: Vec::new(),
        on_timeout: None,
        on_reject: OnReject::Fail,
    }
}

/// Only whole texts of the form `{{input.key}}` are templates there, and a key may have dots.
fn arguments(lowering: &mut Lowering<'_>, node: &Node) -> Value {
    let Some(entries) = node.entries() else {
        if node.data != Data::Null {
            lowering.wrong(node, "args", "a map");
        }
        return Value::Null;
    };
    let argument = |entry: &Entry| {
        let value = match entry.value.text() {
            Some(text) => Value::String(template(text)),
            None => escaped(entry.value.to_json()),
        };
        (entry.key.clone(), value)
    };
    Value::Object(entries.iter().map(argument).collect::<Map<_, _>>())
}

fn template(text: &str) -> String {
    let Some(rest) = text.strip_prefix("{{input.") else { return text.replace("{{", "{{{{") };
    let key = rest.trim_end_matches("}}");
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !key.is_empty() && key.chars().all(is_plain) {
        return format!("{{{{input.{key}}}}}");
    }
    format!("{{{{input['{}']}}}}", key.replace("']", ""))
}

fn escaped(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(text.replace("{{", "{{{{")),
        Value::Array(items) => items.into_iter().map(escaped).collect(),
        Value::Object(map) => Value::Object(map.into_iter().map(|(key, value)| (key, escaped(value))).collect()),
        other => other,
    }
}

/// Reads where a step goes. The engine looks for the keys in this order.
fn next(lowering: &mut Lowering<'_>, fields: &mut Fields<'_>, step: usize, ids: &Ids<'_>) -> Option<Next> {
    let [next, branch, parallel, join, done] =
        ["next", "branch", "parallel", "join", "done"].map(|key| fields.take(key));
    let target = |lowering: &mut Lowering<'_>, node: &Node| {
        lowering.text(node, "a target").map(|name| Named { id: ids.find(&name), span: node.span })
    };
    let (transition, next) = if let Some(node) = next {
        let to = target(lowering, node)?;
        (Transition::Goto(vec![to.clone()]), Next::Goto(to.id))
    } else if let Some(node) = branch {
        let mut to = Vec::new();
        let mut cases = Vec::new();
        for case in lowering.nodes(node) {
            let Some(mut case) = Fields::read(lowering, case, "a branch") else { continue };
            let condition = case.require(lowering, "if", "\"result == true\"");
            let then = case.require(lowering, "then", "the name of a step");
            case.finish(lowering, &["if", "then"]);
            let condition = condition.and_then(|node| condition_of(lowering, node));
            let then = then.and_then(|node| target(lowering, node));
            if let (Some(condition), Some(then)) = (condition, then) {
                cases.push((condition, then.id.clone()));
                to.push(then);
            }
        }
        (Transition::Goto(to), Next::Branch { cases, otherwise: None })
    } else if let Some(node) = parallel {
        let nodes = lowering.nodes(node);
        let to: Vec<Named> = nodes.into_iter().filter_map(|node| target(lowering, node)).collect();
        let branches = to.iter().map(|to| to.id.clone()).collect();
        (Transition::Parallel(to), Next::Parallel { branches, join: None })
    } else if let Some(node) = join {
        (Transition::Join(target(lowering, node)?), Next::Join)
    } else {
        if let Some(node) = done {
            lowering.flag(node, "done");
        }
        (Transition::Done, Next::Done)
    };
    lowering.outline.steps[step].transition = Some(transition);
    Some(next)
}

/// One of the six conditions, as CEL.
fn condition_of(lowering: &mut Lowering<'_>, node: &Node) -> Option<String> {
    let text = lowering.text(node, "if")?;
    let nothing = "result == null || result == '' || result == 'nil'";
    let quoted = |word: &str| format!("'{}'", word.replace('\\', "\\\\").replace('\'', "\\'"));
    Some(match text.as_str() {
        "result == true" => "result == true || result == 'true'".to_owned(),
        "result == false" => "result == false || result == 'false'".to_owned(),
        "result == nil" => nothing.to_owned(),
        "result != nil" => format!("!({nothing})"),
        _ => match (text.strip_prefix("result == "), text.strip_prefix("result != ")) {
            (Some(word), _) => format!("result == {}", quoted(word)),
            (_, Some(word)) => format!("result != {}", quoted(word)),
            _ => {
                let message = format!("\"{text}\" is none of the six conditions, so it is never true");
                let help =
                    "result == true, result == false, result == nil, result != nil, result == TEXT, result != TEXT";
                lowering.error(Code::F033, node.span, message).warning().help(help);
                "false".to_owned()
            }
        },
    })
}
