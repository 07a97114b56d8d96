//! Events: `emit` and `listen`, as CloudEvents.
//!
//! The name of an event of the engine is the `type` of the CloudEvent. All of them have one key,
//! because the language has no keys.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::program::{self, result_of};
use super::scope::{Scope, Task};
use super::task::{Body, Output, beside};
use super::{Cncf, read_one, refuse, refuse_key};
use crate::check::Code;
use crate::document::{Data, Node};
use crate::graph::{Block, Emission, Kind, Parallel, ParallelMode, Step, Wait};
use crate::lower::context::Lowering;
use crate::lower::fields::Fields;

/// The key of the events of this dialect.
const KEY: &str = "cloudevents";

pub(super) fn emit(
    cncf: &mut Cncf<'_>,
    lowering: &mut Lowering<'_>,
    task: &Task<'_>,
    scope: &Scope,
    node: &Node,
) -> Option<Body> {
    let event = read_one(lowering, node, "emit", "event", "{ with: { source: .., type: .. } }")?;
    let with = read_one(lowering, event, "emit.event", "with", "{ source: .., type: .. }")?;
    let name = event_type(lowering, with)?;
    let given = program::value(lowering, with, "with");
    // The key differs in each turn and each visit, because receivers drop events with an id that
    // they know.
    let usual = "{specversion: \"1.0\", id: $_key, time: $now}";
    let sight = scope.sight.with("now", ".now").with("_key", ".idempotency_key");
    let mut event = beside(cncf, task, "event", sight.program(&format!("{usual} + {given}")));
    event.aliases.push(scope.data.clone());
    let emission = Emission {
        event: name,
        key: Some(KEY.to_owned()),
        to: None,
        data: json!(format!("{{{{steps['{}']}}}}", event.id)),
    };
    let place = result_of(&event.id);
    Some(Body::new(vec![event, Step::new(task.id.clone(), Kind::Emit(emission))], Output::Place(place)))
}

/// Returns the type of an event, which names it in the engine.
fn event_type(lowering: &mut Lowering<'_>, with: &Node) -> Option<String> {
    let Some(node) = with.get("type") else {
        lowering
            .error(Code::F013, with.span, "the event has no \"type\"")
            .help("add type: com.example.order.placed.v1");
        return None;
    };
    let name = lowering.text(node, "type")?;
    if program::inner(&name).is_some() {
        refuse(lowering, node.span, "a type of events that is an expression");
        return None;
    }
    Some(name)
}

pub(super) fn listen(cncf: &mut Cncf<'_>, lowering: &mut Lowering<'_>, task: &Task<'_>, node: &Node) -> Option<Body> {
    let mut fields = Fields::read(lowering, node, "listen")?;
    let to = fields.require(lowering, "to", "{ one: { with: { type: .. } } }");
    let forms = ["data", "envelope", "raw"].map(|form| (form, form));
    let read = fields.take("read").map_or(Some("data"), |node| lowering.choice(node, "read", &forms))?;
    fields.finish(lowering, &["to", "read"]);
    let mut fields = Fields::read(lowering, to?, "listen.to")?;
    let (one, any, all) = (fields.take("one"), fields.take("any"), fields.take("all"));
    refuse_key(lowering, &mut fields, "until", "listen with \"until\"");
    fields.finish(lowering, &["one", "any", "all"]);
    let kind = match (one, any, all) {
        (Some(node), None, None) => Kind::Wait(wait(lowering, node)?),
        (None, Some(node), None) => parallel(cncf, lowering, task, node, ParallelMode::Race)?,
        (None, None, Some(node)) => parallel(cncf, lowering, task, node, ParallelMode::All)?,
        _ => {
            lowering.error(Code::F013, task.span, "listen.to has one of one, any and all");
            return None;
        }
    };
    let result = result_of(&task.id);
    let events = match &kind {
        Kind::Parallel(parallel) if parallel.mode == ParallelMode::Race => format!("[{result}.result]"),
        Kind::Parallel(parallel) => {
            let names: Vec<String> = parallel.branches.iter().map(|(name, _)| format!("{result}.{name}")).collect();
            format!("[{}]", names.join(", "))
        }
        _ => format!("[{result}]"),
    };
    // An event that another system has sent may be its data alone.
    let is_envelope = "type == \"object\" and has(\"specversion\")";
    let part = if read == "data" { format!("if {is_envelope} then .data else . end") } else { ".".to_owned() };
    let list = beside(cncf, task, "events", format!("{events} | map({part})"));
    Some(Body::new(vec![Step::new(task.id.clone(), kind), list], Output::Last))
}

fn parallel(
    cncf: &mut Cncf<'_>,
    lowering: &mut Lowering<'_>,
    task: &Task<'_>,
    node: &Node,
    mode: ParallelMode,
) -> Option<Kind> {
    let items = node.items().unwrap_or_default();
    if items.is_empty() {
        refuse(lowering, node.span, "listen to any event at all");
        return None;
    }
    let mut branches = Vec::new();
    for (number, item) in items.iter().enumerate() {
        let id = cncf.fresh_beside(task, &number.to_string());
        let step = Step::new(id, Kind::Wait(wait(lowering, item)?));
        branches.push((format!("event{number}"), Block::Do(vec![step])));
    }
    Some(Kind::Parallel(Parallel { branches, mode, concurrency: None }))
}

/// Reads a filter of events.
fn wait(lowering: &mut Lowering<'_>, node: &Node) -> Option<Wait> {
    let mut fields = Fields::read(lowering, node, "the filter")?;
    let with = fields.require(lowering, "with", "{ type: .. }");
    refuse_key(lowering, &mut fields, "correlate", "\"correlate\"");
    fields.finish(lowering, &["with"]);
    let with = with?;
    let name = event_type(lowering, with)?;
    let mut attributes = BTreeMap::new();
    for entry in with.entries().unwrap_or_default().iter().filter(|entry| entry.key != "type") {
        match &entry.value.data {
            Data::Text(text) if program::inner(text).is_none() && is_word(&entry.key) => {
                attributes.insert(entry.key.clone(), text.clone());
            }
            _ => refuse(lowering, entry.value.span, "a filter that is neither the type nor an attribute's text"),
        }
    }
    let condition = |(name, text): (&String, &String)| {
        // An event without the attribute is another event, and no error.
        format!("has(event.{name}) && event.{name} == {}", Value::String(text.clone()))
    };
    let conditions: Vec<String> = attributes.iter().map(condition).collect();
    let matches = (!conditions.is_empty()).then(|| conditions.join(" && "));
    Some(Wait::Event { name, key: KEY.to_owned(), matches })
}

fn is_word(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric())
}
