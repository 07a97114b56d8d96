//! F030 and F031: what expressions read exists, and has run.

use super::expressions::{place, replace};
use super::order::{Order, order};
use super::{Code, Edit, Fix};
use crate::expression::nearest;
use crate::lower::outline::{Part, Role, Section, Syntax, Use};
use crate::lower::reference::Reference;
use crate::lower::{Dialect, Lowering};

/// The fields of `run`.
const RUN: [&str; 6] = ["id", "flow", "version", "actor", "started_at", "attempt"];

/// The fields of `error`.
const ERROR: [&str; 3] = ["class", "message", "step"];

/// Names of CEL that are no roots.
const TYPES: [&str; 20] = [
    "int",
    "uint",
    "double",
    "bool",
    "string",
    "bytes",
    "list",
    "map",
    "null_type",
    "type",
    "timestamp",
    "duration",
    "optional",
    "google",
    "math",
    "strings",
    "base64",
    "cel",
    "lists",
    "sets",
];

pub(super) fn check(lowering: &mut Lowering<'_>) {
    for index in 0..lowering.outline.uses.len() {
        let it = lowering.outline.uses[index].clone();
        let references = lowering.scans.get(index).map(|scan| scan.references.clone()).unwrap_or_default();
        let mut told = 0;
        for reference in references {
            // A name with a hyphen that CEL takes for a subtraction is told once.
            if reference.range.start >= told {
                told = one(lowering, &it, &reference);
            }
        }
    }
}

/// The usual name of a root, for a synonym.
fn usual(reference: &Reference) -> &str {
    match reference.root.as_str() {
        "workflow_input" | "inputs" => "input",
        "step" if !reference.segments.is_empty() => "steps",
        "loop_item" => "item",
        "loop" | "iter" => reference.name(0).filter(|name| ["item", "index"].contains(name)).unwrap_or("loop"),
        root => root,
    }
}

/// Checks a reference. Returns the byte of the expression up to which its fault reaches.
fn one(lowering: &mut Lowering<'_>, it: &Use, reference: &Reference) -> usize {
    match usual(reference) {
        "steps" => return step(lowering, it, reference),
        "vars" => names(lowering, it, reference, "vars"),
        "run" => names(lowering, it, reference, "run"),
        "error" if has_error(lowering, it) => names(lowering, it, reference, "error"),
        "loops" => {
            let loops = loops_around(lowering, it);
            named(lowering, it, reference, 0, &loops, "no loop around this step has the id");
        }
        root => {
            let known = roots(lowering, it);
            let is_opcode = lowering.dialect == Dialect::Opcode && ["workflow", "context"].contains(&root);
            if known.contains(&root) || is_opcode || (reference.segments.is_empty() && TYPES.contains(&root)) {
                return 0;
            }
            if TYPES.contains(&root) && reference.is_call {
                return 0;
            }
            unknown_root(lowering, it, reference, root, &known);
        }
    }
    0
}

