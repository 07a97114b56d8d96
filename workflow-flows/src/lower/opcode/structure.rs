//! The types of steps: actions, and those that hold others or wait.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Fallbacks, action, step};
use crate::check::Code;
use crate::document::{Data, Node};
use crate::graph::{
    AtMax, Block, Decision, Kind, Loop, OnItemError, Parallel, ParallelMode, Step, Switch, Until, Wait,
};
use crate::lower::attempts::read_duration;
use crate::lower::block;
use crate::lower::context::Lowering;
use crate::lower::fields::Fields;
use crate::lower::outline::{Part, Role, Shape};

const TYPES: [&str; 6] = ["action", "condition", "reasoning", "parallel", "loop", "wait"];

/// The name of a step with those around it, and the steps that may be its fallbacks.
struct Around<'a, 'n> {
    name: String,
    siblings: &'a Fallbacks<'n>,
}

/// Lowers the type of a step and sets what the engine gives as its output.
pub(super) fn lower(
    lowering: &mut Lowering<'_>,
    fields: &mut Fields<'_>,
    step: &mut Step,
    name: String,
    siblings: &Fallbacks<'_>,
) {
    let around = &Around { name, siblings };
    let names = TYPES.map(|name| (name, name));
    let kind = fields.take("type").map_or(Some("action"), |node| lowering.choice(node, "type", &names));
    let index = lowering.step.unwrap_or_default();
    lowering.outline.steps[index].kind = match kind {
        Some("condition") => "switch",
        Some("reasoning") => "decision",
        Some("parallel") => "parallel",
        Some("loop") => "loop",
        Some("wait") => "wait",
        _ => "tool",
    };
    if kind == Some("action") {
        fields.take("config");
        step.kind = action::lower(lowering, fields, step).unwrap_or(Kind::Nothing);
        return;
    }
    fields.take("action");
    fields.take("params");
    let Some(config) = fields.require(lowering, "config", "{ .. }").filter(|_| kind.is_some()) else { return };
    let owner = format!("config of {}", fields.owner);
    let Some(mut config) = Fields::read(lowering, config, owner) else { return };
    let lowered = match kind {
        Some("condition") => condition(lowering, &mut config, step, around),
        Some("loop") => repeat(lowering, &mut config, step, around),
        Some("parallel") => parallel(lowering, &mut config, step, around),
        Some("wait") => wait(lowering, &mut config, step),
        _ => reasoning(lowering, &mut config, step),
    };
    step.kind = lowered.unwrap_or(Kind::Nothing);
}

/// Steps inside of another one run one after the other.
fn nested(lowering: &mut Lowering<'_>, node: &Node, part: Part, name: &str, siblings: &Fallbacks<'_>) -> Option<Block> {
    let index = lowering.step?;
    let Some(items) = node.items() else {
        lowering.wrong(node, "the steps of a branch", "a list");
        return None;
    };
    let block = block::begin(lowering, Shape::Do, Some((index, part)), node.span)?;
    lowering.nesting += 1;
    let steps = items.iter().filter_map(|item| step(lowering, item, block, Some(name), siblings)).collect();
    lowering.nesting -= 1;
    Some(Block::Do(steps))
}

fn condition(
    lowering: &mut Lowering<'_>,
    config: &mut Fields<'_>,
    step: &mut Step,
    around: &Around<'_, '_>,
) -> Option<Kind> {
    let name = &around.name;
    let expression = config.require(lowering, "expression", "\"inputs.env\"");
    let expression = expression.and_then(|node| lowering.condition(node, "expression", Role::Plain));
    let mut cases = BTreeMap::new();
    if let Some(node) = config.require(lowering, "branches", "{ \"true\": [ .. ] }") {
        let Some(entries) = node.entries() else {
            lowering.wrong(node, "branches", "a map from values to steps");
            return None;
        };
        for entry in entries {
            let inner = format!("{name}.{}", entry.key);
            let part = Part::Choice(entry.key.clone());
            if let Some(block) = nested(lowering, &entry.value, part, &inner, around.siblings) {
                cases.insert(entry.key.clone(), block);
            }
        }
    }
    let part = Part::Choice("default".to_owned());
    // An empty default is none.
    let is_empty = |node: &Node| node.data == Data::Null || node.items().is_some_and(<[Node]>::is_empty);
    let default = config.take("default").filter(|node| !is_empty(node));
    let inner = format!("{name}.default");
    let default = default.and_then(|node| nested(lowering, node, part, &inner, around.siblings));
    config.finish_in_place(lowering, &["expression", "branches", "default"]);
    let value = Value::String(format!("{{{{{}}}}}", expression?));
    // The switch gives `branch`, `output` and `skipped` itself. The template stays because earlier
    // releases recorded an output here, and a fork replays that record.
    step.output = Some(json!("{{result}}"));
    Some(Kind::Switch(Switch { value, cases, default, tells: true }))
}

