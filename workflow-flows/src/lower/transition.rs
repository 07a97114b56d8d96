//! Where a step of a graph goes.

use super::context::Lowering;
use super::fields::Fields;
use super::keys;
use super::outline::{Named, Role, Transition};
use crate::check::{Code, Edit, Fix};
use crate::document::{Data, Node};
use crate::graph::Next;

/// Reads `next`, `branch`, `parallel`, `join` or `done`. `Some(None)`: the step names one that is
/// not usable. `None`: the step names none, so the graph ends there.
#[allow(clippy::option_option)]
pub(crate) fn lower(lowering: &mut Lowering<'_>, fields: &mut Fields<'_>, step: usize) -> Option<Option<Next>> {
    if let Some(node) = fields.take("max_visits") {
        let visits =
            lowering.number(node, "max_visits", 1, 1_000_000, "").and_then(|number| u32::try_from(number).ok());
        lowering.outline.steps[step].max_visits = visits.or(Some(1));
    }
    let is_list = |key: &str| fields.peek(key).is_some_and(|entry| matches!(entry.value.data, Data::List(_)));
    let has_parallel = is_list("parallel");
    let given: Vec<&str> = ["next", "branch", "parallel", "join", "done"]
        .into_iter()
        .filter(|key| if *key == "parallel" { has_parallel } else { fields.peek(key).is_some() })
        .collect();
    if let [first, second, ..] = given.as_slice() {
        let span = fields.peek(second).map_or(fields.span, |entry| entry.key_span);
        let fix = Fix::new(format!("remove \"{second}\""), Edit::Remove { path: lowering.pointer(span) });
        let message = format!("{} has \"{first}\" and \"{second}\"; a step goes one way", fields.owner);
        lowering.error(Code::F013, span, message).fix(fix);
        for key in &given[1..] {
            fields.take(key);
        }
    }
    let Some(key) = given.first() else {
        lowering.outline.steps[step].transition = Some(Transition::Done);
        return None;
    };
    let node = fields.take(key)?;
    Some(match *key {
        "next" => target(lowering, node, "next").map(|to| {
            lowering.outline.steps[step].transition = Some(Transition::Goto(vec![to.clone()]));
            Next::Goto(to.id)
        }),
        "branch" => branch(lowering, fields, node, step),
        "parallel" => {
            let ids: Vec<Named> =
                lowering.nodes(node).into_iter().filter_map(|node| target(lowering, node, "parallel")).collect();
            if ids.len() > lowering.options.limits.branches {
                let limit = lowering.options.limits.branches;
                let message = format!("parallel has {} branches; {limit} is the limit", ids.len());
                lowering.error(Code::F050, node.span, message);
            }
            let branches = ids.iter().map(|to| to.id.clone()).collect();
            lowering.outline.steps[step].transition = Some(Transition::Parallel(ids));
            Some(Next::Parallel { branches, join: None })
        }
        "join" => target(lowering, node, "join").map(|to| {
            lowering.outline.steps[step].transition = Some(Transition::Join(to));
            Next::Join
        }),
        _ => {
            lowering.outline.steps[step].transition = Some(Transition::Done);
            if lowering.flag(node, "done") == Some(false) {
                lowering.replace(node, "done is false; leave it out, or write true".to_owned(), true);
            }
            Some(Next::Done)
        }
    })
}

fn target(lowering: &mut Lowering<'_>, node: &Node, what: &str) -> Option<Named> {
    lowering.text(node, what).map(|id| Named { id, span: node.span })
}

fn branch(lowering: &mut Lowering<'_>, fields: &mut Fields<'_>, node: &Node, step: usize) -> Option<Next> {
    let mut to = Vec::new();
    let mut cases = Vec::new();
    for case in lowering.nodes(node) {
        let Some(mut case) = Fields::read(lowering, case, format!("a branch of {}", fields.owner)) else { continue };
        let condition = case.require(lowering, "if", "result == true");
        let condition = condition.and_then(|node| lowering.condition(node, "branch", Role::AfterCondition));
        let then = case.require(lowering, "then", "the id of a step");
        let then = then.and_then(|node| target(lowering, node, "then"));
        case.finish(lowering, keys::BRANCH);
        if let (Some(condition), Some(then)) = (condition, then) {
            cases.push((condition, then.id.clone()));
            to.push(then);
        }
    }
    let is_target = fields.peek("else").is_some_and(|entry| entry.value.text().is_some());
    let otherwise = if is_target { fields.take("else").and_then(|node| target(lowering, node, "else")) } else { None };
    to.extend(otherwise.clone());
    lowering.outline.steps[step].transition = Some(Transition::Goto(to));
    Some(Next::Branch { cases, otherwise: otherwise.map(|named| named.id) })
}
