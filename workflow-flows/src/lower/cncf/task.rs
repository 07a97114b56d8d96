//! One task: the keys that every task has, around what it does.

use super::program::{self, result_of};
use super::scope::{Directive, Scope, Task, chain, directive};
use super::{Cncf, call, composite, event, failure, refuse_key};
use crate::check::Code;
use crate::document::{Data, Node};
use crate::graph::{Kind, Next, Step};
use crate::lower::context::Lowering;
use crate::lower::fields::Fields;

/// The keys of every task.
const COMMON: [&str; 7] = ["if", "input", "output", "export", "timeout", "then", "metadata"];

/// The keys that say what a task does. `for` has a `do` too, so `do` comes last.
const KINDS: [&str; 12] =
    ["call", "emit", "for", "fork", "listen", "raise", "run", "set", "switch", "try", "wait", "do"];

/// The name under `steps` of the workflow's context.
pub(super) const CONTEXT: &str = "context";

/// The steps of a task between its input and its output.
pub(super) struct Body {
    pub(super) steps: Vec<Step>,
    pub(super) output: Output,
    /// Conditions with the places to which they lead, and the directives for the checks.
    pub(super) cases: Vec<(String, Directive)>,
}

/// The place of a task's output before it is transformed.
pub(super) enum Output {
    /// The data of the scope: the task has not changed them, or tasks in it have.
    Data,
    /// The result of the last step.
    Last,
    /// This place.
    Place(String),
}

impl Body {
    pub(super) fn new(steps: Vec<Step>, output: Output) -> Self {
        Self { steps, output, cases: Vec::new() }
    }
}

/// Returns the steps of a task, which lead to the marks of a scope, and its directives.
pub(super) fn lower(
    cncf: &mut Cncf<'_>,
    lowering: &mut Lowering<'_>,
    task: &Task<'_>,
    outer: &Scope,
) -> Option<(Vec<Step>, Vec<Directive>)> {
    let mut fields = Fields::read(lowering, task.node, format!("the task \"{}\"", task.name))?;
    let kind = kind_of(lowering, &mut fields, task)?;
    let mut steps = Vec::new();
    let mut scope = outer.clone();
    scope.sight = cncf.sight_of(task, outer);
    if let Some(node) = fields.take("if") {
        let condition = program::expression(lowering, node, "if")?;
        let program = scope.sight.program(&program::truth(&condition));
        steps.push(Step::new(cncf.fresh_beside(task, "if"), Kind::Jq(program)));
    }
    let is_skippable = !steps.is_empty();
    steps.extend(input(cncf, lowering, &mut fields, task, &mut scope, kind));
    let timeout = fields.take("timeout").and_then(|node| cncf.timeout(lowering, node));
    let body = body(cncf, lowering, &mut fields, task, &scope, kind);
    let after = (fields.take("output"), fields.take("export"));
    let then = fields.take("then").and_then(|node| directive(lowering, node, outer)).unwrap_or(Directive::Continue);
    fields.take("metadata");
    fields.finish(lowering, &keys(kind));
    let Body { steps: mut inner, output, cases } = body?;
    if let (Some(timeout), Some(step)) = (timeout, inner.iter_mut().find(|step| step.id == task.id)) {
        step.timeout = Some(timeout);
    }
    steps.append(&mut inner);
    transform(cncf, lowering, task, &scope, output, after, &mut steps);
    let mut directives: Vec<Directive> = cases.iter().map(|(_, directive)| directive.clone()).collect();
    directives.push(then.clone());
    if !cases.is_empty() {
        let last = steps.last_mut()?;
        let cases = cases.into_iter().map(|(condition, directive)| (condition, directive.mark())).collect();
        last.next = Some(Next::Branch { cases, otherwise: Some(then.mark()) });
    }
    let mut steps = chain(steps, &then.mark());
    if is_skippable {
        directives.push(Directive::Continue);
        skip(&mut steps);
    }
    Some((steps, directives))
}

/// Lets the first step, a condition, lead on only if it is true.
fn skip(steps: &mut [Step]) {
    let next = steps.get(1).map(|step| step.id.clone()).unwrap_or_default();
    if let Some(first) = steps.first_mut() {
        let cases = vec![("result == true".to_owned(), next)];
        first.next = Some(Next::Branch { cases, otherwise: Some(Directive::Continue.mark()) });
    }
}