fn repeat(
    lowering: &mut Lowering<'_>,
    config: &mut Fields<'_>,
    step: &mut Step,
    around: &Around<'_, '_>,
) -> Option<Kind> {
    let name = &around.name;
    let names = ["for_each", "while", "until", ""].map(|name| (name, name));
    let mode = config.take("mode").map_or(Some("for_each"), |node| lowering.choice(node, "mode", &names))?;
    let index = lowering.step?;
    lowering.outline.steps[index].is_turning = ["while", "until"].contains(&mode);
    let (over, condition) = (config.take("over"), config.take("condition"));
    let mut missing = |key: &str| {
        let message = format!("a loop of the mode \"{mode}\" has no \"{key}\"");
        lowering.error(Code::F013, config.span, message);
    };
    let until = match (mode, over, condition) {
        ("while", _, Some(node)) => lowering.condition(node, "condition", Role::While).map(Until::While),
        ("until", _, Some(node)) => lowering.condition(node, "condition", Role::AfterCondition).map(Until::Until),
        ("while" | "until", _, None) => {
            missing("condition");
            None
        }
        (_, Some(node), _) => over_items(lowering, node),
        (_, None, _) => {
            missing("over");
            None
        }
    };
    let most = u32::try_from(lowering.options.limits.items).unwrap_or(u32::MAX);
    let given = config.take("max_iter").and_then(|node| lowering.number(node, "max_iter", 0, u64::from(u32::MAX), ""));
    let given = given.and_then(|number| u32::try_from(number).ok()).filter(|number| *number > 0);
    let body = config.require(lowering, "body", "[ .. ]");
    let inner = format!("{name}.iter_{{index}}");
    let body = body.and_then(|node| nested(lowering, node, Part::Body, &inner, around.siblings));
    config.finish_in_place(lowering, &["mode", "over", "condition", "body", "max_iter"]);
    let collects = matches!(until, Some(Until::While(_) | Until::Until(_)));
    let results = if collects { "{{result}}" } else { "{{result.map(r, r.result)}}" };
    step.output = Some(json!({ "iterations": "{{size(result)}}", "results": results }));
    Some(Kind::Loop(Loop {
        until: until?,
        max: given.unwrap_or(most).min(most),
        at_max: if given.is_some_and(|given| given <= most) { AtMax::Stop } else { AtMax::Fail },
        every: None,
        concurrency: 1,
        on_item_error: OnItemError::Fail,
        collects,
        body: body?,
    }))
}

fn over_items(lowering: &mut Lowering<'_>, node: &Node) -> Option<Until> {
    let text = lowering.text(node, "over")?;
    let trimmed = text.trim();
    if trimmed.starts_with('.') || trimmed.starts_with("[.") || trimmed.contains(" | ") {
        // The program sees the input as `input` here.
        lowering.jq(node, "over");
        return Some(Until::Jq(trimmed.replace(".inputs", ".input")));
    }
    if trimmed.contains("${{") {
        return Some(Until::For(lowering.template(node, "over", Role::Plain)));
    }
    let expression = lowering.condition(node, "over", Role::Plain)?;
    Some(Until::For(Value::String(format!("{{{{{expression}}}}}"))))
}

fn parallel(
    lowering: &mut Lowering<'_>,
    config: &mut Fields<'_>,
    step: &mut Step,
    around: &Around<'_, '_>,
) -> Option<Kind> {
    let name = &around.name;
    let modes = [("all", ParallelMode::All), ("race", ParallelMode::First), ("", ParallelMode::All)];
    let mode = config.take("mode").and_then(|node| lowering.choice(node, "mode", &modes)).unwrap_or_default();
    let node = config.require(lowering, "branches", "[ [ .. ], [ .. ] ]");
    config.finish_in_place(lowering, &["branches", "mode"]);
    let node = node?;
    let Some(items) = node.items() else {
        lowering.wrong(node, "branches", "a list of lists of steps");
        return None;
    };
    let limit = lowering.options.limits.branches;
    if items.len() > limit {
        let message = format!("parallel has {} branches; {limit} is the limit", items.len());
        lowering.error(Code::F050, node.span, message);
        return None;
    }
    let mut branches = Vec::new();
    for (number, item) in items.iter().enumerate() {
        let branch = format!("branch_{number}");
        let inner = format!("{name}.{branch}");
        if let Some(block) = nested(lowering, item, Part::Branch(branch.clone()), &inner, around.siblings) {
            branches.push((branch, block));
        }
    }
    let names = 0..items.len();
    step.output = Some(match mode {
        ParallelMode::First => {
            let numbers: Vec<String> = names.map(|number| format!("'branch_{number}': {number}")).collect();
            let winner = format!("{{{{ {{{}}}[result.winner] }}}}", numbers.join(", "));
            json!({ "mode": "race", "winner": winner, "output": "{{result.result}}" })
        }
        _ => {
            let outputs: Vec<String> = names.map(|number| format!("{{{{result.branch_{number}}}}}")).collect();
            json!({ "mode": "all", "branches": outputs })
        }
    });
    Some(Kind::Parallel(Parallel { branches, mode, concurrency: None }))
}