/// The roots that an expression sees.
fn roots(lowering: &Lowering<'_>, it: &Use) -> Vec<&'static str> {
    if it.role == Role::Trigger {
        return vec!["body", "event", "headers", "secrets", "run"];
    }
    let mut roots = vec!["input", "steps", "vars", "run", "loops", "secrets"];
    if it.role == Role::Match {
        roots.push("event");
    }
    if it.role.sees_result() {
        roots.push("result");
    }
    if it.key.starts_with("recipe.") {
        roots.push("args");
    }
    if has_error(lowering, it) {
        roots.push("error");
    }
    if !loops_around(lowering, it).is_empty() {
        roots.extend(["item", "index"]);
    }
    // The condition of a loop is asked once per turn.
    let is_turn = it.role == Role::While || (it.key == "loop.until");
    if is_turn {
        roots.push("index");
    }
    roots
}

fn loops_around(lowering: &Lowering<'_>, it: &Use) -> Vec<String> {
    let Some(step) = it.step else { return Vec::new() };
    let outline = &lowering.outline;
    let chain = outline.chain(step);
    let parents = chain.iter().filter_map(|step| outline.blocks[outline.steps[*step].block].parent.as_ref());
    parents.filter(|(_, part)| *part == Part::Body).map(|(step, _)| outline.steps[*step].id.clone()).collect()
}

/// Whether an expression may see an error: in a fallback, in the flow's `on_error`, or in a graph
/// where an error leads to a step.
fn has_error(lowering: &Lowering<'_>, it: &Use) -> bool {
    if it.section == Section::OnError {
        return true;
    }
    let Some(step) = it.step else { return false };
    let outline = &lowering.outline;
    outline.chain(step).iter().any(|step| {
        let block = &outline.blocks[outline.steps[*step].block];
        let in_fallback = matches!(&block.parent, Some((_, Part::Instead("on_error"))));
        in_fallback || block.steps.iter().any(|step| outline.steps[*step].goto.is_some())
    })
}

fn shown(it: &Use, reference: &Reference) -> String {
    let text = it.original.get(reference.range.clone()).unwrap_or(&it.original);
    match it.syntax {
        Syntax::Jq => format!(".{text}"),
        Syntax::Cel if it.is_bare => text.to_owned(),
        Syntax::Cel => format!("{{{{{text}}}}}"),
    }
}

fn unknown_root(lowering: &mut Lowering<'_>, it: &Use, reference: &Reference, root: &str, known: &[&str]) {
    let range = reference.root_range.clone();
    let path = lowering.pointer(it.span);
    let byte = place(lowering, it, range.start);
    let text = shown(it, reference);
    let in_loop = ["item", "index", "loop", "iter"].contains(&root);
    let fields = lowering.root.get("input").and_then(|input| input.get("properties"));
    let has_field = fields.and_then(|fields| fields.get(root)).is_some();
    let (message, to) = if in_loop {
        (format!("{text}: \"{root}\" is there inside of a loop only"), None)
    } else if ["result", "error", "event"].contains(&root) {
        (format!("{text}: \"{root}\" is not there in {}", it.key), None)
    } else if lowering.outline.find(root).is_some() {
        (format!("{text}: results of steps are read as steps.{root}"), Some(format!("steps.{root}")))
    } else if has_field {
        (format!("{text}: fields of the input are read as input.{root}"), Some(format!("input.{root}")))
    } else if let Some(near) = nearest(root, known.iter().copied()) {
        (format!("{text}: no root \"{root}\"; did you mean \"{near}\"?"), Some(near.to_owned()))
    } else if reference.is_whole && reference.segments.is_empty() && it.role.is_condition() {
        (format!("{text}: no root \"{root}\"; a text stands in quotes, as '{root}'"), None)
    } else {
        (format!("{text}: no root \"{root}\"; an expression reads {}", known.join(", ")), None)
    };
    let fix = to.map(|to| replace(lowering, it, range, &to, format!("write {to}")));
    lowering.error_at(Code::F030, byte, path, message).fix = fix;
}

fn names(lowering: &mut Lowering<'_>, it: &Use, reference: &Reference, root: &str) {
    let (known, complaint): (Vec<String>, _) = match root {
        "run" => (RUN.map(str::to_owned).to_vec(), "run has no"),
        "error" => (ERROR.map(str::to_owned).to_vec(), "an error has no"),
        _ if lowering.dialect != Dialect::Native => return,
        _ => (lowering.outline.variables.clone(), "no step sets"),
    };
    named(lowering, it, reference, 0, &known, complaint);
}

/// Reports a name that is not one of the known ones.
fn named(lowering: &mut Lowering<'_>, it: &Use, reference: &Reference, at: usize, known: &[String], complaint: &str) {
    let Some(segment) = reference.segments.get(at) else { return };
    let Some(name) = segment.name.as_deref().filter(|name| !known.iter().any(|it| it == name)) else { return };
    let path = lowering.pointer(it.span);
    let byte = place(lowering, it, segment.range.start);
    let message = format!("{}: {complaint} \"{name}\"", shown(it, reference));
    let near = nearest(name, known.iter().map(String::as_str)).map(str::to_owned);
    match near {
        Some(near) => {
            let fix = replace(lowering, it, segment.range.clone(), &near, format!("write \"{near}\""));
            let message = format!("{message}; did you mean \"{near}\"?");
            lowering.error_at(Code::F030, byte, path, message).fix(fix);
        }
        None => {
            let list = known.iter().take(20).map(String::as_str).collect::<Vec<_>>().join(", ");
            let help = if known.is_empty() { String::new() } else { format!("known: {list}") };
            lowering.error_at(Code::F030, byte, path, message).help(help);
        }
    }
}

fn step(lowering: &mut Lowering<'_>, it: &Use, reference: &Reference) -> usize {
    let Some(segment) = reference.segments.first() else { return 0 };
    let Some(name) = segment.name.clone() else { return 0 };
    let Some(read) = lowering.outline.find(&name) else {
        return unknown_step(lowering, it, reference, &name);
    };
    let found = order(&lowering.outline, it.step, it.role, read);
    let reader = it.step.map(|step| lowering.outline.steps[step].id.clone());
    let subject = reader.as_ref().map_or_else(|| "the output".to_owned(), |id| format!("step \"{id}\""));
    let path = lowering.pointer(it.span);
    let byte = place(lowering, it, segment.range.start);
    match found {
        Order::Before => {}
        Order::Not(_) | Order::NotNeeded | Order::Perhaps(_) if reference.is_guarded => {}
        Order::Perhaps(why) => {
            // The whole result of a step that was skipped is null, which is a value.
            if reference.segments.len() < 2 && why.starts_with("may be skipped") {
                return 0;
            }
            let text = &reference.range;
            let default = format!("{} ?? null", it.original.get(text.clone()).unwrap_or_default());
            let fix = (reference.is_whole && !it.is_bare)
                .then(|| replace(lowering, it, text.clone(), &default, "give a default".to_owned()));
            let message = format!("{subject} reads steps.{name}, which {why}");
            let finding = lowering.error_at(Code::F031, byte, path, message).warning();
            finding.help("a default is written as {{steps.a.b ?? 'none'}}").fix = fix;
        }
        Order::Not(why) => {
            let fix = move_before(lowering, it, read, &why);
            let message = format!("{subject} reads steps.{name}, which {why}");
            lowering.error_at(Code::F031, byte, path, message).fix = fix;
        }
        Order::NotNeeded => {
            let fix = add_need(lowering, it, read);
            let message = format!("{subject} reads steps.{name}, which it does not need; add needs: [{name}]");
            lowering.error_at(Code::F031, byte, path, message).fix = fix;
        }
    }
    0
}

fn unknown_step(lowering: &mut Lowering<'_>, it: &Use, reference: &Reference, name: &str) -> usize {
    let Some(segment) = reference.segments.first() else { return 0 };
    let path = lowering.pointer(it.span);
    let byte = place(lowering, it, segment.range.start);
    let text = shown(it, reference);
    // In CEL a hyphen subtracts: steps.a-b.c is steps.a minus b.c.
    let rest = it.original.get(segment.range.start..).unwrap_or_default();
    let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-')).unwrap_or(rest.len());
    let long = &rest[..end];
    let with_hyphen = long.len() > name.len() && lowering.outline.find(long).is_some();
    if it.syntax == Syntax::Cel && with_hyphen {
        let range = segment.range.start - 1..segment.range.start + end;
        let fix = replace(lowering, it, range, &format!("['{long}']"), format!("write steps['{long}']"));
        let message = format!("{text}: no step \"{name}\"; a hyphen subtracts here, so write steps['{long}']");
        lowering.error_at(Code::F030, byte, path, message).fix(fix);
        return segment.range.start + end;
    }
    let ids: Vec<String> = lowering.outline.steps.iter().map(|step| step.id.clone()).collect();
    let near = nearest(name, ids.iter().map(String::as_str));
    match near {
        Some(near) => {
            let fix = replace(lowering, it, segment.range.clone(), near, format!("write \"{near}\""));
            let message = format!("{text}: no step \"{name}\"; did you mean \"{near}\"?");
            lowering.error_at(Code::F030, byte, path, message).fix(fix);
        }
        None => {
            let shown: Vec<&str> = ids.iter().map(String::as_str).take(20).collect();
            let help = format!("the steps: {}", shown.join(", "));
            lowering.error_at(Code::F030, byte, path, format!("{text}: no step \"{name}\"")).help(help);
        }
    }
    0
}

/// Moves a step before its reader, if both stand in one list.
fn move_before(lowering: &Lowering<'_>, it: &Use, read: usize, why: &str) -> Option<Fix> {
    let outline = &lowering.outline;
    let reader = it.step?;
    let (a, b) = (&outline.steps[reader], &outline.steps[read]);
    let is_list = outline.blocks[a.block].shape == crate::lower::outline::Shape::Do;
    if why != "runs after it" || a.block != b.block || !is_list {
        return None;
    }
    let (from, path) = (lowering.pointer(b.span), lowering.pointer(a.span));
    Some(Fix::new(format!("move \"{}\" before \"{}\"", b.id, a.id), Edit::Move { from, path }))
}

fn add_need(lowering: &Lowering<'_>, it: &Use, read: usize) -> Option<Fix> {
    let outline = &lowering.outline;
    let chain = outline.chain(it.step?);
    let read_chain = outline.chain(read);
    let level = chain.iter().zip(&read_chain).position(|(a, b)| a != b)?;
    let (a, b) = (&outline.steps[chain[level]], &outline.steps[read_chain[level]]);
    let pointer = lowering.pointer(a.span);
    let title = format!("let \"{}\" need \"{}\"", a.id, b.id);
    let mut needs: Vec<String> = a.needs.iter().map(|need| need.id.clone()).collect();
    needs.push(b.id.clone());
    Some(Fix::new(title, Edit::Add { path: format!("{pointer}/needs"), value: needs.into() }))
}
