//! The kinds of steps that hold no other steps.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};
use workflow_sdk::{NameSubject, RunId};

use super::attempts::{CLASSES, read_duration};
use super::block;
use super::composite;
use super::context::Lowering;
use super::fields::Fields;
use super::keys;
use super::names::{filled, filled_template, key, name};
use super::outline::{Call, CallKind, Part, Role};
use super::step::Chosen;
use crate::ErrorClass;
use crate::check::{Code, Edit, Fix};
use crate::document::{Data, Node, Span};
use crate::expression::nearest;
use crate::graph::{
    Approval, Decision, Emission, Failure, FlowCall, Handoff, KbWrite, Kind, OnReject, Recipe, Step, ToolUse, Wait,
};
use crate::instant::parse_instant;
use crate::policy::KB_WRITE;

/// Lowers the kind of a step and the keys beside it.
pub(crate) fn lower(
    lowering: &mut Lowering<'_>,
    chosen: &Chosen<'_>,
    fields: &mut Fields<'_>,
    step: &mut Step,
) -> Option<Kind> {
    let node = chosen.node;
    match chosen.keys.name {
        "approval" => approval(lowering, node, fields, step),
        "decision" => decision(lowering, node, fields),
        "emit" => emit(lowering, node, fields),
        "fail" => fail(lowering, node, fields),
        "flow" | "workflow" => call(lowering, chosen, fields),
        "handoff" => handoff(lowering, node, fields),
        "jq" => lowering.jq(node, "jq").map(Kind::Jq),
        "kb" => kb(lowering, node, fields),
        "recipe" => recipe(lowering, node, fields),
        "set" => set(lowering, node),
        "tool" => tool(lowering, node, fields),
        "wait" => wait(lowering, node, fields),
        _ => composite::lower(lowering, chosen, fields),
    }
}

fn args(lowering: &mut Lowering<'_>, fields: &mut Fields<'_>, role: Role) -> (Option<crate::document::Span>, Value) {
    let node = fields.take("args");
    if let Some(node) = node.filter(|node| !matches!(node.data, Data::Map(_) | Data::Null | Data::Text(_))) {
        lowering.wrong(node, "args", "a map");
    }
    (node.map(|node| node.span), node.map(|node| lowering.template(node, "args", role)).unwrap_or_default())
}

fn tool(lowering: &mut Lowering<'_>, node: &Node, fields: &mut Fields<'_>) -> Option<Kind> {
    let (span, args) = args(lowering, fields, Role::ToolArgs);
    if node.data == Data::Null {
        lowering.error(Code::F013, node.span, "tool is empty").help("name a tool; a gate for a person is `approval`");
        return None;
    }
    let tool = filled(lowering, node, "tool")?;
    let call = Call {
        kind: CallKind::Tool,
        name: tool.clone(),
        span: node.span,
        args: Some((span.unwrap_or(node.span), args.clone())),
    };
    lowering.outline.calls.push(call);
    let external = fields.take("external").and_then(|node| lowering.flag(node, "external")).unwrap_or_default();
    Some(Kind::Tool(ToolUse { tool, args, external, texts: false }))
}

fn recipe(lowering: &mut Lowering<'_>, node: &Node, fields: &mut Fields<'_>) -> Option<Kind> {
    let (_, args) = args(lowering, fields, Role::Plain);
    lowering.outline.calls.push(Call { kind: CallKind::Model, name: String::new(), span: node.span, args: None });
    let mut recipe =
        Recipe { name: None, model: None, system: None, prompt: None, output: None, max_tokens: None, repair: 0, args };
    if matches!(node.data, Data::Text(_)) {
        let name = filled(lowering, node, "recipe")?;
        lowering.outline.calls.push(Call { kind: CallKind::Recipe, name: name.clone(), span: node.span, args: None });
        recipe.name = Some(name);
        return Some(Kind::Recipe(recipe));
    }
    let mut inner = Fields::read(lowering, node, format!("recipe of {}", fields.owner))?;
    recipe.model = inner.take("model").and_then(|node| lowering.text(node, "recipe.model"));
    recipe.system = inner.take("system").and_then(|node| lowering.template_text(node, "recipe.system", Role::Plain));
    let prompt = inner.require(lowering, "prompt", "\"Summarize: {{steps.fetch.text}}\"");
    recipe.prompt = prompt.and_then(|node| lowering.template_text(node, "recipe.prompt", Role::Plain));
    if let Some(node) = inner.take("output") {
        recipe.output = super::schema::read(lowering, node, "recipe.output");
    }
    let tokens = inner.take("max_tokens");
    let tokens = tokens.and_then(|node| lowering.number(node, "recipe.max_tokens", 1, 10_000_000, ""));
    recipe.max_tokens = tokens.and_then(|number| u32::try_from(number).ok());
    let repair = inner.take("repair").and_then(|node| lowering.number(node, "recipe.repair", 0, 10, ""));
    recipe.repair = repair.and_then(|number| u32::try_from(number).ok()).unwrap_or_default();
    inner.finish(lowering, keys::RECIPE);
    Some(Kind::Recipe(recipe))
}