fn wait(lowering: &mut Lowering<'_>, config: &mut Fields<'_>, step: &mut Step) -> Option<Kind> {
    let duration = config.take("duration").filter(|node| node.text() != Some(""));
    let signal = config.take("signal").filter(|node| node.text() != Some(""));
    config.finish_in_place(lowering, &["duration", "signal"]);
    match (duration, signal) {
        (Some(node), _) => {
            let duration = read_duration(lowering, node, "duration")?;
            step.output = Some(json!({ "waited": u64::try_from(duration.as_millis()).unwrap_or(u64::MAX) }));
            Some(Kind::Wait(Wait::For(duration)))
        }
        (None, Some(node)) => {
            let name = lowering.text(node, "signal")?;
            step.output = Some(json!({ "signal": name, "payload": "{{result}}" }));
            Some(Kind::Wait(Wait::Event { name, key: "{{run.id}}".to_owned(), matches: None }))
        }
        (None, None) => {
            lowering.error(Code::F013, config.span, "a wait has one of duration and signal");
            None
        }
    }
}

fn reasoning(lowering: &mut Lowering<'_>, config: &mut Fields<'_>, step: &mut Step) -> Option<Kind> {
    let prompt = config.take("prompt_context");
    let prompt = prompt.and_then(|node| lowering.template_text(node, "prompt_context", Role::Plain));
    let mut options = BTreeMap::new();
    if let Some(node) = config.take("options").filter(|node| node.data != Data::Null) {
        for node in lowering.nodes(node) {
            let Some(mut option) = Fields::read(lowering, node, "an option") else { continue };
            let id = option.require(lowering, "id", "\"approve\"").and_then(|node| lowering.text(node, "id"));
            let text = option.take("description").and_then(|node| lowering.text(node, "description"));
            option.finish(lowering, &["id", "description"]);
            options.extend(id.map(|id| (id, text.unwrap_or_default())));
        }
    }
    let mut show = serde_json::Map::new();
    let inject = config.take("data_inject").and_then(Node::entries).unwrap_or_default();
    for entry in inject {
        let is_path = entry.value.text().is_some_and(reads_a_root);
        let value = if is_path {
            let expression = lowering.condition(&entry.value, "data_inject", Role::Plain);
            // A path that leads nowhere is shown as it stands.
            let text = entry.value.text().unwrap_or_default().replace(['\'', '\\'], "");
            let value = expression
                .map(|expression| format!("{{{{{} ?? '{text}'}}}}", super::expression::without_output(&expression)));
            value.map_or(Value::Null, Value::String)
        } else {
            lowering.template(&entry.value, "data_inject", Role::Plain)
        };
        show.insert(entry.key.clone(), value);
    }
    let timeout = config.take("timeout").filter(|node| node.text() != Some(""));
    let timeout = timeout.and_then(|node| read_duration(lowering, node, "timeout"));
    step.timeout = timeout.or(step.timeout);
    let fallback = config.take("fallback").and_then(|node| lowering.text(node, "fallback"));
    let to = config.take("target_agent").and_then(|node| lowering.template_text(node, "target_agent", Role::Plain));
    let known = ["prompt_context", "options", "data_inject", "timeout", "fallback", "target_agent"];
    config.finish_in_place(lowering, &known);
    let (fallback, to) = (fallback.filter(|it| !it.is_empty()), to.filter(|it| !it.is_empty()));
    let show = if show.is_empty() { Value::Null } else { Value::Object(show) };
    Some(Kind::Decision(Decision { prompt: prompt.unwrap_or_default(), options, show, to, fallback }))
}

fn reads_a_root(text: &str) -> bool {
    let roots = ["steps.", "steps[", "inputs.", "workflow.", "context.", "loop.", "iter."];
    roots.iter().any(|root| text.starts_with(root)) && crate::expression::Path::parse(text).is_some()
}
