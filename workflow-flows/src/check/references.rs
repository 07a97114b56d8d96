//! F030 and F031: what expressions read exists, and has run.

use super::expressions::{each, is_of_trigger, place, rename, replace, shown};
use super::order::{Order, order};
use super::{Code, Edit, Fix};
use crate::expression::nearest;
use crate::lower::outline::{Part, Role, Section, Syntax, Use};
use crate::lower::reference::{Read, is_name};
use crate::lower::{Dialect, Lowering};

/// The fields of `run`.
const RUN: [&str; 6] = ["id", "flow", "version", "actor", "started_at", "attempt"];

/// The fields of `error`.
const ERROR: [&str; 3] = ["class", "message", "step"];

pub(super) fn check(lowering: &mut Lowering<'_>) {
    each(lowering, |lowering, it| {
        let mut told = 0;
        for read in &it.reads {
            // A name with a hyphen that CEL takes for a subtraction is reported once.
            if read.range.start >= told {
                told = one(lowering, it, read);
            }
        }
    });
}

/// Checks a path. Returns the byte of the expression up to which its fault reaches.
fn one(lowering: &mut Lowering<'_>, it: &Use, read: &Read) -> usize {
    match read.path.root() {
        // A secret in a wrong place is F035.
        "secrets" => {}
        root if is_of_trigger(it) => {
            let known = root_of_trigger(it);
            if root != known {
                foreign_root(lowering, it, read, known);
            }
        }
        "steps" => return step(lowering, it, read),
        "vars" => names(lowering, it, read, "vars"),
        "run" => names(lowering, it, read, "run"),
        "error" if has_error(lowering, it) => names(lowering, it, read, "error"),
        "result" if it.role == Role::Undo && !read.is_guarded => names(lowering, it, read, "result"),
        "loops" => {
            let loops = loops_around(lowering, it);
            named(lowering, it, read, &loops, "no loop around this step has the id");
        }
        root => {
            let known = roots(lowering, it);
            let is_opcode = lowering.dialect == Dialect::Opcode && ["workflow", "context"].contains(&root);
            if !known.contains(&root) && !is_opcode {
                unknown_root(lowering, it, read, &known);
            }
        }
    }
    0
}