fn approval(lowering: &mut Lowering<'_>, node: &Node, fields: &mut Fields<'_>, step: &mut Step) -> Option<Kind> {
    let index = lowering.step?;
    let on_timeout = fields.take("on_timeout").and_then(|node| {
        if node.text() == Some("fail") {
            return None;
        }
        block::lower(lowering, node, "on_timeout", Some((index, Part::Instead("on_timeout"))))
    });
    let on_reject = fields.take("on_reject").and_then(|node| match node.text() {
        Some(_) => lowering.choice(node, "on_reject", &[("fail", OnReject::Fail), ("continue", OnReject::Continue)]),
        None => block::lower(lowering, node, "on_reject", Some((index, Part::Instead("on_reject")))).map(OnReject::Do),
    });
    if on_timeout.is_some() && fields.peek("timeout").is_none() {
        let message = format!("{} has on_timeout and no timeout", fields.owner);
        let span = fields.peek("on_timeout").map_or(node.span, |entry| entry.key_span);
        let path = format!("{}/timeout", lowering.pointer(fields.span));
        let fix = Fix::new("add timeout: 24h", Edit::Add { path, value: "24h".into() });
        lowering.error(Code::F013, span, message).help("without a timeout it waits for ever").fix(fix);
    }
    let mut approval = Approval {
        to: vec!["{{run.actor}}".to_owned()],
        title: format!("Approve \"{}\"", step.id),
        show: Value::Null,
        notify: Vec::new(),
        on_timeout,
        on_reject: on_reject.unwrap_or_default(),
    };
    if node.data == Data::Null {
        return Some(Kind::Approval(approval));
    }
    let mut inner = Fields::read(lowering, node, format!("approval of {}", fields.owner))?;
    if let Some(node) = inner.take("to") {
        approval.to = texts(lowering, node, "approval.to");
    }
    let title = inner.take("title").and_then(|node| lowering.template_text(node, "approval.title", Role::Plain));
    approval.title = title.unwrap_or(approval.title);
    if let Some(node) = inner.take("show") {
        approval.show = lowering.template(node, "approval.show", Role::Plain);
    }
    approval.notify = inner.take("notify").map(|node| texts(lowering, node, "approval.notify")).unwrap_or_default();
    inner.finish(lowering, keys::APPROVAL);
    Some(Kind::Approval(approval))
}

fn texts(lowering: &mut Lowering<'_>, node: &Node, what: &str) -> Vec<String> {
    let nodes = lowering.nodes(node);
    nodes.into_iter().filter_map(|node| lowering.template_text(node, what, Role::Plain)).collect()
}

/// Refuses an option that a person cannot name: it is empty, or has spaces at its ends.
fn check_option(lowering: &mut Lowering<'_>, span: Span, name: &str) {
    if name.is_empty() || name.trim() != name {
        let message = format!("an option is named \"{name}\"; write a name without spaces at its ends");
        lowering.error(Code::F013, span, message);
    }
}

fn decision(lowering: &mut Lowering<'_>, node: &Node, fields: &mut Fields<'_>) -> Option<Kind> {
    let mut inner = Fields::read(lowering, node, format!("decision of {}", fields.owner))?;
    let prompt = inner.require(lowering, "prompt", "\"Resolve or escalate?\"");
    let prompt = prompt.and_then(|node| lowering.template_text(node, "decision.prompt", Role::Plain));
    let mut options = BTreeMap::new();
    if let Some(node) = inner.take("options") {
        match &node.data {
            Data::List(items) => {
                for item in items {
                    if let Some(name) = lowering.text(item, "an option") {
                        check_option(lowering, item.span, &name);
                        options.insert(name, String::new());
                    }
                }
            }
            Data::Map(entries) => {
                for entry in entries {
                    check_option(lowering, entry.key_span, &entry.key);
                    let text = lowering.text(&entry.value, "the description of an option").unwrap_or_default();
                    options.insert(entry.key.clone(), text);
                }
            }
            _ => drop(lowering.wrong(node, "decision.options", "a map from names to descriptions")),
        }
    }
    let show = inner.take("show").map(|node| lowering.template(node, "decision.show", Role::Plain)).unwrap_or_default();
    let to = inner.take("to").and_then(|node| lowering.template_text(node, "decision.to", Role::Plain));
    inner.finish(lowering, keys::DECISION);
    let fallback = fields.take("fallback").and_then(|node| {
        let choice = lowering.text(node, "fallback")?;
        if !options.is_empty() && !options.contains_key(&choice) && !lowering.leaves_out() {
            let names: Vec<&str> = options.keys().map(String::as_str).collect();
            let message = format!("fallback is \"{choice}\", which is no option; the options: {}", names.join(", "));
            match nearest(&choice, names.iter().copied()) {
                Some(near) => drop(lowering.replace(node, format!("{message}; did you mean \"{near}\"?"), near)),
                None => drop(lowering.error(Code::F013, node.span, message)),
            }
        }
        Some(choice)
    });
    Some(Kind::Decision(Decision { prompt: prompt?, options, show, to, fallback }))
}

