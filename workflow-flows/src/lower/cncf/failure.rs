//! Errors: `raise`, and `try` with its `catch` and retries.
//!
//! An error of the language is an object. It is the message of a failed step, as JSON, so it
//! passes through the engine as any other failure does.

use std::time::Duration;

use super::program::{self, literal, result_of};
use super::scope::{self, Scope, Task, chain};
use super::task::{Body, Output, beside};
use super::{Cncf, duration, group, read_one, refuse_key};
use crate::ErrorClass;
use crate::check::Code;
use crate::document::{Data, Node};
use crate::graph::{AddedDelay, Backoff, Block, Failure, Kind, Next, OnError, RetryRule, Step};
use crate::lower::context::Lowering;
use crate::lower::fields::Fields;
use crate::lower::native::DAY;
use crate::lower::outline::Part;

/// The last part of the type of errors of calls.
pub(super) const COMMUNICATION: &str = "communication";

/// The site of the types of errors that the language defines.
const SITE: &str = "https://serverlessworkflow.io";

const ERROR: [&str; 5] = ["type", "status", "title", "detail", "instance"];

/// Returns a type of the language.
pub(super) fn error_type(name: &str) -> String {
    format!("{SITE}/spec/1.0.0/errors/{name}")
}

/// Creates the step that fails with an error, which this path of an expression gives.
pub(super) fn raise_step(id: String, path: &str) -> Step {
    let message = format!("{{{{{path}}}}}");
    let mut step = Step::new(id, Kind::Fail(Failure { class: ErrorClass::Failed, message }));
    step.next = Some(Next::Done);
    step
}

pub(super) fn raise(
    cncf: &mut Cncf<'_>,
    lowering: &mut Lowering<'_>,
    task: &Task<'_>,
    scope: &Scope,
    node: &Node,
) -> Option<Body> {
    let error = read_one(lowering, node, "raise", "error", "{ type: .., status: 400, title: .. }")?;
    let error = cncf.definitions.error(lowering, error)?;
    let mut given = Fields::read(lowering, error, "raise.error")?;
    let mut parts = Vec::new();
    for key in ERROR {
        if let Some(node) = given.take(key) {
            parts.push(format!("{key}: {}", program::value(lowering, node, key)));
        }
    }
    given.finish(lowering, &ERROR);
    if error.get("instance").is_none() {
        parts.push(format!("instance: {}", literal(&cncf.place_of(&task.id))));
    }
    let error = beside(cncf, task, "error", scope.sight.program(&format!("{{{}}}", parts.join(", "))));
    let raise = raise_step(task.id.clone(), &format!("steps['{}']", error.id));
    Some(Body::new(vec![error, raise], Output::Data))
}

/// The errors that a `catch` takes, and what follows.
struct Catch<'n> {
    /// The variable of the error.
    name: String,
    /// The jq condition on `$caught`.
    condition: String,
    retry: Option<RetryRule>,
    tasks: Option<&'n Node>,
}

/// Lowers `try`.
pub(super) fn attempt(
    cncf: &mut Cncf<'_>,
    lowering: &mut Lowering<'_>,
    task: &Task<'_>,
    scope: &Scope,
    tasks: &Node,
    catch: &Node,
) -> Option<Body> {
    let index = lowering.step?;
    let mut inner = scope.clone();
    inner.is_main = false;
    let first = cncf.places.len();
    let body = scope::lower(cncf, lowering, tasks, &inner, Some((index, Part::Body)), Vec::new())?;
    let places = cncf.places[first..].to_vec();
    let catch = read_catch(cncf, lowering, catch)?;
    let mut step = match catch.retry.clone() {
        None => group(task.id.clone(), body),
        // The steps inside say by the class of their failure whether another attempt follows.
        Some(rule) => {
            let mut attempt = group(cncf.fresh_beside(task, "attempt"), body);
            attempt.on_error = OnError::Do(Box::new(classify(cncf, task, scope, &catch, &places)));
            let mut step = group(task.id.clone(), Block::Do(vec![attempt]));
            step.retry = Some(rule);
            step
        }
    };
    let handler = handler(cncf, lowering, task, (scope, &inner), &catch, &places)?;
    step.on_error = OnError::Do(Box::new(handler));
    Some(Body::new(vec![step], Output::Data))
}

