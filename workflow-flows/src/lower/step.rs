//! One step of the native dialect: its keys and its kind.

use super::context::Lowering;
use super::fields::{Fields, unknown_key};
use super::keys::{self, KindKeys};
use super::outline::{Role, Shape, StepOutline};
use super::{attempts, kinds, transition};
use crate::check::{Code, Edit, Fix};
use crate::document::{Data, Entry, Node, Span};
use crate::expression::nearest;
use crate::graph::{Kind, Step};

/// A step's kind as the document has it.
pub(crate) struct Chosen<'n> {
    pub(crate) keys: &'static KindKeys,
    pub(crate) node: &'n Node,
}

/// Lowers a step. `id` is given if the step is an entry of a map.
pub(crate) fn lower(lowering: &mut Lowering<'_>, node: &Node, id: Option<&Entry>, block: usize) -> Option<Step> {
    let shape = lowering.outline.blocks[block].shape;
    let position = lowering.outline.blocks[block].steps.len() + 1;
    let mut fields = Fields::read(lowering, node, format!("step {position}"))?;
    let (id, id_span) = read_id(lowering, &mut fields, id);
    fields.owner = format!("step \"{id}\"");
    let index = begin(lowering, &id, id_span, node.span, block);
    let outer = lowering.step.replace(index);

    let transition = if shape == Shape::Graph { transition::lower(lowering, &mut fields, index) } else { None };
    let chosen = choose(lowering, &mut fields, shape, transition.is_some());
    let name = chosen.as_ref().map_or("", |chosen| chosen.keys.name);
    lowering.outline.steps[index].kind = name;

    let when = fields.take("when").and_then(|node| lowering.condition(node, "when", Role::When));
    lowering.outline.steps[index].has_when = when.is_some();
    let needs = read_needs(lowering, &mut fields, index, shape);
    let mut step = Step::new(id.clone(), Kind::Nothing);
    step.when = when;
    step.needs = needs;
    step.next = transition.flatten();
    let common = attempts::Common::read(lowering, &mut fields, index);
    if let Some(chosen) = chosen {
        let kind = kinds::lower(lowering, &chosen, &mut fields, &mut step);
        step.kind = kind.unwrap_or(Kind::Nothing);
        common.apply(lowering, &mut step, chosen.keys);
        finish(lowering, fields, Some(&chosen), shape);
    } else {
        common.apply_plain(&mut step);
        finish(lowering, fields, None, shape);
    }
    if let Some(outline) = lowering.outline.steps.get(index) {
        step.max_visits = outline.max_visits;
    }
    lowering.step = outer;
    Some(step)
}

/// Adds a step to the outline.
pub(crate) fn begin(lowering: &mut Lowering<'_>, id: &str, id_span: Span, span: Span, block: usize) -> usize {
    let index = lowering.outline.steps.len();
    let first = lowering.outline.add(StepOutline {
        id: id.to_owned(),
        id_span,
        span,
        block,
        kind: "",
        has_when: false,
        is_turning: false,
        needs: Vec::new(),
        transition: None,
        goto: None,
        max_visits: None,
        output: None,
        aliases: Vec::new(),
    });
    if let Some(first) = first
        && !lowering.leaves_out()
    {
        let line = lowering.line(lowering.outline.steps[first].id_span);
        let path = lowering.pointer(id_span);
        let free = (2..100).map(|number| format!("{id}_{number}")).find(|name| lowering.outline.find(name).is_none());
        let fix = free
            .filter(|_| path.ends_with("/id"))
            .map(|free| Fix::new(format!("call this one \"{free}\""), Edit::Replace { path, value: free.into() }));
        let finding = lowering.error(Code::F012, id_span, format!("id \"{id}\" stands already in line {line}"));
        finding.help("each id stands once in the whole document").fix = fix;
    }
    index
}

