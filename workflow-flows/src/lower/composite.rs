//! The kinds of steps that hold other steps.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::attempts::read_duration;
use super::block;
use super::context::Lowering;
use super::fields::Fields;
use super::keys;
use super::outline::{Part, Role};
use super::step::Chosen;
use crate::check::{Code, Edit, Fix};
use crate::document::{Data, Node};
use crate::expression::{ResultKind, Template, nearest};
use crate::graph::{AtMax, Kind, Loop, OnItemError, Parallel, ParallelMode, Switch, Until};

pub(crate) fn lower(lowering: &mut Lowering<'_>, chosen: &Chosen<'_>, fields: &mut Fields<'_>) -> Option<Kind> {
    match chosen.keys.name {
        "if" => condition(lowering, chosen.node, fields),
        "loop" => repeat(lowering, chosen.node, fields),
        "parallel" => parallel(lowering, chosen.node, fields),
        "switch" => switch(lowering, chosen.node, fields),
        _ => None,
    }
}

fn condition(lowering: &mut Lowering<'_>, node: &Node, fields: &mut Fields<'_>) -> Option<Kind> {
    let index = lowering.step?;
    let condition = lowering.condition(node, "if", Role::When);
    let choice = |name: &str| Some((index, Part::Choice(name.to_owned())));
    let then = fields.require(lowering, "then", "[ .. ]");
    let then = then.and_then(|node| block::lower(lowering, node, "then", choice("then")));
    let otherwise = fields.take("else").and_then(|node| block::lower(lowering, node, "else", choice("else")));
    Some(Kind::If { condition: condition?, then: then?, otherwise })
}

fn switch(lowering: &mut Lowering<'_>, node: &Node, fields: &mut Fields<'_>) -> Option<Kind> {
    let index = lowering.step?;
    let value = lowering.template(node, "switch", Role::Plain);
    let mut cases = BTreeMap::new();
    if let Some(node) = fields.require(lowering, "cases", "{ yes: [ .. ] }") {
        for (name, block) in named_blocks(lowering, node, "cases", |name| Part::Choice(name.to_owned())) {
            cases.insert(name, block);
        }
    }
    let default = fields.take("default");
    let part = Part::Choice("default".to_owned());
    let default = default.and_then(|node| block::lower(lowering, node, "default", Some((index, part))));
    Some(Kind::Switch(Switch { value, cases, default, tells: false }))
}

fn named_blocks(
    lowering: &mut Lowering<'_>,
    node: &Node,
    what: &str,
    part: fn(&str) -> Part,
) -> Vec<(String, crate::graph::Block)> {
    let Some((entries, index)) = node.entries().zip(lowering.step) else {
        lowering.wrong(node, what, "a map from names to blocks");
        return Vec::new();
    };
    if entries.is_empty() {
        lowering.error(Code::F013, node.span, format!("{what} is empty"));
    }
    let limit = lowering.options.limits.branches;
    if entries.len() > limit {
        let message = format!("{what} has {} branches; {limit} is the limit", entries.len());
        lowering.error(Code::F050, node.span, message);
    }
    let mut blocks = Vec::new();
    for entry in entries.iter().take(limit) {
        let what = format!("{what}.{}", entry.key);
        if let Some(block) = block::lower(lowering, &entry.value, &what, Some((index, part(&entry.key)))) {
            blocks.push((entry.key.clone(), block));
        }
    }
    blocks
}

