//! Scopes: tasks that run one after the other on one data object, as a graph.

use std::collections::BTreeMap;

use super::program::{Sight, result_of};
use super::{Cncf, task};
use crate::check::Code;
use crate::document::{Entry, Node, Span};
use crate::graph::{Block, Kind, Next, Step};
use crate::lower::block;
use crate::lower::context::Lowering;
use crate::lower::outline::{Named, Part, Shape, Transition};
use crate::lower::step::begin;

/// The tasks of a scope, and the place of their data.
#[derive(Debug, Clone)]
pub(super) struct Scope {
    /// The name under `steps` of the data.
    pub(super) data: String,
    /// The values that expressions of the scope can read.
    pub(super) sight: Sight,
    /// Whether the end of the scope is the end of the workflow.
    pub(super) is_main: bool,
    /// Whether the block gives the data as its result.
    pub(super) gives_data: bool,
}

/// One task of a scope.
pub(super) struct Task<'n> {
    pub(super) name: &'n str,
    pub(super) id: String,
    pub(super) node: &'n Node,
    pub(super) span: Span,
    pub(super) key_span: Span,
}

/// Where the flow goes after a task, as a document says it.
#[derive(Debug, Clone)]
pub(super) enum Directive {
    Continue,
    /// To the end of the scope.
    Exit,
    /// To the task of this name.
    Task(Named),
}

/// A place in a graph that is named before its steps are known. No id begins with a space.
const CONTINUE: &str = " continue";
const EXIT: &str = " exit";

impl Directive {
    /// Returns the name that stands for the place until the scope is complete.
    pub(super) fn mark(&self) -> String {
        match self {
            Self::Continue => CONTINUE.to_owned(),
            Self::Exit => EXIT.to_owned(),
            Self::Task(named) => format!(" {}", named.id),
        }
    }
}

/// Reads a directive. `end` means the end of the scope if that is the workflow's.
pub(super) fn directive(lowering: &mut Lowering<'_>, node: &Node, scope: &Scope) -> Option<Directive> {
    let text = lowering.text(node, "then")?;
    Some(match text.as_str() {
        "continue" => Directive::Continue,
        "exit" => Directive::Exit,
        "end" if scope.is_main => Directive::Exit,
        "end" => {
            let message = "\"end\" ends the workflow from within a task, which this engine does not do";
            lowering.error(Code::F040, node.span, message).help("write exit, and end beside the outer task");
            Directive::Exit
        }
        _ => Directive::Task(Named { id: text, span: node.span }),
    })
}

/// Lowers the tasks of a scope. The steps of `first` run before them.
pub(super) fn lower(
    cncf: &mut Cncf<'_>,
    lowering: &mut Lowering<'_>,
    node: &Node,
    scope: &Scope,
    parent: Option<(usize, Part)>,
    first: Vec<Step>,
) -> Option<Block> {
    let items = node.items().filter(|items| !items.is_empty());
    let Some(items) = items else {
        lowering.wrong(node, "the tasks", "a list of one task or more");
        return None;
    };
    let block = block::begin(lowering, Shape::Graph, parent, node.span)?;
    let tasks: Vec<Task<'_>> = items.iter().filter_map(|item| read_task(cncf, lowering, item)).collect();
    let ids = ids(lowering, &tasks);
    lowering.nesting += 1;
    let mut chains: Vec<(String, Vec<Step>)> = Vec::new();
    for (number, one) in tasks.iter().enumerate() {
        let index = begin(lowering, &one.id, one.key_span, one.span, block);
        if number == 0 {
            lowering.outline.blocks[block].start = Some(index);
        }
        let outer = lowering.step.replace(index);
        let lowered = task::lower(cncf, lowering, one, scope);
        lowering.step = outer;
        // A task that is refused goes on to the next one, which is not reported as unreachable.
        let (steps, directives) = lowered.unwrap_or_else(|| (Vec::new(), vec![Directive::Continue]));
        let next = tasks.get(number + 1).map(|next| (next.id.clone(), next.key_span));
        lowering.outline.steps[index].transition = Some(transition(&directives, next.as_ref(), &ids));
        chains.push((one.name.to_owned(), steps));
    }
    lowering.nesting -= 1;
    Some(graph(cncf, scope, first, chains))
}