fn read_id(lowering: &mut Lowering<'_>, fields: &mut Fields<'_>, entry: Option<&Entry>) -> (String, Span) {
    let (id, span) = match entry {
        Some(entry) => (Some(entry.key.clone()), entry.key_span),
        None => match fields.take("id") {
            Some(node) => (lowering.text(node, "id"), node.span),
            None => {
                let free = free_id(lowering, fields);
                let path = format!("{}/id", lowering.pointer(fields.span));
                let fix = Fix::new(format!("add id: {free}"), Edit::Add { path, value: free.into() });
                let message = format!("{} has no \"id\"", fields.owner);
                let finding = lowering.error(Code::F013, fields.span, message);
                finding.help("the id names the step in records and expressions").fix(fix);
                (None, fields.span)
            }
        },
    };
    let Some(id) = id else { return (free_id(lowering, fields), span) };
    if is_id(&id) {
        return (id, span);
    }
    let repaired = repaired_id(&id);
    let message = format!(
        "\"{id}\" is no id; ids have letters, digits, _ and -, begin with a letter or _, and have at most 64 characters"
    );
    if entry.is_none() {
        let path = lowering.pointer(span);
        let fix = Fix::new(format!("write \"{repaired}\""), Edit::Replace { path, value: repaired.clone().into() });
        lowering.error(Code::F013, span, message).fix(fix);
    } else {
        let from = lowering.pointer(span);
        let parent = from.rsplit_once('/').map_or("", |(parent, _)| parent);
        let path = format!("{parent}/{repaired}");
        let fix = Fix::new(format!("rename it to \"{repaired}\""), Edit::Move { from, path });
        lowering.error(Code::F013, span, message).fix(fix);
    }
    (repaired, span)
}

/// `[A-Za-z_][A-Za-z0-9_-]{0,63}`
pub(crate) fn is_id(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let first = text.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    first && text.len() <= 64 && text.chars().all(is_part)
}

/// Returns the nearest text that is an id.
pub(crate) fn repaired_id(text: &str) -> String {
    let part = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let mut id: String = text.chars().take(64).map(part).collect();
    if !id.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        id.insert(0, '_');
        id.truncate(64);
    }
    id
}

fn free_id(lowering: &Lowering<'_>, fields: &Fields<'_>) -> String {
    let kind = keys::KINDS.iter().find(|kind| fields.peek(kind.name).is_some());
    let base = kind.map_or("step", |kind| kind.name);
    let number = lowering.outline.steps.len() + 1;
    format!("{base}_{number}")
}

/// Finds the one kind of a step.
fn choose<'n>(
    lowering: &mut Lowering<'_>,
    fields: &mut Fields<'n>,
    shape: Shape,
    has_transition: bool,
) -> Option<Chosen<'n>> {
    // In a graph, `parallel` with a list is a transition, which is taken already.
    let is_transition =
        |name: &str, node: &Node| shape == Shape::Graph && name == "parallel" && matches!(node.data, Data::List(_));
    let found: Vec<&'static KindKeys> = keys::KINDS
        .iter()
        .filter(|kind| fields.peek(kind.name).is_some_and(|entry| !is_transition(kind.name, &entry.value)))
        .collect();
    match found.as_slice() {
        [kind] => {
            let node = fields.take(kind.name)?;
            // A gate of the two tables, or a step that only decides.
            if kind.name == "tool" && node.data == Data::Null && shape == Shape::Graph {
                return None;
            }
            Some(Chosen { keys: kind, node })
        }
        [] => {
            let is_misspelled = fields.rest().any(|entry| nearest(&entry.key, kind_names()).is_some());
            if !has_transition && !is_misspelled {
                let message = format!("{} has no kind", fields.owner);
                let help = format!("a step has one of: {}", keys::kind_names());
                lowering.error(Code::F011, fields.span, message).help(help);
            }
            None
        }
        [first, second, ..] => {
            let entry = fields.peek(second.name)?;
            let message =
                format!("{} has the kinds \"{}\" and \"{}\"; a step has one", fields.owner, first.name, second.name);
            let path = lowering.pointer(entry.key_span);
            let fix = Fix::new(format!("remove \"{}\"", second.name), Edit::Remove { path });
            let help = format!("known kinds: {}", keys::kind_names());
            lowering.error(Code::F011, entry.key_span, message).help(help).fix(fix);
            for kind in &found[1..] {
                fields.take(kind.name);
            }
            let node = fields.take(first.name)?;
            Some(Chosen { keys: first, node })
        }
    }
}

