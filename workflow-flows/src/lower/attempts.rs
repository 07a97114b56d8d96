//! The keys that every step may have: attempts, their time, and what follows a failure.

use std::time::Duration;

use workflow_sdk::NameSubject;
use workflow_sdk::internal::check_name;

use super::block;
use super::context::Lowering;
use super::fields::Fields;
use super::keys::{self, KindKeys};
use super::names::{filled, key, name};
use super::outline::{Call, CallKind, Named, Part, Role, Shape};
use crate::ErrorClass;
use crate::check::{Code, Edit, Fix};
use crate::document::{Data, Node};
use crate::graph::{Backoff, BreakerRule, Kind, LimitRule, OnError, RetryRule, Step, ToolUse};

/// The kinds whose steps call something, so that the document's defaults hold for them.
const CALLING: [&str; 4] = ["tool", "recipe", "handoff", "kb"];

/// The most attempts of a step, the first one included.
const MOST_ATTEMPTS: u32 = 1_000;

/// The classes of errors by their names.
pub(crate) const CLASSES: [(&str, ErrorClass); 6] = [
    ("invalid", ErrorClass::Invalid),
    ("rate_limited", ErrorClass::RateLimited),
    ("unavailable", ErrorClass::Unavailable),
    ("timeout", ErrorClass::Timeout),
    ("connection", ErrorClass::Connection),
    ("failed", ErrorClass::Failed),
];

/// The classes that may be tried again.
const RETRIED: [(&str, ErrorClass); 5] = {
    let [_invalid, others @ ..] = CLASSES;
    others
};

/// Whether a step has a breaker.
enum Breaker {
    Default,
    None,
    Rule(BreakerRule),
}

/// The common keys of one step.
pub(crate) struct Common {
    retry: Option<RetryRule>,
    timeout: Option<Duration>,
    breaker: Breaker,
    limit: Option<LimitRule>,
    on_error: OnError,
    undo: Option<ToolUse>,
    output: Option<serde_json::Value>,
}

impl Common {
    pub(crate) fn read(lowering: &mut Lowering<'_>, fields: &mut Fields<'_>, step: usize) -> Self {
        let kind = keys::kind(lowering.outline.steps[step].kind);
        // A key that has no effect on the kind stays, and is reported as such.
        let mut take = |key: &str| {
            let is_known = kind.is_none_or(|kind| !kind.without.contains(&key));
            if is_known { fields.take(key) } else { None }
        };
        let owner = format!("step \"{}\"", lowering.outline.steps[step].id);
        let [retry, timeout, breaker, limit, on_error, undo, output] =
            ["retry", "timeout", "breaker", "limit", "on_error", "undo", "output"].map(&mut take);
        let members = output.and_then(Node::entries);
        lowering.outline.steps[step].output =
            members.map(|members| members.iter().map(|member| member.key.clone()).collect());
        Self {
            retry: retry.and_then(|node| read_retry(lowering, node, &owner)),
            timeout: timeout.and_then(|node| read_time(lowering, node, "timeout")),
            breaker: breaker.map_or(Breaker::Default, |node| read_breaker(lowering, node, &owner)),
            limit: limit.and_then(|node| read_limit(lowering, node, &owner)),
            on_error: on_error.and_then(|node| read_on_error(lowering, node, step)).unwrap_or_default(),
            undo: undo.and_then(|node| read_undo(lowering, node, &owner)),
            output: output.map(|node| lowering.template(node, "output", Role::After)),
        }
    }

    /// Sets the keys, and the document's defaults where the step calls something.
    pub(crate) fn apply(self, lowering: &Lowering<'_>, step: &mut Step, keys: &KindKeys) {
        let is_calling = CALLING.contains(&keys.name);
        let defaults = if is_calling { lowering.defaults.clone() } else { super::context::Defaults::default() };
        step.retry = self.retry.or(defaults.retry).filter(|retry| retry.attempts > 1);
        step.timeout = self.timeout.or(defaults.timeout);
        step.breaker = match (self.breaker, &step.kind) {
            (Breaker::Rule(rule), _) => Some(rule),
            (Breaker::Default, Kind::Tool(tool)) => default_breaker(&tool.tool, &tool.args),
            _ => None,
        };
        step.limit = self.limit;
        step.on_error = self.on_error;
        step.undo = self.undo;
        step.output = self.output;
    }

    /// Sets the keys of a step without a kind.
    pub(crate) fn apply_plain(self, step: &mut Step) {
        step.on_error = self.on_error;
        step.output = self.output;
    }
}