fn kind_of(lowering: &mut Lowering<'_>, fields: &mut Fields<'_>, task: &Task<'_>) -> Option<&'static str> {
    let found: Vec<&str> = KINDS.into_iter().filter(|kind| fields.peek(kind).is_some()).collect();
    let Some(kind) = found.first().copied() else {
        let message = format!("the task \"{}\" does not say what it does", task.name);
        lowering.error(Code::F011, task.span, message).help(format!("one of: {}", KINDS.join(", ")));
        return None;
    };
    let second = found.into_iter().skip(1).find(|other| (kind, *other) != ("for", "do"));
    if let Some(second) = second {
        let message = format!("the task \"{}\" has \"{kind}\" and \"{second}\"; it does one thing", task.name);
        let span = fields.peek(second).map_or(task.span, |entry| entry.key_span);
        lowering.error(Code::F011, span, message);
        fields.take(second);
    }
    Some(kind)
}

/// Returns the keys of a task of this kind.
fn keys(kind: &str) -> Vec<&str> {
    let further: &[&str] = match kind {
        "call" => &["with"],
        "for" => &["while", "do"],
        "listen" => &["foreach"],
        "try" => &["catch"],
        _ => &[],
    };
    std::iter::once(kind).chain(further.iter().copied()).chain(COMMON).collect()
}

/// Reads the input of a task. Returns the step that makes it, if one is needed.
fn input(
    cncf: &mut Cncf<'_>,
    lowering: &mut Lowering<'_>,
    fields: &mut Fields<'_>,
    task: &Task<'_>,
    scope: &mut Scope,
    kind: &str,
) -> Option<Step> {
    let mut from = None;
    if let Some(node) = fields.take("input") {
        let mut fields = Fields::read(lowering, node, "input")?;
        refuse_schema(lowering, &mut fields);
        from = fields.take("from").and_then(|node| program::transformation(lowering, node, "input.from"));
        fields.finish(lowering, &["from", "schema"]);
    }
    // Tasks inside of this one change the data, so its input is kept beside them.
    let is_kept = ["do", "for", "fork", "try"].contains(&kind) && lowering.raw(task.node).contains("$input");
    if from.is_none() && !is_kept {
        return None;
    }
    let id = cncf.fresh_beside(task, "in");
    let mut step = Step::new(id.clone(), Kind::Jq(scope.sight.program(from.as_deref().unwrap_or("."))));
    step.aliases.push(scope.data.clone());
    scope.sight = scope.sight.with("input", result_of(&id));
    Some(step)
}

/// Schemas stand at the workflow only: the graph has none between steps.
fn refuse_schema(lowering: &mut Lowering<'_>, fields: &mut Fields<'_>) {
    if let Some(node) = fields.take("schema") {
        let help = "check the input of the workflow, or let a tool check the value";
        lowering.error(Code::F040, node.span, "the schema of a task is not checked here").help(help);
    }
}

fn body(
    cncf: &mut Cncf<'_>,
    lowering: &mut Lowering<'_>,
    fields: &mut Fields<'_>,
    task: &Task<'_>,
    scope: &Scope,
    kind: &'static str,
) -> Option<Body> {
    let node = fields.take(kind)?;
    if let Some(index) = lowering.step {
        lowering.outline.steps[index].kind = kind;
    }
    match kind {
        "call" => {
            let with = fields.take("with");
            call::lower(cncf, lowering, task, scope, node, with)
        }
        "run" => call::run(cncf, lowering, task, scope, node),
        "emit" => event::emit(cncf, lowering, task, scope, node),
        "listen" => {
            refuse_key(lowering, fields, "foreach", "listen with \"foreach\"");
            event::listen(cncf, lowering, task, node)
        }
        "raise" => failure::raise(cncf, lowering, task, scope, node),
        "try" => {
            let catch = fields.require(lowering, "catch", "{ do: [ .. ] }");
            failure::attempt(cncf, lowering, task, scope, node, catch?)
        }
        "for" => {
            let (body, condition) = (fields.require(lowering, "do", "[ .. ]"), fields.take("while"));
            composite::repeat(cncf, lowering, task, scope, (node, condition, body?))
        }
        "fork" => composite::fork(cncf, lowering, task, scope, node),
        "do" => composite::nested(cncf, lowering, task, scope, node),
        "set" => composite::set(lowering, task, scope, node),
        "switch" => composite::switch(lowering, task, scope, node),
        _ => composite::wait(lowering, task, node),
    }
}

/// Adds the steps that transform the output and export a part of it.
fn transform(
    cncf: &mut Cncf<'_>,
    lowering: &mut Lowering<'_>,
    task: &Task<'_>,
    scope: &Scope,
    output: Output,
    (as_node, export): (Option<&Node>, Option<&Node>),
    steps: &mut Vec<Step>,
) {
    let data = result_of(&scope.data);
    let place = match (&output, steps.last()) {
        (Output::Place(place), _) => place.clone(),
        (Output::Last, Some(last)) => result_of(&last.id),
        _ => data.clone(),
    };
    let expression = as_node.and_then(|node| part(lowering, node, "output"));
    match (expression, output) {
        (Some(expression), _) => {
            let program = scope.sight.at(place).program(&expression);
            steps.push(named(cncf, task, "out", program, &scope.data));
        }
        (None, Output::Place(place)) => steps.push(named(cncf, task, "out", place, &scope.data)),
        (None, Output::Last) => {
            if let Some(last) = steps.last_mut() {
                last.aliases.push(scope.data.clone());
            }
        }
        (None, Output::Data) => {}
    }
    if let Some(expression) = export.and_then(|node| part(lowering, node, "export")) {
        let program = scope.sight.with("output", data.clone()).at(data).program(&expression);
        steps.push(named(cncf, task, "export", program, CONTEXT));
    }
}

/// Reads `as` of an output or an export.
fn part(lowering: &mut Lowering<'_>, node: &Node, key: &str) -> Option<String> {
    if node.data == Data::Null {
        return None;
    }
    let mut fields = Fields::read(lowering, node, key)?;
    refuse_schema(lowering, &mut fields);
    let expression = fields.take("as").and_then(|node| program::transformation(lowering, node, &format!("{key}.as")));
    fields.finish(lowering, &["as", "schema"]);
    expression
}

/// Creates a jq step beside a task, whose result has this name too.
pub(super) fn named(cncf: &mut Cncf<'_>, task: &Task<'_>, suffix: &str, program: String, alias: &str) -> Step {
    let mut step = beside(cncf, task, suffix, program);
    step.aliases.push(alias.to_owned());
    step
}

/// Creates a jq step beside a task.
pub(super) fn beside(cncf: &mut Cncf<'_>, task: &Task<'_>, suffix: &str, program: String) -> Step {
    let id = cncf.fresh_beside(task, suffix);
    cncf.places.push((id.clone(), cncf.place_of(&task.id)));
    Step::new(id, Kind::Jq(program))
}