fn kind_names() -> impl Iterator<Item = &'static str> {
    keys::KINDS.iter().map(|kind| kind.name)
}

fn read_needs(lowering: &mut Lowering<'_>, fields: &mut Fields<'_>, index: usize, shape: Shape) -> Vec<String> {
    let Some(entry) = fields.peek("needs") else { return Vec::new() };
    if shape != Shape::Dag {
        return Vec::new();
    }
    fields.take("needs");
    let mut needs = Vec::new();
    for node in lowering.nodes(&entry.value) {
        if let Some(id) = lowering.text(node, "needs").filter(|id| !needs.contains(id)) {
            lowering.outline.steps[index].needs.push(super::outline::Named { id: id.clone(), span: node.span });
            needs.push(id);
        }
    }
    needs
}

/// Reports the keys that belong to no step, to another kind, or to another shape.
fn finish(lowering: &mut Lowering<'_>, fields: Fields<'_>, chosen: Option<&Chosen<'_>>, shape: Shape) {
    let mut known: Vec<&str> = keys::STEP.to_vec();
    known.retain(|key| *key != "needs" || shape == Shape::Dag);
    match chosen {
        Some(chosen) => {
            known.retain(|key| !chosen.keys.without.contains(key));
            known.push(chosen.keys.name);
            known.extend(chosen.keys.beside);
        }
        None => known.extend(kind_names()),
    }
    if shape == Shape::Graph {
        known.retain(|key| *key != "id");
        known.extend(keys::TRANSITIONS);
    }
    let given: Vec<&str> = fields.rest().map(|entry| entry.key.as_str()).collect();
    let owner = fields.owner.clone();
    for entry in fields.rest() {
        if lowering.leaves_out() {
            continue;
        }
        let Some(why) = misplaced(&entry.key, chosen, shape) else {
            let free = known.iter().copied().filter(|key| !given.contains(key));
            unknown_key(lowering, &owner, entry, free, &known);
            continue;
        };
        let path = lowering.pointer(entry.key_span);
        let fix = Fix::new(format!("remove \"{}\"", entry.key), Edit::Remove { path });
        let message = format!("{owner}: \"{}\" {why}", entry.key);
        lowering.error(Code::F010, entry.key_span, message).fix(fix);
    }
}

/// Why a key that exists does not belong to this step.
fn misplaced(key: &str, chosen: Option<&Chosen<'_>>, shape: Shape) -> Option<String> {
    if key == "needs" {
        return Some("belongs to the steps of a dag".to_owned());
    }
    if key == "id" && shape == Shape::Graph {
        return Some("is the key of the step in a graph".to_owned());
    }
    if shape != Shape::Graph && keys::TRANSITIONS.contains(&key) && !["else", "parallel"].contains(&key) {
        return Some("belongs to the steps of a graph".to_owned());
    }
    let chosen = chosen?;
    if chosen.keys.without.contains(&key) {
        return Some(format!("has no effect on the kind \"{}\"", chosen.keys.name));
    }
    let owners: Vec<&str> =
        keys::KINDS.iter().filter(|kind| kind.beside.contains(&key)).map(|kind| kind.name).collect();
    (!owners.is_empty())
        .then(|| format!("belongs to the kind {}, not to \"{}\"", owners.join(" or "), chosen.keys.name))
}