fn kb(lowering: &mut Lowering<'_>, node: &Node, fields: &Fields<'_>) -> Option<Kind> {
    let mut inner = Fields::read(lowering, node, format!("kb of {}", fields.owner))?;
    let base = inner.require(lowering, "base", "support").and_then(|node| filled(lowering, node, "kb.base"));
    let title = inner.require(lowering, "title", "\"Ticket {{input.id}}\"");
    let title = title.and_then(|node| lowering.template_text(node, "kb.title", Role::Plain));
    let text = inner.require(lowering, "text", "\"{{steps.summarize.summary}}\"");
    let text = text.and_then(|node| lowering.template_text(node, "kb.text", Role::Plain));
    let key = inner.take("key").and_then(|node| filled_template(lowering, node, "kb.key", Role::Plain));
    let tags = inner.take("tags").map(|node| texts(lowering, node, "kb.tags")).unwrap_or_default();
    inner.finish(lowering, keys::KB);
    let args = Some((node.span, json!({ "base": base, "key": key, "tags": tags })));
    lowering.outline.calls.push(Call { kind: CallKind::Knowledge, name: KB_WRITE.to_owned(), span: node.span, args });
    Some(Kind::Kb(KbWrite { base: base?, title: title?, text: text?, key, tags }))
}

fn handoff(lowering: &mut Lowering<'_>, node: &Node, fields: &Fields<'_>) -> Option<Kind> {
    let mut inner = Fields::read(lowering, node, format!("handoff of {}", fields.owner))?;
    let to = inner.require(lowering, "to", "\"dept:billing\"");
    let to = to.and_then(|node| lowering.template_text(node, "handoff.to", Role::Plain));
    let text = inner.require(lowering, "text", "\"unanswered\"");
    let text = text.and_then(|node| lowering.template_text(node, "handoff.text", Role::Plain));
    let via = inner.take("via").map(|node| texts(lowering, node, "handoff.via")).unwrap_or_default();
    inner.finish(lowering, keys::HANDOFF);
    Some(Kind::Handoff(Handoff { to: to?, text: text?, via }))
}

fn wait(lowering: &mut Lowering<'_>, node: &Node, fields: &Fields<'_>) -> Option<Kind> {
    let mut inner = Fields::read(lowering, node, format!("wait of {}", fields.owner))?;
    let given: Vec<&str> = ["for", "until", "event"].into_iter().filter(|key| inner.peek(key).is_some()).collect();
    let wait = match given.as_slice() {
        ["for"] => inner.take("for").and_then(|node| read_duration(lowering, node, "wait.for")).map(Wait::For),
        ["until"] => inner.take("until").and_then(|node| until(lowering, node)).map(Wait::Until),
        [_event] => {
            let name = inner.take("event").and_then(|node| name(lowering, node, "wait.event", NameSubject::Event));
            let node = inner.require(lowering, "key", "\"{{input.order.id}}\"");
            let key = node.and_then(|node| key(lowering, node, "wait.key", NameSubject::EventKey));
            let matches = inner.take("match").and_then(|node| lowering.condition(node, "wait.match", Role::Match));
            name.zip(key).map(|(name, key)| Wait::Event { name, key, matches })
        }
        [] => {
            let message = format!("{} has none of for, until and event", inner.owner);
            lowering.error(Code::F013, node.span, message).help("as wait: { for: 5m }");
            None
        }
        [first, second, ..] => {
            let span = inner.peek(second).map_or(node.span, |entry| entry.key_span);
            let fix = Fix::new(format!("remove \"{second}\""), Edit::Remove { path: lowering.pointer(span) });
            let message = format!("{} has \"{first}\" and \"{second}\"; it waits for one", inner.owner);
            lowering.error(Code::F013, span, message).fix(fix);
            for key in &given {
                inner.take(key);
            }
            None
        }
    };
    inner.finish(lowering, keys::WAIT);
    wait.map(Kind::Wait)
}

/// Reads the time of a wait. A text without a template is parsed here, because it will be the same
/// when the step runs.
fn until(lowering: &mut Lowering<'_>, node: &Node) -> Option<String> {
    let until = lowering.template_text(node, "wait.until", Role::Plain)?;
    if !until.contains("{{")
        && let Err(message) = parse_instant(&until, Timestamp::UNIX_EPOCH)
    {
        lowering.error(Code::F013, node.span, format!("wait.until: {message}"));
    }
    Some(until)
}