fn parallel(lowering: &mut Lowering<'_>, node: &Node, fields: &mut Fields<'_>) -> Option<Kind> {
    if let Data::List(_) = node.data {
        lowering.wrong(node, "parallel", "a map from names to blocks").help("a list of ids stands in a graph");
        return None;
    }
    let branches = named_blocks(lowering, node, "parallel", |name| Part::Branch(name.to_owned()));
    for (name, _) in branches.iter().filter(|(name, _)| !super::step::is_id(name)) {
        let span = node.entries().and_then(|entries| entries.iter().find(|entry| entry.key == *name));
        let span = span.map_or(node.span, |entry| entry.key_span);
        let (from, repaired) = (lowering.pointer(span), super::step::repaired_id(name));
        let parent = from.rsplit_once('/').map_or("", |(parent, _)| parent);
        let fix = Edit::Move { path: format!("{parent}/{repaired}"), from };
        let message = format!("\"{name}\" names no branch; branches are named as steps are");
        lowering.error(Code::F013, span, message).fix(Fix::new(format!("rename it to \"{repaired}\""), fix));
    }
    let modes = [("all", ParallelMode::All), ("settle", ParallelMode::Settle), ("race", ParallelMode::Race)];
    let mode = fields.take("mode").and_then(|node| lowering.choice(node, "mode", &modes)).unwrap_or_default();
    let concurrency = fields.take("concurrency");
    let concurrency = concurrency.and_then(|node| lowering.number(node, "concurrency", 1, 10_000, ""));
    let concurrency = concurrency.and_then(|number| usize::try_from(number).ok());
    Some(Kind::Parallel(Parallel { branches, mode, concurrency }))
}

fn repeat(lowering: &mut Lowering<'_>, node: &Node, fields: &mut Fields<'_>) -> Option<Kind> {
    let index = lowering.step?;
    let owner = fields.owner.clone();
    let mut inner = Fields::read(lowering, node, format!("loop of {owner}"))?;
    let given: Vec<&str> = ["for", "while", "until"].into_iter().filter(|key| inner.peek(key).is_some()).collect();
    let until = match given.as_slice() {
        [key] => {
            let node = inner.take(key)?;
            read_until(lowering, key, node)
        }
        [] => {
            let message = format!("loop of {owner} has none of for, while and until");
            lowering.error(Code::F013, node.span, message).help("as loop: { for: \"{{input.items}}\" }");
            None
        }
        [first, second, ..] => {
            let span = inner.peek(second).map_or(node.span, |entry| entry.key_span);
            let fix = Fix::new(format!("remove \"{second}\""), Edit::Remove { path: lowering.pointer(span) });
            let message = format!("loop of {owner} has \"{first}\" and \"{second}\"; it has one");
            lowering.error(Code::F013, span, message).fix(fix);
            for key in &given[1..] {
                inner.take(key);
            }
            let node = inner.take(first)?;
            read_until(lowering, first, node)
        }
    };
    let is_turning = matches!(until, Some(Until::While(_) | Until::Until(_)));
    lowering.outline.steps[index].is_turning = is_turning;
    let max = read_max(lowering, &mut inner, node, is_turning);
    refuse_items(lowering, inner.peek("for").map_or(node, |entry| &entry.value), until.as_ref(), max);
    let every = inner.take("every").and_then(|node| read_duration(lowering, node, "loop.every"));
    let concurrency = inner.take("concurrency").and_then(|node| {
        if is_turning {
            let fix = Fix::new("remove \"concurrency\"", Edit::Remove { path: lowering.pointer(node.span) });
            let message = "concurrency has an effect on loops with for; this one takes turns";
            lowering.error(Code::F010, node.span, message).fix(fix);
            return None;
        }
        lowering.number(node, "loop.concurrency", 1, 10_000, "")
    });
    let modes = [("fail", OnItemError::Fail), ("collect", OnItemError::Collect), ("ignore", OnItemError::Ignore)];
    let on_item_error = inner.take("on_item_error");
    let on_item_error = on_item_error.and_then(|node| lowering.choice(node, "loop.on_item_error", &modes));
    inner.finish(lowering, keys::LOOP);
    let body = block::of_fields(lowering, fields, Some((index, Part::Body)), &owner);
    Some(Kind::Loop(Loop {
        until: until?,
        max,
        at_max: AtMax::Fail,
        every: every.filter(|every| *every > Duration::ZERO),
        concurrency: concurrency.and_then(|number| usize::try_from(number).ok()).unwrap_or(1),
        on_item_error: on_item_error.unwrap_or_default(),
        collects: false,
        body: body?,
    }))
}

