//! The one step at which the branches of a `parallel` of a graph join.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::Dialect;
use super::context::Lowering;
use super::outline::{Named, Transition};
use crate::check::{Code, Edit, Fix};
use crate::document::Span;
use crate::graph::{Next, Step};

/// The steps at which the branches of a `parallel` end.
#[derive(Default)]
struct Ends {
    /// The steps that join, and the join that each names.
    joins: BTreeMap<usize, Named>,
    /// The steps that end the graph.
    dones: BTreeSet<usize>,
}

/// The steps of a block, as far as they were followed.
#[derive(Default)]
struct Walked {
    /// The ends of the branches of each `parallel`. `None`: its branches are being followed.
    fans: BTreeMap<usize, Option<Rc<Ends>>>,
    /// The steps in a branch that go back to the `parallel` of the branch, and this `parallel`, by
    /// the place where it is named.
    backs: BTreeMap<Span, (usize, usize)>,
}

/// Sets the join of each `parallel` of a block. Reports branches that do not agree or that go back
/// to their `parallel`, and joins outside of one.
pub(crate) fn resolve(lowering: &mut Lowering<'_>, block: usize, steps: &mut [Step]) {
    let mut walked = Walked::default();
    let outside = walk(lowering, block, None, &mut walked);
    for index in lowering.outline.blocks[block].steps.clone() {
        if !matches!(lowering.outline.steps[index].transition, Some(Transition::Parallel(_))) {
            continue;
        }
        let ends = walk(lowering, block, Some(index), &mut walked);
        let join = join_of(lowering, index, &ends);
        if let Some(Next::Parallel { join: place, .. }) = next_of(lowering, index, steps) {
            *place = join;
        }
    }
    for (span, (from, fan)) in &walked.backs {
        let ends = walked.fans.get(fan).and_then(Option::as_ref);
        report_back(lowering, *span, *from, *fan, ends.and_then(|ends| ends.joins.values().next()));
    }
    for (step, join) in &outside.joins {
        let is_inside = walked.fans.values().flatten().any(|ends| ends.joins.contains_key(step));
        join_outside(lowering, *step, join, is_inside, steps);
    }
}

fn next_of<'s>(lowering: &Lowering<'_>, index: usize, steps: &'s mut [Step]) -> Option<&'s mut Next> {
    let id = &lowering.outline.steps[index].id;
    steps.iter_mut().find(|step| step.id == *id)?.next.as_mut()
}

fn join_of(lowering: &mut Lowering<'_>, fan: usize, ends: &Ends) -> Option<String> {
    let id = lowering.outline.steps[fan].id.clone();
    let mut joins: Vec<(usize, &Named)> = Vec::new();
    for (step, join) in &ends.joins {
        if !joins.iter().any(|(_, known)| known.id == join.id) {
            joins.push((*step, join));
        }
    }
    if let [(a, Named { id: first, .. }), (b, Named { id: second, span }), ..] = joins.as_slice() {
        let (a, b) = (&lowering.outline.steps[*a].id, &lowering.outline.steps[*b].id);
        let message =
            format!("the branches of \"{id}\" join at \"{first}\" ({a}) and at \"{second}\" ({b}); one join is needed");
        let path = lowering.pointer(*span);
        let fix =
            Fix::new(format!("join \"{b}\" at \"{first}\""), Edit::Replace { path, value: first.as_str().into() });
        let finding = lowering.error(Code::F023, lowering.outline.steps[fan].id_span, message);
        finding.fix = (joins.len() == 2).then_some(fix);
    }
    let join = joins.first().map(|(_, join)| join.id.clone());
    // In the two-table engine a branch may end its workflow.
    if lowering.dialect != Dialect::TwoTable {
        for done in &ends.dones {
            report_done(lowering, *done, &id, join.as_deref());
        }
    }
    join
}

fn report_done(lowering: &mut Lowering<'_>, done: usize, fan: &str, join: Option<&str>) {
    let (step, span) = (lowering.outline.steps[done].id.clone(), lowering.outline.steps[done].id_span);
    let path = lowering.pointer(lowering.outline.steps[done].span);
    let says_done = lowering.node_at(&format!("{path}/done")).is_some();
    let message = format!("step \"{step}\" ends the flow inside of \"{fan}\"");
    let advice = join
        .map_or_else(|| "write join: with the step that follows".to_owned(), |join| format!("write join: \"{join}\""));
    let fix = join.map(|join| {
        let add = Edit::Add { path: format!("{path}/join"), value: join.into() };
        let fix = Fix::new(advice.clone(), add);
        if says_done { fix.and(Edit::Remove { path: format!("{path}/done") }) } else { fix }
    });
    lowering.error(Code::F024, span, format!("{message}; {advice}")).fix = fix;
}