/// Returns the breaker of a tool with these arguments: by its name, and by the host of its URL if
/// there is one. `None` if the host is known only when the step runs: all hosts would share the
/// breaker, so one dead host would stop the calls of the others.
pub(crate) fn default_breaker(tool: &str, args: &serde_json::Value) -> Option<BreakerRule> {
    let name = match args.get("url") {
        Some(url) => match url.as_str()? {
            // The tool knows the host.
            url if !url.contains("://") && !url.contains('{') => tool.to_owned(),
            url => format!("{tool}:{}", fixed_host(url)?),
        },
        // One template gives all arguments.
        None if args.is_string() => return None,
        None => tool.to_owned(),
    };
    Some(BreakerRule { name, failures: 5, within: Duration::from_secs(60), open_for: Duration::from_secs(30) })
}

/// Returns the host of a URL, and its port if the URL names one. `None` if it is not known before a
/// template or an expression, each of which begins with a brace.
fn fixed_host(url: &str) -> Option<String> {
    let fixed = url.split('{').next()?;
    let (_, rest) = fixed.split_once("://")?;
    let authority = match rest.find(['/', '\\', '?', '#']) {
        Some(end) => &rest[..end],
        // The host may go on behind the brace.
        None if fixed.len() < url.len() => return None,
        None => rest,
    };
    let host = authority.rsplit('@').next()?.to_ascii_lowercase();
    (!host.is_empty()).then_some(host)
}

pub(crate) fn read_duration(lowering: &mut Lowering<'_>, node: &Node, what: &str) -> Option<Duration> {
    if let Data::Number(number) = &node.data {
        let message = format!("{what} is {number}, without a unit; write \"{number}s\"");
        lowering.replace(node, message, format!("{number}s"));
        return None;
    }
    let text = lowering.text(node, what)?;
    let parsed = match lowering.dialect {
        super::Dialect::Opcode => super::duration::parse_go(&text),
        _ => super::duration::parse(&text),
    };
    let help = match parsed {
        Ok(duration) => return Some(duration),
        Err(help) => help,
    };
    let repaired = repaired_duration(&text);
    let message = format!("{what} is \"{text}\"; it has to be a duration");
    let finding = match repaired {
        Some(repaired) => lowering.replace(node, message, repaired),
        None => lowering.error(Code::F013, node.span, message),
    };
    finding.help(help);
    None
}

/// Reads a duration in which something has to happen, so that 0 is too short.
pub(crate) fn read_time(lowering: &mut Lowering<'_>, node: &Node, what: &str) -> Option<Duration> {
    let duration = read_duration(lowering, node, what)?;
    if duration.is_zero() {
        lowering.error(Code::F013, node.span, format!("{what} is 0; it has to be longer"));
    }
    Some(duration)
}

/// `5 minutes`, `10 sec`, `1.5s`, `30`.
fn repaired_duration(text: &str) -> Option<String> {
    let compact: String = text.chars().filter(|c| !c.is_whitespace()).collect::<String>().to_lowercase();
    let digits = compact.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(compact.len());
    let (number, unit) = compact.split_at(digits);
    let number: f64 = number.parse().ok()?;
    let (millis, unit) = match unit {
        "" | "s" | "sec" | "secs" | "second" | "seconds" => (1_000.0, "s"),
        "ms" | "milliseconds" | "millis" => (1.0, "ms"),
        "m" | "min" | "mins" | "minute" | "minutes" => (60_000.0, "m"),
        "h" | "hour" | "hours" | "hr" | "hrs" => (3_600_000.0, "h"),
        "d" | "day" | "days" => (86_400_000.0, "d"),
        _ => return None,
    };
    if number.fract() == 0.0 {
        return Some(format!("{number}{unit}"));
    }
    Some(format!("{}ms", (number * millis).round()))
}

