//! The dialect `opcode`: the DAG engine's definitions, as they stand.

mod action;
mod expression;
mod program;
mod structure;
mod workflow;

use std::collections::{BTreeMap, BTreeSet};

pub(crate) use expression::{edit, text};
use serde_json::Value;

use super::attempts::read_duration;
use super::block;
use super::context::Lowering;
use super::fields::Fields;
use super::native::{DAY, is_name, repaired_name};
use super::outline::{Named, Part, Role, Section, Shape};
use super::step::{begin, is_id, repaired_id};
use crate::check::{Code, Edit, Fix};
use crate::document::{Data, Node};
use crate::expression::nearest;
use crate::graph::{Backoff, Block, Flow, Kind, MissingPath, OnError, OnTimeout, RetryRule, Step};

/// The keys around a definition that say nothing about its steps.
const AROUND: [&str; 9] =
    ["category", "features", "output_schema", "triggers", "version", "agent_id", "metadata", "tags", "author"];

const DEFINITION: &[&str] = &["steps", "inputs", "on_complete", "on_error", "timeout", "on_timeout", "metadata"];
const STEP: &[&str] =
    &["id", "type", "action", "params", "depends_on", "condition", "retry", "timeout", "on_error", "config"];
const RETRY: &[&str] = &["max", "backoff", "delay", "max_delay"];
const ON_ERROR: &[&str] = &["strategy", "fallback_step"];

/// The steps with which failures of others go on, by their ids, with the steps that name them.
type Fallbacks<'n> = BTreeMap<String, &'n Node>;

pub(crate) fn lower(lowering: &mut Lowering<'_>, root: &Node) -> Option<Flow> {
    let mut name = None;
    let mut description = String::new();
    let mut input = Value::Bool(true);
    let definition = match root.get("definition") {
        None => root,
        Some(definition) => {
            let mut fields = Fields::read(lowering, root, "the document")?;
            fields.take("definition");
            name = fields.take("name").and_then(|node| lowering.text(node, "name"));
            description =
                fields.take("description").and_then(|node| lowering.text(node, "description")).unwrap_or_default();
            if let Some(node) = fields.take("input_schema") {
                input = super::schema::read(lowering, node, "input_schema").unwrap_or(input);
            }
            for key in AROUND {
                fields.take(key);
            }
            fields.finish(lowering, &["name", "description", "input_schema", "definition"]);
            definition
        }
    };
    let name = name.or_else(|| lowering.options.name.map(str::to_owned)).unwrap_or_else(|| "flow".to_owned());
    let name = if is_name(&name) { name } else { repaired_name(&name) };
    let mut fields = Fields::read(lowering, definition, "the definition")?;
    fields.take("metadata");
    fields.take("inputs");
    let timeout = fields.take("timeout").and_then(|node| read_duration(lowering, node, "timeout"));
    let choices = [("fail", OnTimeout::Fail), ("cancel", OnTimeout::Cancel), ("suspend", OnTimeout::Pause)];
    let on_timeout = fields.take("on_timeout").and_then(|node| lowering.choice(node, "on_timeout", &choices));
    let steps = fields.require(lowering, "steps", "[ .. ]");
    if let Some(steps) = steps {
        note_composites(lowering, steps);
    }
    let body = steps.and_then(|node| top(lowering, node));
    let on_error = fields.take("on_error").and_then(|node| hook(lowering, node, Section::OnError));
    let on_complete = fields.take("on_complete").and_then(|node| hook(lowering, node, Section::OnComplete));
    fields.finish(lowering, DEFINITION);
    Some(Flow {
        language: 1,
        name,
        description,
        input,
        timeout: timeout.unwrap_or(DAY),
        on_timeout: on_timeout.unwrap_or_default(),
        missing_path: MissingPath::Error,
        body: body?,
        output: None,
        on_error,
        on_complete,
        triggers: Vec::new(),
    })
}

/// Notes the steps whose results have a field `output` of their own.
fn note_composites(lowering: &mut Lowering<'_>, steps: &Node) {
    for step in steps.items().unwrap_or_default() {
        let kind = step.get("type").and_then(Node::text).unwrap_or("action");
        if let (true, Some(id)) = (["condition", "parallel"].contains(&kind), step.get("id").and_then(Node::text)) {
            lowering.composites.insert(id.to_owned());
        }
    }
}

