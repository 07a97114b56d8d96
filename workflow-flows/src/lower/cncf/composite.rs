//! Tasks that hold others, choose, wait or set data.

use super::program::{self, result_of};
use super::scope::{self, Directive, Scope, Task, directive};
use super::task::{Body, Output, beside};
use super::{Cncf, duration, group};
use crate::check::Code;
use crate::document::{Data, Node};
use crate::graph::{AtMax, Block, Kind, Loop, Next, OnItemError, Parallel, ParallelMode, Step, Until, Wait};
use crate::lower::context::Lowering;
use crate::lower::fields::Fields;
use crate::lower::outline::Part;

pub(super) fn set(lowering: &mut Lowering<'_>, task: &Task<'_>, scope: &Scope, node: &Node) -> Option<Body> {
    let program = match node.text() {
        Some(_) => program::expression(lowering, node, "set")?,
        None => program::value(lowering, node, "set"),
    };
    let step = Step::new(task.id.clone(), Kind::Jq(scope.sight.program(&program)));
    Some(Body::new(vec![step], Output::Last))
}

pub(super) fn wait(lowering: &mut Lowering<'_>, task: &Task<'_>, node: &Node) -> Option<Body> {
    let duration = duration(lowering, node, "wait")?;
    Some(Body::new(vec![Step::new(task.id.clone(), Kind::Wait(Wait::For(duration)))], Output::Data))
}

/// Lowers `switch`: one step that gives the number of the first case that is true.
pub(super) fn switch(lowering: &mut Lowering<'_>, task: &Task<'_>, scope: &Scope, node: &Node) -> Option<Body> {
    let items = node.items()?;
    let mut conditions = Vec::new();
    let mut cases = Vec::new();
    let mut default = None;
    for (number, item) in items.iter().enumerate() {
        let Some([case]) = item.entries() else {
            lowering.error(Code::F013, item.span, "a case is a map with one entry: its name and when it holds");
            continue;
        };
        let mut fields = Fields::read(lowering, &case.value, format!("the case \"{}\"", case.key))?;
        let when = fields.take("when").and_then(|node| program::expression(lowering, node, "when"));
        let then = fields.require(lowering, "then", "continue").and_then(|node| directive(lowering, node, scope));
        fields.finish(lowering, &["when", "then"]);
        let then = then.unwrap_or(Directive::Continue);
        match when {
            Some(when) => conditions.push(format!("if ({when}\n) then {number} else ")),
            None if default.is_some() => {
                lowering.error(Code::F013, case.key_span, "a switch has one case without \"when\"");
            }
            None => default = Some(number),
        }
        cases.push((format!("steps['{}'] == {number}", task.id), then));
    }
    let otherwise = default.map_or_else(|| "null".to_owned(), |number| number.to_string());
    let program = format!("{}{otherwise}{}", conditions.concat(), " end".repeat(conditions.len()));
    let step = Step::new(task.id.clone(), Kind::Jq(scope.sight.program(&program)));
    Some(Body { steps: vec![step], output: Output::Data, cases })
}

/// Lowers `do`: a scope inside of this one, on the same data.
pub(super) fn nested(
    cncf: &mut Cncf<'_>,
    lowering: &mut Lowering<'_>,
    task: &Task<'_>,
    scope: &Scope,
    node: &Node,
) -> Option<Body> {
    let index = lowering.step?;
    let inner = Scope { is_main: false, ..scope.clone() };
    let then = scope::lower(cncf, lowering, node, &inner, Some((index, Part::Body)), Vec::new())?;
    Some(Body::new(vec![group(task.id.clone(), then)], Output::Data))
}