/// Reads the run to which an event goes.
fn receiver(lowering: &mut Lowering<'_>, node: &Node) -> Option<String> {
    let to = lowering.template_text(node, "emit.to", Role::Plain)?;
    if !to.contains("{{") && to.parse::<RunId>().is_err() {
        let message = format!("emit.to is \"{to}\", which is not the id of a run");
        lowering.error(Code::F013, node.span, message).help("as to: \"{{input.run}}\"");
    }
    Some(to)
}

fn emit(lowering: &mut Lowering<'_>, node: &Node, fields: &Fields<'_>) -> Option<Kind> {
    let mut inner = Fields::read(lowering, node, format!("emit of {}", fields.owner))?;
    let named = inner.require(lowering, "event", "paid");
    let event = named.and_then(|node| name(lowering, node, "emit.event", NameSubject::Event));
    let key = inner.take("key").and_then(|node| key(lowering, node, "emit.key", NameSubject::EventKey));
    let to = inner.take("to").and_then(|node| receiver(lowering, node));
    let data = inner.take("data").map(|node| lowering.template(node, "emit.data", Role::Plain)).unwrap_or_default();
    if key.is_some() == to.is_some() && inner.peek("key").is_some() == inner.peek("to").is_some() {
        let message = format!("{} needs one of \"key\" and \"to\"", inner.owner);
        lowering.error(Code::F013, node.span, message).help("key: all that wait for it; to: one run");
    }
    inner.finish(lowering, keys::EMIT);
    let emission = Emission { event: event?, key, to, data };
    if let Some(node) = named.filter(|_| emission.is_answer()) {
        let message = format!("emit.event is \"{}\", which answers a step of another run", emission.event);
        let help = "an account decides it with ready, and ends it with done; give the signal another name";
        lowering.error(Code::F013, node.span, message).help(help);
    }
    Some(Kind::Emit(emission))
}

fn call(lowering: &mut Lowering<'_>, chosen: &Chosen<'_>, fields: &mut Fields<'_>) -> Option<Kind> {
    let is_workflow = chosen.keys.name == "workflow";
    let (_, args) = args(lowering, fields, Role::Plain);
    let detach = fields.take("detach").and_then(|node| lowering.flag(node, "detach")).unwrap_or_default();
    let queue = fields.take("queue").and_then(|node| name(lowering, node, "queue", NameSubject::Queue));
    let text = lowering.text(chosen.node, chosen.keys.name)?;
    let (name, version) = text.split_once('@').map_or((text.as_str(), None), |(name, version)| (name, Some(version)));
    if name.is_empty() || version == Some("") {
        let message = format!("{} is \"{text}\"; it has to be a name, or name@version", chosen.keys.name);
        lowering.error(Code::F013, chosen.node.span, message);
        return None;
    }
    let kind = if is_workflow { CallKind::Workflow } else { CallKind::Flow };
    lowering.outline.calls.push(Call { kind, name: name.to_owned(), span: chosen.node.span, args: None });
    let (name, version) = (name.to_owned(), version.map(str::to_owned));
    Some(Kind::Flow(FlowCall { name, version, is_workflow, args, detach, queue }))
}

fn set(lowering: &mut Lowering<'_>, node: &Node) -> Option<Kind> {
    let Some(entries) = node.entries() else {
        lowering.wrong(node, "set", "a map from names to values");
        return None;
    };
    if entries.is_empty() {
        lowering.error(Code::F013, node.span, "set is empty").help("as set: { total: \"{{input.a + input.b}}\" }");
    }
    let mut values = BTreeMap::new();
    for entry in entries {
        lowering.outline.variables.push(entry.key.clone());
        let value = lowering.template(&entry.value, &format!("set.{}", entry.key), Role::Plain);
        values.insert(entry.key.clone(), value);
    }
    Some(Kind::Set(values))
}

fn fail(lowering: &mut Lowering<'_>, node: &Node, fields: &Fields<'_>) -> Option<Kind> {
    if node.text().is_some() {
        let message = lowering.template_text(node, "fail", Role::Plain)?;
        return Some(Kind::Fail(Failure { class: ErrorClass::Failed, message }));
    }
    let mut inner = Fields::read(lowering, node, format!("fail of {}", fields.owner))?;
    let class = inner.take("class").and_then(|node| lowering.choice(node, "fail.class", &CLASSES));
    let message = inner.require(lowering, "message", "\"no stock\"");
    let message = message.and_then(|node| lowering.template_text(node, "fail.message", Role::Plain));
    inner.finish(lowering, keys::FAIL);
    Some(Kind::Fail(Failure { class: class.unwrap_or(ErrorClass::Failed), message: message? }))
}