/// Returns the program that makes `{error, caught}` of a failure.
fn caught(scope: &Scope, catch: &Catch<'_>, places: &[(String, String)]) -> String {
    let places: Vec<String> = places.iter().map(|(id, place)| format!("{}: {}", literal(id), literal(place))).collect();
    let kind = |name: &str| literal(&error_type(name));
    let raised = "(.error.message | fromjson?) // null";
    let other = format!(
        "(if .error.class == \"timeout\" then [{}, 408, \"The time is over\"] \
         elif .error.code == \"F240\" or .error.code == \"F241\" then [{}, 400, \"An expression failed\"] \
         else [{}, 500, \"A call failed\"] end)",
        kind("timeout"),
        kind("expression"),
        kind(COMMUNICATION),
    );
    let sight = scope.sight.with("caught", "$made").with(&catch.name, "$made");
    format!(
        "({raised}) as $raised | {other} as $kind | {{{}}} as $places | (if ($raised | type) == \"object\" and \
         ($raised | has(\"type\")) then $raised else {{type: $kind[0], status: $kind[1], title: $kind[2], \
         detail: .error.message, instance: $places[.error.step]}} end) as $made | {{error: $made, caught: ({})}}",
        places.join(", "),
        sight.program(&program::truth(&catch.condition)),
    )
}

/// Returns the block that fails again, with a class that says whether the error is caught.
fn classify(
    cncf: &mut Cncf<'_>,
    task: &Task<'_>,
    scope: &Scope,
    catch: &Catch<'_>,
    places: &[(String, String)],
) -> Block {
    let mut error = beside(cncf, task, "failed", caught(scope, catch, places));
    let path = format!("steps['{}'].error", error.id);
    let mut raise = |suffix: &str, class: ErrorClass| {
        let mut step = raise_step(cncf.fresh_beside(task, suffix), &path);
        if let Kind::Fail(failure) = &mut step.kind {
            failure.class = class;
        }
        step
    };
    let (again, never) = (raise("again", ErrorClass::Unavailable), raise("never", ErrorClass::Invalid));
    let cases = vec![("result.caught".to_owned(), again.id.clone())];
    error.next = Some(Next::Branch { cases, otherwise: Some(never.id.clone()) });
    Block::Graph { start: error.id.clone(), steps: vec![error, again, never] }
}

/// Returns the block that handles the error: the tasks of the catch, or the error again.
fn handler(
    cncf: &mut Cncf<'_>,
    lowering: &mut Lowering<'_>,
    task: &Task<'_>,
    (outer, inner): (&Scope, &Scope),
    catch: &Catch<'_>,
    places: &[(String, String)],
) -> Option<Block> {
    let mut error = beside(cncf, task, "caught", caught(outer, catch, places));
    let value = format!("{}.error", result_of(&error.id));
    let raise = raise_step(cncf.fresh_beside(task, "uncaught"), &format!("steps['{}'].error", error.id));
    let handled = cncf.fresh_beside(task, "handled");
    let index = lowering.step?;
    let mut handled = match catch.tasks {
        None => Step::new(handled, Kind::Nothing),
        Some(tasks) => {
            let mut scope = inner.clone();
            scope.sight = scope.sight.with(&catch.name, value);
            let part = Part::Instead("catch");
            group(handled, scope::lower(cncf, lowering, tasks, &scope, Some((index, part)), Vec::new())?)
        }
    };
    handled.next = Some(Next::Done);
    let cases = vec![("result.caught".to_owned(), handled.id.clone())];
    error.next = Some(Next::Branch { cases, otherwise: Some(raise.id.clone()) });
    let start = error.id.clone();
    Some(Block::Graph { start, steps: chain(vec![error, handled, raise], "") })
}

fn read_catch<'n>(cncf: &Cncf<'_>, lowering: &mut Lowering<'_>, node: &'n Node) -> Option<Catch<'n>> {
    let mut fields = Fields::read(lowering, node, "catch")?;
    let name = fields.take("as").and_then(|node| lowering.text(node, "catch.as")).unwrap_or_else(|| "error".to_owned());
    let mut conditions = Vec::new();
    if let Some(node) = fields.take("errors") {
        conditions.extend(read_filter(lowering, node)?);
    }
    // These read the error by the name of the document.
    if let Some(node) = fields.take("when") {
        conditions.push(format!("({}\n)", program::expression(lowering, node, "catch.when")?));
    }
    if let Some(node) = fields.take("exceptWhen") {
        conditions.push(format!("(({}\n) | not)", program::expression(lowering, node, "catch.exceptWhen")?));
    }
    let retry = match fields.take("retry") {
        Some(node) => Some(read_retry(cncf, lowering, node)?),
        None => None,
    };
    let tasks = fields.take("do");
    fields.finish(lowering, &["as", "errors", "when", "exceptWhen", "retry", "do"]);
    let condition = if conditions.is_empty() { "true".to_owned() } else { conditions.join(" and ") };
    Some(Catch { name, condition, retry, tasks })
}