/// Reads the rule of attempts. Keys that are missing have the defaults of the document, or 3
/// attempts with an exponential backoff from 2 s to 30 s and jitter.
pub(crate) fn read_retry(lowering: &mut Lowering<'_>, node: &Node, owner: &str) -> Option<RetryRule> {
    if let Data::Number(number) = &node.data {
        let value = serde_json::json!({ "attempts": number });
        let message = "retry is a number; it has to be a map".to_owned();
        lowering.replace(node, message, value);
        return None;
    }
    let base = lowering.defaults.retry.clone().unwrap_or(RetryRule {
        attempts: 3,
        backoff: Backoff::Exponential { delay: Duration::from_secs(2), max_delay: Duration::from_secs(30) },
        jitter: true,
        added: None,
        on: Vec::new(),
    });
    let (base_delay, base_longest) = delays_of(&base.backoff);
    let mut fields = Fields::read(lowering, node, format!("retry of {owner}"))?;
    let why = "it counts the first try, so 1 or more";
    let count = fields.take("attempts");
    let attempts = count.and_then(|node| lowering.number(node, "retry.attempts", 1, u64::from(MOST_ATTEMPTS), why));
    let attempts = attempts.and_then(|number| u32::try_from(number).ok());
    let delay = fields.take("delay").and_then(|node| read_duration(lowering, node, "retry.delay"));
    let longest = fields.take("max_delay").and_then(|node| read_duration(lowering, node, "retry.max_delay"));
    let jitter = fields.take("jitter").and_then(|node| lowering.flag(node, "retry.jitter"));
    let delays = fields.take("delays").map(|node| {
        let list = lowering.nodes(node);
        list.into_iter().filter_map(|node| read_duration(lowering, node, "retry.delays")).collect::<Vec<_>>()
    });
    // Each delay is the wait before one more attempt.
    let waits = delays.as_ref().map(Vec::len).filter(|count| *count > 0);
    let needed = waits.map(|count| u32::try_from(count).unwrap_or(u32::MAX).saturating_add(1));
    if let (Some(node), Some(attempts), Some(needed)) = (count, attempts, needed)
        && attempts < needed
    {
        let message = format!("retry.attempts is {attempts}, and retry has {} delays", needed - 1);
        let finding = match needed {
            ..=MOST_ATTEMPTS => lowering.replace(node, message, needed),
            _ => lowering.error(Code::F013, node.span, message),
        };
        finding.help("it counts the first try, so it is one more than the delays");
    }
    let names = ["none", "constant", "linear", "exponential"].map(|name| (name, name));
    let backoff = fields.take("backoff");
    let kind = backoff.and_then(|node| lowering.choice(node, "retry.backoff", &names));
    if let (Some(node), Some(_)) = (backoff, &delays) {
        let path = lowering.pointer(node.span);
        let path = format!("{}/backoff", path.rsplit_once('/').map_or("", |(parent, _)| parent));
        let fix = Fix::new("remove \"backoff\"", Edit::Remove { path });
        lowering.error(Code::F013, node.span, "retry has \"backoff\" and \"delays\"; one says the waits").fix(fix);
    }
    let on = fields.take("on").map(|node| {
        let list = lowering.nodes(node);
        list.into_iter().filter_map(|node| lowering.choice(node, "retry.on", &RETRIED)).collect::<Vec<_>>()
    });
    fields.finish(lowering, keys::RETRY);
    let delay = delay.unwrap_or(base_delay);
    let max_delay = longest.unwrap_or(base_longest).max(delay);
    let backoff = match (delays, kind) {
        (Some(delays), _) if !delays.is_empty() => Backoff::Delays(delays),
        (_, Some("none")) => Backoff::None,
        (_, Some("constant")) => Backoff::Constant { delay },
        (_, Some("linear")) => Backoff::Linear { delay, max_delay },
        (_, Some(_)) => Backoff::Exponential { delay, max_delay },
        (_, None) => match base.backoff {
            Backoff::Constant { .. } => Backoff::Constant { delay },
            Backoff::Linear { .. } => Backoff::Linear { delay, max_delay },
            Backoff::Exponential { .. } => Backoff::Exponential { delay, max_delay },
            same => same,
        },
    };
    Some(RetryRule {
        attempts: attempts.or(needed).unwrap_or(base.attempts),
        backoff,
        jitter: jitter.unwrap_or(base.jitter),
        added: None,
        on: on.unwrap_or(base.on),
    })
}

fn delays_of(backoff: &Backoff) -> (Duration, Duration) {
    let longest = Duration::from_secs(30);
    match backoff {
        Backoff::Constant { delay } => (*delay, longest.max(*delay)),
        Backoff::Linear { delay, max_delay } | Backoff::Exponential { delay, max_delay } => (*delay, *max_delay),
        Backoff::None | Backoff::Delays(_) => (Duration::from_secs(2), longest),
    }
}