fn hook(lowering: &mut Lowering<'_>, node: &Node, section: Section) -> Option<Block> {
    if node.data == Data::Null {
        return None;
    }
    lowering.section = section;
    let block = block::begin(lowering, Shape::Do, None, node.span);
    let step = block.and_then(|block| step(lowering, node, block, None, &Fallbacks::new()));
    lowering.section = Section::Body;
    step.map(|step| Block::Do(vec![step]))
}

/// Lowers the steps of a definition: a dag, without the steps that are named as fallbacks only.
fn top(lowering: &mut Lowering<'_>, node: &Node) -> Option<Block> {
    let Some(items) = node.items() else {
        lowering.wrong(node, "steps", "a list of steps");
        return None;
    };
    if items.is_empty() {
        lowering.error(Code::F013, node.span, "steps is empty").help("a definition has one step or more");
        return None;
    }
    let by_id: Fallbacks<'_> =
        items.iter().filter_map(|item| Some((item.get("id")?.text()?.to_owned(), item))).collect();
    let owners = owners_of(items);
    let block = block::begin(lowering, Shape::Dag, None, node.span)?;
    let is_fallback = |item: &&Node| item.get("id").and_then(Node::text).is_some_and(|id| owners.contains_key(id));
    let mut steps = Vec::new();
    for item in items.iter().filter(|item| !is_fallback(item)) {
        if let Some(step) = step(lowering, item, block, None, &by_id) {
            steps.push(step);
        }
    }
    // A need of a fallback is a need of the step whose place it takes.
    for step in &mut steps {
        for need in &mut step.needs {
            if let Some(owner) = owners.get(need) {
                *need = owner.clone();
            }
        }
        if let Some(index) = lowering.outline.find(&step.id) {
            for need in &mut lowering.outline.steps[index].needs {
                if let Some(owner) = owners.get(&need.id) {
                    need.id.clone_from(owner);
                }
            }
        }
    }
    Some(Block::Dag { steps, concurrency: None })
}

fn fallback_of(step: &Node) -> Option<&str> {
    let handler = step.get("on_error")?;
    let is_fallback = handler.get("strategy").and_then(Node::text) == Some("fallback_step");
    handler.get("fallback_step").filter(|_| is_fallback)?.text()
}

/// Adds the fallbacks of a step and of the steps inside of it.
fn collect_fallbacks<'n>(node: &'n Node, found: &mut Vec<&'n str>) {
    found.extend(fallback_of(node));
    for item in node.items().unwrap_or_default() {
        collect_fallbacks(item, found);
    }
    for entry in node.entries().unwrap_or_default().iter().filter(|entry| entry.key != "params") {
        collect_fallbacks(&entry.value, found);
    }
}

/// Returns the steps that run as fallbacks only, each with the step of the dag in whose place it
/// runs. Steps that are fallbacks of each other are none: they are refused where they are lowered.
fn owners_of(items: &[Node]) -> BTreeMap<String, String> {
    let with_fallbacks = |item: &'_ Node| {
        let mut found = Vec::new();
        collect_fallbacks(item, &mut found);
        let found: Vec<String> = found.into_iter().map(str::to_owned).collect();
        Some((item.get("id")?.text()?.to_owned(), found))
    };
    let fallbacks: BTreeMap<String, Vec<String>> = items.iter().filter_map(with_fallbacks).collect();
    let named: BTreeSet<&String> = fallbacks.values().flatten().collect();
    let mut open: Vec<(&String, &String)> = Vec::new();
    for (id, to) in fallbacks.iter().filter(|(id, _)| !named.contains(id)) {
        open.extend(to.iter().map(|to| (to, id)));
    }
    let mut owners = BTreeMap::new();
    while let Some((id, owner)) = open.pop() {
        if owners.insert(id.clone(), owner.clone()).is_none() {
            open.extend(fallbacks.get(id).into_iter().flatten().map(|next| (next, owner)));
        }
    }
    owners
}