/// The roots that an expression sees.
fn roots(lowering: &Lowering<'_>, it: &Use) -> Vec<&'static str> {
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

/// The one root that an expression of a trigger sees: no run has begun.
fn root_of_trigger(it: &Use) -> &'static str {
    match it.key.as_str() {
        "webhook.secret" => "secrets",
        "webhook.key" => "body",
        _ => "event",
    }
}

/// Reports a root that is not there before a run begins. The request or the event becomes its
/// input.
fn foreign_root(lowering: &mut Lowering<'_>, it: &Use, read: &Read, known: &str) {
    if lowering.leaves_out() {
        return;
    }
    let root = read.path.root();
    let range = read.root.clone();
    let path = lowering.pointer(it.span);
    let byte = place(lowering, it, range.start);
    let fields = lowering.root.get("input").and_then(|input| input.get("properties"));
    let has_field = fields.and_then(|fields| fields.get(root)).is_some();
    let to = match root {
        _ if known == "secrets" => None,
        "input" | "body" | "event" => Some(known.to_owned()),
        _ if has_field => Some(format!("{known}.{root}")),
        _ => nearest(root, [known]).map(str::to_owned),
    };
    let message = format!("{}: \"{root}\" is not there in {}, which reads {known}", shown(it, read), it.key);
    let fix = to.map(|to| replace(lowering, it, range, &to, format!("write {to}")));
    let finding = lowering.error_at(Code::F030, byte, path, message);
    finding.help("it is evaluated before a run begins").fix = fix;
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

fn unknown_root(lowering: &mut Lowering<'_>, it: &Use, read: &Read, known: &[&str]) {
    if lowering.leaves_out() {
        return;
    }
    let root = read.path.root();
    let range = read.root.clone();
    let path = lowering.pointer(it.span);
    let byte = place(lowering, it, range.start);
    let text = shown(it, read);
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
    } else if range == (0..it.original.len()) && it.role.is_condition() {
        (format!("{text}: no root \"{root}\"; a text stands in quotes, as '{root}'"), None)
    } else {
        (format!("{text}: no root \"{root}\"; an expression reads {}", known.join(", ")), None)
    };
    let fix = to.map(|to| replace(lowering, it, range, &to, format!("write {to}")));
    lowering.error_at(Code::F030, byte, path, message).fix = fix;
}

fn names(lowering: &mut Lowering<'_>, it: &Use, read: &Read, root: &str) {
    let (known, complaint): (Vec<String>, _) = match root {
        "run" => (RUN.map(str::to_owned).to_vec(), "run has no"),
        "error" => (ERROR.map(str::to_owned).to_vec(), "an error has no"),
        "result" => match it.step.and_then(|step| lowering.outline.steps[step].output.clone()) {
            Some(members) => (members, "the output of the step has no"),
            None => return,
        },
        _ if lowering.dialect != Dialect::Native => return,
        _ => (lowering.outline.variables.clone(), "no step sets"),
    };
    named(lowering, it, read, &known, complaint);
}

/// Reports a name after the root that is not one of the known ones.
fn named(lowering: &mut Lowering<'_>, it: &Use, read: &Read, known: &[String], complaint: &str) {
    let Some(name) = read.name(0).filter(|name| !known.iter().any(|it| it == name)) else { return };
    if lowering.leaves_out() {
        return;
    }
    let path = lowering.pointer(it.span);
    let range = read.name_range(0);
    let byte = place(lowering, it, range.start);
    let message = format!("{}: {complaint} \"{name}\"", shown(it, read));
    match nearest(name, known.iter().map(String::as_str)) {
        Some(near) => {
            let fix = rename(lowering, it, range, near);
            let message = format!("{message}; did you mean \"{near}\"?");
            lowering.error_at(Code::F030, byte, path, message).fix = fix;
        }
        None => {
            let list = known.iter().take(20).map(String::as_str).collect::<Vec<_>>().join(", ");
            let help = if known.is_empty() { String::new() } else { format!("known: {list}") };
            lowering.error_at(Code::F030, byte, path, message).help(help);
        }
    }
}

fn step(lowering: &mut Lowering<'_>, it: &Use, read: &Read) -> usize {
    let Some(name) = read.name(0) else { return 0 };
    let Some(source) = lowering.outline.find(name) else {
        return unknown_step(lowering, it, read, name);
    };
    let found = order(&lowering.outline, it.step, it.role, source);
    // The whole result of a step that was skipped is null, which is a value.
    let may_be_null = |why: &str| read.path.segments().len() < 2 && why.starts_with("may be skipped");
    let is_right = match &found {
        Order::Before => true,
        Order::Perhaps(why) if may_be_null(why) => true,
        Order::Perhaps(_) | Order::Not(_) | Order::NotNeeded => read.is_guarded,
    };
    if is_right || lowering.leaves_out() {
        return 0;
    }
    let reader = it.step.map(|step| lowering.outline.steps[step].id.clone());
    let subject = reader.as_ref().map_or_else(|| "the output".to_owned(), |id| format!("step \"{id}\""));
    let path = lowering.pointer(it.span);
    let byte = place(lowering, it, read.name_range(0).start);
    match found {
        Order::Before => {}
        Order::Perhaps(why) => {
            let end = it.original.len();
            let is_whole = read.range == (0..end);
            let fix = (is_whole && !it.is_bare)
                .then(|| replace(lowering, it, end..end, " ?? null", "give a default".to_owned()));
            let message = format!("{subject} reads steps.{name}, which {why}");
            let finding = lowering.error_at(Code::F031, byte, path, message).warning();
            finding.help("a default is written as {{steps.a.b ?? 'none'}}").fix = fix;
        }
        Order::Not(why) => {
            let fix = move_before(lowering, it, source, &why);
            let message = format!("{subject} reads steps.{name}, which {why}");
            lowering.error_at(Code::F031, byte, path, message).fix = fix;
        }
        Order::NotNeeded => {
            let fix = add_need(lowering, it, source);
            let message = format!("{subject} reads steps.{name}, which it does not need; add needs: [{name}]");
            lowering.error_at(Code::F031, byte, path, message).fix = fix;
        }
    }
    0
}

fn unknown_step(lowering: &mut Lowering<'_>, it: &Use, read: &Read, name: &str) -> usize {
    if lowering.leaves_out() {
        return 0;
    }
    let path = lowering.pointer(it.span);
    let range = read.name_range(0);
    let byte = place(lowering, it, range.start);
    let text = shown(it, read);
    // In CEL a hyphen subtracts: steps.a-b.c is steps.a minus b.c.
    let rest = it.original.get(range.start..).unwrap_or_default();
    let long = &rest[..rest.find(|c: char| !is_name(c)).unwrap_or(rest.len())];
    let with_hyphen = long.len() > name.len() && lowering.outline.find(long).is_some();
    if it.syntax == Syntax::Cel && with_hyphen {
        let end = range.start + long.len();
        let fix = replace(lowering, it, read.root.end..end, &format!("['{long}']"), format!("write steps['{long}']"));
        let message = format!("{text}: no step \"{name}\"; a hyphen subtracts here, so write steps['{long}']");
        lowering.error_at(Code::F030, byte, path, message).fix(fix);
        return end;
    }
    let ids: Vec<String> = lowering.outline.steps.iter().map(|step| step.id.clone()).collect();
    match nearest(name, ids.iter().map(String::as_str)) {
        Some(near) => {
            let fix = rename(lowering, it, range, near);
            let message = format!("{text}: no step \"{name}\"; did you mean \"{near}\"?");
            lowering.error_at(Code::F030, byte, path, message).fix = fix;
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