/// Refuses a branch that goes back: the steps after the join would run once in the branch, and once
/// more after it.
fn report_back(lowering: &mut Lowering<'_>, span: Span, from: usize, fan: usize, join: Option<&Named>) {
    let (step, fan) = (&lowering.outline.steps[from].id, &lowering.outline.steps[fan].id);
    let message = format!("step \"{step}\" goes back to \"{fan}\" from a branch of \"{fan}\"");
    let advice = match join {
        Some(join) => format!("end the branch with join: \"{0}\", and go back from \"{0}\" or after it", join.id),
        None => "end the branch with join:, and go back from that step or after it".to_owned(),
    };
    lowering.error(Code::F026, span, message).help(advice);
}

/// Decides about a join to which a way leads that passes no `parallel`.
fn join_outside(lowering: &mut Lowering<'_>, step: usize, join: &Named, is_inside: bool, steps: &mut [Step]) {
    // The two-table engine waits for siblings there. None is pending, so it goes on.
    if lowering.dialect == Dialect::TwoTable && !is_inside {
        if let Some(next) = next_of(lowering, step, steps) {
            *next = Next::Goto(join.id.clone());
        }
        lowering.outline.steps[step].transition = Some(Transition::Goto(vec![join.clone()]));
        return;
    }
    let message =
        format!("step \"{}\" joins at \"{}\" outside of a parallel", lowering.outline.steps[step].id, join.id);
    if is_inside {
        let advice =
            format!("a parallel leads to it too; let the other way have a step of its own with next: \"{}\"", join.id);
        lowering.error(Code::F027, join.span, message).help(advice);
        return;
    }
    let from = lowering.pointer(join.span);
    let path = format!("{}/next", from.rsplit_once('/').map_or("", |(parent, _)| parent));
    let fix = Fix::new(format!("write next: \"{}\"", join.id), Edit::Move { from, path });
    lowering.error(Code::F027, join.span, message).help("only the branches of a parallel join").fix(fix);
}

/// Follows the branches of a `parallel` to their ends, or the graph from its start if `fan` is
/// `None`. A `parallel` on the way goes on at its own joins, and so does a join of the graph
/// itself.
fn walk(lowering: &Lowering<'_>, block: usize, fan: Option<usize>, walked: &mut Walked) -> Rc<Ends> {
    let outline = &lowering.outline;
    let mut ends = Ends::default();
    let mut seen = BTreeSet::new();
    // The steps, and where another step names each.
    let mut open: Vec<(usize, Option<(usize, Span)>)> = Vec::new();
    let to = |from: usize, named: &Named| Some((outline.find_in(block, &named.id)?, Some((from, named.span))));
    match fan {
        None => open.extend(outline.blocks[block].start.map(|start| (start, None))),
        Some(fan) => {
            if let Some(known) = walked.fans.get(&fan) {
                return known.clone().unwrap_or_default();
            }
            walked.fans.insert(fan, None);
            if let Some(Transition::Parallel(branches)) = &outline.steps[fan].transition {
                open.extend(branches.iter().filter_map(|named| to(fan, named)));
            }
        }
    }
    while let Some((step, named)) = open.pop() {
        // Its branches are being followed, so this step stands in one of them.
        if let (Some(None), Some((from, span))) = (walked.fans.get(&step), named) {
            walked.backs.insert(span, (from, step));
            continue;
        }
        if !seen.insert(step) {
            continue;
        }
        open.extend(outline.steps[step].goto.as_ref().and_then(|named| to(step, named)));
        match &outline.steps[step].transition {
            Some(Transition::Goto(next)) => open.extend(next.iter().filter_map(|named| to(step, named))),
            Some(Transition::Join(join)) => {
                ends.joins.insert(step, join.clone());
                if fan.is_none() {
                    open.extend(to(step, join));
                }
            }
            Some(Transition::Done) => {
                ends.dones.insert(step);
            }
            Some(Transition::Parallel(_)) => {
                let inner = walk(lowering, block, Some(step), walked);
                open.extend(inner.joins.iter().filter_map(|(from, join)| to(*from, join)));
            }
            None => {}
        }
    }
    let ends = Rc::new(ends);
    if let Some(fan) = fan {
        walked.fans.insert(fan, Some(Rc::clone(&ends)));
    }
    ends
}