/// Lowers one step. `around` is the name under which nested steps are known.
fn step(
    lowering: &mut Lowering<'_>,
    node: &Node,
    block: usize,
    around: Option<&str>,
    siblings: &Fallbacks<'_>,
) -> Option<Step> {
    // Each fallback is lowered once per step that names it, so a small document can have many
    // steps. The check of the limit reports them.
    if lowering.outline.steps.len() > lowering.options.limits.steps {
        return None;
    }
    let position = lowering.outline.blocks[block].steps.len() + 1;
    let mut fields = Fields::read(lowering, node, format!("step {position}"))?;
    let id_node = fields.require(lowering, "id", "\"fetch\"")?;
    let given = lowering.text(id_node, "id")?;
    fields.owner = format!("step \"{given}\"");
    let id = free_id(lowering, &given, around);
    let index = begin(lowering, &id, id_node.span, node.span, block);
    let outer = lowering.step.replace(index);
    if id != given && around.is_none_or(str::is_empty) {
        lowering.outline.add_alias(index, &given);
    }
    if let Some(around) = around.filter(|around| !around.is_empty()) {
        lowering.outline.add_alias(index, &format!("{around}.{given}"));
    }
    let when = fields.take("condition").filter(|node| node.text() != Some(""));
    let when = when.and_then(|node| lowering.condition(node, "condition", Role::When));
    lowering.outline.steps[index].has_when = when.is_some();
    let mut step = Step::new(id, Kind::Nothing);
    step.when = when;
    if let Some(node) = fields.take("depends_on").filter(|_| around.is_none()) {
        for node in lowering.nodes(node) {
            if let Some(id) = lowering.text(node, "depends_on").filter(|id| !step.needs.contains(id)) {
                let named = Named { id: known_id(lowering, &id), span: node.span };
                step.needs.push(named.id.clone());
                lowering.outline.steps[index].needs.push(named);
            }
        }
    }
    step.timeout = fields.take("timeout").and_then(|node| read_duration(lowering, node, "timeout"));
    step.retry = fields.take("retry").and_then(|node| retry(lowering, node, &fields.owner));
    structure::lower(
        lowering,
        &mut fields,
        &mut step,
        around.filter(|it| !it.is_empty()).map_or(given.clone(), |it| format!("{it}.{given}")),
        siblings,
    );
    if let Some(node) = fields.take("on_error").filter(|node| node.data != Data::Null) {
        step.on_error = on_error(lowering, node, index, siblings).unwrap_or_default();
    }
    fields.finish(lowering, STEP);
    step.aliases = lowering.outline.steps[index].aliases.clone();
    lowering.step = outer;
    Some(step)
}

/// Returns an id of our form that no other step has. The definitions have ids per block.
fn free_id(lowering: &Lowering<'_>, given: &str, around: Option<&str>) -> String {
    let id = if is_id(given) { given.to_owned() } else { repaired_id(given) };
    let Some(around) = around.filter(|_| lowering.outline.find(&id).is_some()) else { return id };
    let long = repaired_id(&format!("{around}-{given}"));
    let numbered = (2..1_000).map(|number| repaired_id(&format!("{id}_{number}")));
    std::iter::once(long).chain(numbered).find(|id| lowering.outline.find(id).is_none()).unwrap_or(id)
}

fn known_id(lowering: &Lowering<'_>, given: &str) -> String {
    let index = lowering.outline.find(given);
    index.map_or_else(
        || if is_id(given) { given.to_owned() } else { repaired_id(given) },
        |index| lowering.outline.steps[index].id.clone(),
    )
}