/// Reads the attributes that a caught error has.
fn read_filter(lowering: &mut Lowering<'_>, node: &Node) -> Option<Vec<String>> {
    let mut fields = Fields::read(lowering, node, "catch.errors")?;
    let with = fields.take("with");
    fields.finish(lowering, &["with"]);
    let Some(with) = with else { return Some(Vec::new()) };
    let mut fields = Fields::read(lowering, with, "catch.errors.with")?;
    let mut conditions = Vec::new();
    for key in ERROR {
        let Some(node) = fields.take(key) else { continue };
        let standard = node.text().filter(|text| key == "type" && text.starts_with(SITE));
        conditions.push(match standard.and_then(|text| text.rsplit('/').next()) {
            // The language has moved its types, so their last part tells them apart.
            Some(last) => {
                let (site, last) = (literal(SITE), literal(last));
                format!("($caught.type | startswith({site}) and (split(\"/\") | last) == {last})")
            }
            None => format!("($caught.{key} == {})", program::value(lowering, node, key)),
        });
    }
    fields.finish(lowering, &ERROR);
    Some(conditions)
}

/// Reads a policy of retries.
fn read_retry(cncf: &Cncf<'_>, lowering: &mut Lowering<'_>, node: &Node) -> Option<RetryRule> {
    let node = cncf.definitions.retry(lowering, node)?;
    let mut fields = Fields::read(lowering, node, "retry")?;
    for key in ["when", "exceptWhen"] {
        refuse_key(lowering, &mut fields, key, &format!("\"retry.{key}\""));
    }
    let delay = fields.take("delay").and_then(|node| duration(lowering, node, "retry.delay")).unwrap_or_default();
    let added = match fields.take("jitter") {
        Some(node) => Some(read_jitter(lowering, node)?),
        None => None,
    };
    let kind = fields.take("backoff").map(|node| read_backoff(lowering, node));
    let attempts = fields.take("limit").and_then(|node| read_limit(lowering, node));
    fields.finish(lowering, &["delay", "backoff", "jitter", "limit", "when", "exceptWhen"]);
    let backoff = match kind.unwrap_or(Some("constant"))? {
        "linear" => Backoff::Linear { delay, max_delay: DAY.max(delay) },
        "exponential" => Backoff::Exponential { delay: delay.max(Duration::from_millis(1)), max_delay: DAY.max(delay) },
        _ => Backoff::Constant { delay },
    };
    // The count of the language does not include the first attempt.
    let attempts = attempts.unwrap_or(MOST_RETRIES).saturating_add(1);
    Some(RetryRule { attempts, backoff, jitter: false, added, on: vec![ErrorClass::Unavailable] })
}

/// Reads the random time that is added to each delay.
fn read_jitter(lowering: &mut Lowering<'_>, node: &Node) -> Option<AddedDelay> {
    let mut fields = Fields::read(lowering, node, "retry.jitter")?;
    let from = fields.require(lowering, "from", "{ seconds: 1 }");
    let to = fields.require(lowering, "to", "{ seconds: 5 }");
    fields.finish(lowering, &["from", "to"]);
    let from = duration(lowering, from?, "retry.jitter.from")?;
    let to = duration(lowering, to?, "retry.jitter.to")?;
    if from > to {
        lowering.error(
            Code::F013,
            node.span,
            "retry.jitter.from is longer than retry.jitter.to; write the shorter first",
        );
    }
    Some(AddedDelay { from, to })
}

/// The retries of a policy without a limit.
const MOST_RETRIES: u32 = 1_000;

fn read_backoff(lowering: &mut Lowering<'_>, node: &Node) -> Option<&'static str> {
    let mut fields = Fields::read(lowering, node, "retry.backoff")?;
    let kinds = ["constant", "linear", "exponential"];
    let found = kinds.into_iter().find(|kind| fields.take(kind).is_some());
    fields.finish(lowering, &kinds);
    if found.is_none() {
        lowering.error(Code::F013, node.span, "retry.backoff has one of constant, linear and exponential");
    }
    found
}

fn read_limit(lowering: &mut Lowering<'_>, node: &Node) -> Option<u32> {
    let mut fields = Fields::read(lowering, node, "retry.limit")?;
    refuse_key(lowering, &mut fields, "duration", "\"retry.limit.duration\"");
    let attempt = fields.take("attempt");
    fields.finish(lowering, &["attempt", "duration"]);
    let mut fields = Fields::read(lowering, attempt?, "retry.limit.attempt")?;
    refuse_key(lowering, &mut fields, "duration", "\"retry.limit.attempt.duration\"");
    let count = fields.take("count").filter(|node| node.data != Data::Null);
    fields.finish(lowering, &["count", "duration"]);
    let count = lowering.number(count?, "retry.limit.attempt.count", 0, u64::from(MOST_RETRIES), "")?;
    u32::try_from(count).ok()
}