fn read_until(lowering: &mut Lowering<'_>, key: &str, node: &Node) -> Option<Until> {
    match key {
        "while" => lowering.condition(node, "loop.while", Role::While).map(Until::While),
        "until" => lowering.condition(node, "loop.until", Role::AfterCondition).map(Until::Until),
        _ => match &node.data {
            Data::Map(_) => {
                let mut fields = Fields::read(lowering, node, "loop.for")?;
                let program = fields.require(lowering, "jq", "\".input.items[]\"");
                let program = program.and_then(|node| lowering.jq(node, "loop.for"));
                fields.finish(lowering, &["jq"]);
                program.map(Until::Jq)
            }
            Data::List(_) => Some(Until::For(lowering.template(node, "loop.for", Role::Plain))),
            Data::Text(text) if text.contains("{{") => {
                let template = lowering.template(node, "loop.for", Role::Plain);
                refuse_no_list(lowering, node, &template);
                Some(Until::For(template))
            }
            Data::Text(text) => {
                let message = format!("loop.for is the text \"{text}\"; it has to be a list or a template");
                lowering.replace(node, message, format!("{{{{{}}}}}", text.trim()));
                None
            }
            _ => {
                lowering.wrong(node, "loop.for", "a list, a template or { jq: .. }");
                None
            }
        },
    }
}

/// Reports a template that never gives a list: it has text around its expressions, or its one
/// expression gives a value of another kind.
fn refuse_no_list(lowering: &mut Lowering<'_>, node: &Node, template: &Value) {
    // A template that does not parse is reported with the other expressions.
    let Some(Ok(template)) = template.as_str().map(Template::parse) else { return };
    let kind = match template.expressions().next() {
        Some(expression) if template.is_whole() => expression.kind(),
        _ => Some(ResultKind::Text),
    };
    if let Some(kind) = kind.filter(|kind| !matches!(kind, ResultKind::List | ResultKind::Sum)) {
        let message = format!("loop.for is {}; it has to be a list", kind.name());
        lowering.error(Code::F013, node.span, message).help("one template alone, as \"{{input.items}}\"");
    }
}

/// Reports a fixed list with more items than the loop takes.
fn refuse_items(lowering: &mut Lowering<'_>, node: &Node, until: Option<&Until>, max: u32) {
    let Some(Until::For(Value::Array(items))) = until else { return };
    if items.len() > max as usize {
        let message = format!("loop.for has {} items; {max} is the loop's max", items.len());
        lowering.error(Code::F050, node.span, message).help("take fewer, or allow more with max");
    }
}

fn read_max(lowering: &mut Lowering<'_>, inner: &mut Fields<'_>, node: &Node, is_turning: bool) -> u32 {
    let limit = lowering.options.limits.items;
    let most = u32::try_from(limit).unwrap_or(u32::MAX);
    let Some(max) = inner.take("max") else {
        if is_turning && !inner.rest().any(|entry| nearest(&entry.key, ["max"]).is_some()) {
            let path = format!("{}/max", lowering.pointer(node.span));
            let fix = Fix::new("add max: 100", Edit::Add { path, value: 100.into() });
            let message = format!("{} has no \"max\"; a loop with a condition needs a bound", inner.owner);
            lowering.error(Code::F013, node.span, message).fix(fix);
        }
        return most;
    };
    let number = lowering.number(max, "loop.max", 1, u64::from(u32::MAX), "");
    let Some(number) = number.and_then(|number| u32::try_from(number).ok()) else { return most };
    if number > most {
        let path = lowering.pointer(max.span);
        let fix = Fix::new(format!("write {most}"), Edit::Replace { path, value: most.into() });
        lowering.error(Code::F050, max.span, format!("loop.max is {number}; {most} is the limit")).fix(fix);
        return most;
    }
    number
}