fn read_breaker(lowering: &mut Lowering<'_>, node: &Node, owner: &str) -> Breaker {
    if node.data == Data::Bool(false) {
        return Breaker::None;
    }
    let Some(mut fields) = Fields::read(lowering, node, format!("breaker of {owner}")) else { return Breaker::Default };
    let node = fields.require(lowering, "name", "\"bank\"");
    let name = node.and_then(|node| name(lowering, node, "breaker.name", NameSubject::Breaker));
    let failures = fields.take("failures");
    let most = u64::from(workflow_sdk::Breaker::MAX_FAILURES);
    let failures = failures.and_then(|node| lowering.number(node, "breaker.failures", 1, most, ""));
    let within = fields.take("within").and_then(|node| read_time(lowering, node, "breaker.within"));
    let open_for = fields.take("open_for").and_then(|node| read_time(lowering, node, "breaker.open_for"));
    fields.finish(lowering, keys::BREAKER);
    name.map_or(Breaker::Default, |name| {
        Breaker::Rule(BreakerRule {
            name,
            failures: failures.and_then(|number| u32::try_from(number).ok()).unwrap_or(5),
            within: within.unwrap_or(Duration::from_secs(60)),
            open_for: open_for.unwrap_or(Duration::from_secs(30)),
        })
    })
}

fn read_limit(lowering: &mut Lowering<'_>, node: &Node, owner: &str) -> Option<LimitRule> {
    let mut fields = Fields::read(lowering, node, format!("limit of {owner}"))?;
    let name_node = fields.take("name");
    let name = name_node.and_then(|node| lowering.text(node, "limit.name"));
    let key_node = fields.require(lowering, "key", "\"llm:{{input.account}}\"");
    let key = key_node.and_then(|node| key(lowering, node, "limit.key", NameSubject::LimitKey));
    let max_node = fields.require(lowering, "max", "10");
    let max = max_node.and_then(|node| lowering.number(node, "limit.max", 1, 1_000_000, ""));
    fields.finish(lowering, keys::LIMIT);
    let (key, max, max_node) = (key?, u32::try_from(max?).ok()?, max_node?);
    // Steps whose keys begin alike share the limit.
    let fixed = key.split("{{").next().unwrap_or_default().trim_matches(|c: char| !c.is_alphanumeric());
    let name = name.unwrap_or_else(|| match fixed {
        // All flows share the names of limits, so this one has the flow's name.
        "" => {
            let flow = lowering.root.get("name").and_then(Node::text).or(lowering.options.name);
            format!("flow:{}", flow.unwrap_or_default())
        }
        fixed => fixed.to_owned(),
    });
    if let Err(error) = check_name(NameSubject::Limit, &name) {
        lowering.error(Code::F013, name_node.unwrap_or(node).span, error.to_string());
        return None;
    }
    let (first, place) = *lowering.outline.limits.entry(name.clone()).or_insert((max, max_node.span));
    if first != max {
        let line = lowering.line(place);
        let message = format!("limit.max is {max}; the limit \"{name}\" has {first} in line {line}");
        lowering.replace(max_node, message, first).help("give all steps of a limit one max, or name the limits apart");
    }
    Some(LimitRule { name, key, max })
}

fn read_undo(lowering: &mut Lowering<'_>, node: &Node, owner: &str) -> Option<ToolUse> {
    let mut fields = Fields::read(lowering, node, format!("undo of {owner}"))?;
    let tool = fields.require(lowering, "tool", "\"http\"");
    let span = tool.map(|node| node.span);
    let tool = tool.and_then(|node| filled(lowering, node, "undo.tool"));
    let args = fields.take("args");
    let value = args.map(|node| lowering.template(node, "undo.args", Role::Undo)).unwrap_or_default();
    fields.finish(lowering, keys::UNDO);
    let (tool, span) = (tool?, span?);
    let args = Some((args.map_or(span, |args| args.span), value.clone()));
    lowering.outline.calls.push(Call { kind: CallKind::Tool, name: tool.clone(), span, args });
    Some(ToolUse { tool, args: value, external: false, texts: false })
}

fn read_on_error(lowering: &mut Lowering<'_>, node: &Node, step: usize) -> Option<OnError> {
    if node.text().is_some() {
        let choices = [("fail", OnError::Fail), ("ignore", OnError::Ignore)];
        return lowering.choice(node, "on_error", &choices);
    }
    if let Some(target) = node.get("goto") {
        let mut fields = Fields::read(lowering, node, "on_error")?;
        fields.take("goto");
        fields.finish(lowering, &["goto"]);
        let id = lowering.text(target, "on_error.goto")?;
        let block = lowering.outline.steps[step].block;
        if lowering.outline.blocks[block].shape != Shape::Graph {
            let message = "on_error goes to a step; only the steps of a graph can";
            lowering.error(Code::F013, target.span, message).help("write on_error: { do: [ .. ] }");
            return None;
        }
        lowering.outline.steps[step].goto = Some(Named { id: id.clone(), span: target.span });
        return Some(OnError::Goto(id));
    }
    let block = block::lower(lowering, node, "on_error", Some((step, Part::Instead("on_error"))))?;
    Some(OnError::Do(Box::new(block)))
}