fn retry(lowering: &mut Lowering<'_>, node: &Node, owner: &str) -> Option<RetryRule> {
    if node.data == Data::Null {
        return None;
    }
    let mut fields = Fields::read(lowering, node, format!("retry of {owner}"))?;
    let max = fields.take("max").and_then(|node| lowering.number(node, "retry.max", 0, 999, ""));
    let names = ["none", "constant", "linear", "exponential", ""].map(|name| (name, name));
    let kind = fields.take("backoff").and_then(|node| lowering.choice(node, "retry.backoff", &names));
    let delay = fields.take("delay").filter(|node| node.text() != Some(""));
    let delay = delay.and_then(|node| read_duration(lowering, node, "retry.delay")).unwrap_or_default();
    let longest = fields.take("max_delay").filter(|node| node.text() != Some(""));
    let longest = longest.and_then(|node| read_duration(lowering, node, "retry.max_delay"));
    fields.finish(lowering, RETRY);
    let max_delay = longest.unwrap_or(DAY).max(delay);
    let backoff = match kind {
        Some("constant") => Backoff::Constant { delay: delay.min(max_delay) },
        Some("linear") => Backoff::Linear { delay, max_delay },
        Some("exponential") => Backoff::Exponential { delay, max_delay },
        // The engine waits for the delay here, too.
        _ if !delay.is_zero() => Backoff::Constant { delay: delay.min(max_delay) },
        _ => Backoff::None,
    };
    let attempts = u32::try_from(max.unwrap_or_default()).unwrap_or_default() + 1;
    (attempts > 1).then_some(RetryRule { attempts, backoff, jitter: false, added: None, on: Vec::new() })
}

fn on_error(lowering: &mut Lowering<'_>, node: &Node, step_index: usize, siblings: &Fallbacks<'_>) -> Option<OnError> {
    let mut fields = Fields::read(lowering, node, "on_error")?;
    let strategy = fields.require(lowering, "strategy", "\"ignore\"");
    let names = ["ignore", "fail_workflow", "fallback_step", "retry"].map(|name| (name, name));
    let strategy = strategy.and_then(|node| lowering.choice(node, "on_error.strategy", &names));
    let target = fields.take("fallback_step");
    fields.finish(lowering, ON_ERROR);
    match strategy? {
        "ignore" => Some(OnError::Ignore),
        "fallback_step" => {
            let Some(target) = target else {
                lowering.error(Code::F013, node.span, "on_error has no \"fallback_step\"");
                return None;
            };
            let id = lowering.text(target, "fallback_step")?;
            let Some(found) = siblings.get(&id) else {
                unknown_fallback(lowering, target, &id, siblings);
                return None;
            };
            let limit = lowering.options.limits.bytes;
            let bytes = lowering.fallback_bytes;
            lowering.fallback_bytes = bytes.saturating_add(found.span.end.saturating_sub(found.span.start));
            if lowering.fallback_bytes > limit {
                if bytes <= limit {
                    let message =
                        format!("the fallbacks of all steps together have more than {limit} bytes, the limit");
                    lowering.error(Code::F050, target.span, message).help("let fewer steps name this fallback");
                }
                return None;
            }
            let part = Part::Instead("on_error");
            let block = block::begin(lowering, Shape::Do, Some((step_index, part)), found.span)?;
            lowering.nesting += 1;
            // Without itself, so that no chain of fallbacks leads around in a circle.
            let others = siblings.iter().filter(|(name, _)| **name != id);
            let others: Fallbacks<'_> = others.map(|(name, node)| (name.clone(), *node)).collect();
            let fallback = step(lowering, found, block, Some(""), &others);
            lowering.nesting -= 1;
            fallback.map(|fallback| OnError::Do(Box::new(Block::Do(vec![fallback]))))
        }
        _ => Some(OnError::Fail),
    }
}

fn unknown_fallback(lowering: &mut Lowering<'_>, target: &Node, id: &str, siblings: &Fallbacks<'_>) {
    if lowering.leaves_out() {
        return;
    }
    let root = lowering.root;
    let steps = root.get("definition").unwrap_or(root).get("steps");
    let mut ids = steps.and_then(Node::items).unwrap_or_default().iter().filter_map(|item| item.get("id")?.text());
    if ids.any(|known| known == id) {
        let message = format!("on_error goes to \"{id}\", whose failure leads back to it");
        lowering.error(Code::F021, target.span, message).help("let the last fallback have none");
        return;
    }
    let message = format!("on_error goes to \"{id}\", which does not exist");
    match nearest(id, siblings.keys().map(String::as_str)) {
        Some(near) => {
            let path = lowering.pointer(target.span);
            let fix = Fix::new(format!("write \"{near}\""), Edit::Replace { path, value: near.into() });
            let message = format!("{message}; did you mean \"{near}\"?");
            lowering.error(Code::F020, target.span, message).fix(fix);
        }
        None => drop(lowering.error(Code::F020, target.span, message)),
    }
}