fn read_task<'n>(cncf: &mut Cncf<'_>, lowering: &mut Lowering<'_>, item: &'n Node) -> Option<Task<'n>> {
    let Some([Entry { key, key_span, value, .. }]) = item.entries() else {
        let message = "a task is a map with one entry: its name and what it does";
        lowering.error(Code::F013, item.span, message);
        return None;
    };
    let id = cncf.fresh(key);
    cncf.places.push((id.clone(), lowering.pointer(value.span)));
    Some(Task { name: key, id, node: value, span: value.span, key_span: *key_span })
}

/// Returns the ids of the tasks by their names. Reports names that stand twice.
fn ids(lowering: &mut Lowering<'_>, tasks: &[Task<'_>]) -> BTreeMap<String, String> {
    let mut ids: BTreeMap<String, String> = BTreeMap::new();
    for task in tasks {
        if ids.insert(task.name.to_owned(), task.id.clone()).is_some() {
            let message = format!("the task \"{}\" stands twice in its scope", task.name);
            lowering.error(Code::F012, task.key_span, message).help("a name stands once beside other tasks");
        }
    }
    ids
}

/// Returns the transition of a task for the checks.
fn transition(directives: &[Directive], next: Option<&(String, Span)>, ids: &BTreeMap<String, String>) -> Transition {
    let named = |directive: &Directive| match directive {
        Directive::Continue => next.map(|(id, span)| Named { id: id.clone(), span: *span }),
        Directive::Exit => None,
        Directive::Task(Named { id, span }) => Some(Named { id: ids.get(id).unwrap_or(id).clone(), span: *span }),
    };
    let to: Vec<Named> = directives.iter().filter_map(named).collect();
    if to.is_empty() { Transition::Done } else { Transition::Goto(to) }
}

/// Joins the steps of the tasks to one graph.
fn graph(cncf: &mut Cncf<'_>, scope: &Scope, first: Vec<Step>, chains: Vec<(String, Vec<Step>)>) -> Block {
    let exit = cncf.fresh("exit");
    let entries: BTreeMap<String, String> =
        chains.iter().filter_map(|(name, steps)| Some((name.clone(), steps.first()?.id.clone()))).collect();
    let starts: Vec<Option<String>> = chains.iter().map(|(_, steps)| Some(steps.first()?.id.clone())).collect();
    let mut all: Vec<Step> = Vec::new();
    let begin = starts.first().cloned().flatten().unwrap_or_else(|| exit.clone());
    all.extend(chain(first, &begin));
    for (number, (_, steps)) in chains.into_iter().enumerate() {
        let next = starts.iter().skip(number + 1).flatten().next().unwrap_or(&exit);
        let target = |mark: &str| match mark {
            CONTINUE => next.clone(),
            EXIT => exit.clone(),
            // A task that does not exist is reported by the checks.
            other => entries.get(other.trim_start()).unwrap_or(&exit).clone(),
        };
        all.extend(steps.into_iter().map(|step| resolved(step, &target)));
    }
    let kind = if scope.gives_data { Kind::Jq(result_of(&scope.data)) } else { Kind::Nothing };
    let mut end = Step::new(exit, kind);
    end.next = Some(Next::Done);
    all.push(end);
    let start = all.first().map(|step| step.id.clone()).unwrap_or_default();
    Block::Graph { start, steps: all }
}

/// Replaces the marks of a step by the ids of steps.
fn resolved(mut step: Step, target: &dyn Fn(&str) -> String) -> Step {
    let replace = |id: &mut String| {
        if id.starts_with(' ') {
            *id = target(id);
        }
    };
    match &mut step.next {
        Some(Next::Goto(id)) => replace(id),
        Some(Next::Branch { cases, otherwise }) => {
            cases.iter_mut().for_each(|(_, id)| replace(id));
            otherwise.iter_mut().for_each(replace);
        }
        _ => {}
    }
    step
}

/// Lets each step that does not say where it goes go to the next one, and the last one to `end`.
pub(super) fn chain(mut steps: Vec<Step>, end: &str) -> Vec<Step> {
    let ids: Vec<String> = steps.iter().skip(1).map(|step| step.id.clone()).chain([end.to_owned()]).collect();
    for (step, next) in steps.iter_mut().zip(ids) {
        step.next.get_or_insert(Next::Goto(next));
    }
    steps
}