/// Lowers `for`: a loop whose turns share the data of the scope.
pub(super) fn repeat(
    cncf: &mut Cncf<'_>,
    lowering: &mut Lowering<'_>,
    task: &Task<'_>,
    scope: &Scope,
    (node, condition, tasks): (&Node, Option<&Node>, &Node),
) -> Option<Body> {
    let index = lowering.step?;
    lowering.outline.steps[index].is_turning = true;
    let mut fields = Fields::read(lowering, node, "for")?;
    let list = fields.require(lowering, "in", ".items").and_then(|node| program::expression(lowering, node, "in"));
    let mut name = |lowering: &mut Lowering<'_>, key: &str, usual: &str| {
        fields.take(key).and_then(|node| lowering.text(node, key)).unwrap_or_else(|| usual.to_owned())
    };
    let (each, at) = (name(lowering, "each", "item"), name(lowering, "at", "index"));
    fields.finish(lowering, &["each", "in", "at"]);
    let list = list?;
    let items = beside(
        cncf,
        task,
        "items",
        scope.sight.program(&format!("({list}\n) | if type == \"array\" then . else error(\"for.in is no list\") end")),
    );
    let turn = cncf.fresh_beside(task, "turn");
    // A loop that runs again must not read the last turn of its previous run.
    let mut start = Step::new(cncf.fresh_beside(task, "start"), Kind::Nothing);
    start.aliases.push(turn.clone());
    let mut inner = Scope { is_main: false, ..scope.clone() };
    let position = format!("{}.index", result_of(&turn));
    inner.sight = inner.sight.with(&each, format!("{}[{position}]", result_of(&items.id))).with(&at, position);
    let holds = match condition {
        Some(node) => {
            let condition = program::expression(lowering, node, "while")?;
            // The turn that is decided about is not recorded yet.
            let sight = scope.sight.with(&each, format!("{}[.index]", result_of(&items.id))).with(&at, ".index");
            format!("({})", sight.program(&program::truth(&condition)))
        }
        None => "true".to_owned(),
    };
    let mut first = beside(cncf, task, "begin", format!("{{index: .index, go: {holds}}}"));
    first.aliases.push(turn.clone());
    let body = scope::lower(cncf, lowering, tasks, &inner, Some((index, Part::Body)), vec![first])?;
    let body = leave(body);
    let (items_id, most) = (items.id.clone(), lowering.options.limits.items);
    let condition = format!(
        "size(steps['{items_id}']) > 0 && (steps['{turn}'] == null || \
         (steps['{turn}'].go && steps['{turn}'].index + 1 < size(steps['{items_id}'])))"
    );
    let repetition = Loop {
        until: Until::While(condition),
        max: u32::try_from(most).unwrap_or(u32::MAX),
        at_max: AtMax::Fail,
        every: None,
        concurrency: 1,
        on_item_error: OnItemError::Fail,
        collects: false,
        body,
    };
    let step = Step::new(task.id.clone(), Kind::Loop(repetition));
    Some(Body::new(vec![items, start, step], Output::Data))
}

/// Lets the first step of a turn lead to the tasks only if the turn is to be taken.
fn leave(mut body: Block) -> Block {
    if let Block::Graph { steps, .. } = &mut body {
        let exit = steps.last().map(|step| step.id.clone());
        if let Some(first) = steps.first_mut()
            && let Some(Next::Goto(next)) = first.next.take()
        {
            first.next = Some(Next::Branch { cases: vec![("result.go".to_owned(), next)], otherwise: exit });
        }
    }
    body
}

/// Lowers `fork`: each branch has data of its own.
pub(super) fn fork(
    cncf: &mut Cncf<'_>,
    lowering: &mut Lowering<'_>,
    task: &Task<'_>,
    scope: &Scope,
    node: &Node,
) -> Option<Body> {
    let index = lowering.step?;
    let mut fields = Fields::read(lowering, node, "fork")?;
    let compete = fields.take("compete").and_then(|node| lowering.flag(node, "compete")).unwrap_or_default();
    let branches = fields.require(lowering, "branches", "[ .. ]");
    fields.finish(lowering, &["branches", "compete"]);
    let branches = branches?;
    let limit = lowering.options.limits.branches;
    let items = branches.items().unwrap_or_default();
    if items.is_empty() || items.len() > limit {
        let message = format!("fork has {} branches; 1 to {limit} is the range", items.len());
        lowering.error(Code::F050, branches.span, message);
        return None;
    }
    let (mut lowered, mut results) = (Vec::new(), Vec::new());
    for (number, item) in items.iter().enumerate() {
        let name = item.entries().and_then(|entries| entries.first()).map(|entry| entry.key.clone());
        let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| number.to_string());
        let data = cncf.fresh_data();
        let mut inner = Scope { data: data.clone(), is_main: false, gives_data: true, ..scope.clone() };
        inner.sight = inner.sight.at(result_of(&data));
        let mut copy = beside(cncf, task, "branch", scope.sight.program("."));
        copy.aliases.push(data.clone());
        // A branch is one task, so its list has one entry.
        let list = Node { span: item.span, data: Data::List(vec![item.clone()]) };
        let part = Part::Branch(name.clone());
        let block = scope::lower(cncf, lowering, &list, &inner, Some((index, part)), vec![copy])?;
        results.push(result_of(&data));
        lowered.push((format!("{number}-{name}"), block));
    }
    let mode = if compete { ParallelMode::Race } else { ParallelMode::All };
    let kind = Kind::Parallel(Parallel { branches: lowered, mode, concurrency: None });
    let step = Step::new(task.id.clone(), kind);
    let output = match mode {
        ParallelMode::Race => format!("{}.result", result_of(&task.id)),
        _ => format!("[{}]", results.join(", ")),
    };
    let last = beside(cncf, task, "join", output);
    Some(Body::new(vec![step, last], Output::Last))
}
