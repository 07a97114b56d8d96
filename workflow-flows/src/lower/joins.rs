//! The one step at which the branches of a `parallel` of a graph join.

use std::collections::{BTreeMap, BTreeSet};

use super::context::Lowering;
use super::outline::{Named, Transition};
use super::Dialect;
use crate::check::{Code, Edit, Fix};
use crate::graph::{Next, Step};

/// What the steps of one branch come to.
#[derive(Default)]
struct Ends {
    /// The joins and the first step that names each.
    joins: BTreeMap<String, usize>,
    /// The steps that end the graph.
    dones: BTreeSet<usize>,
}

/// Sets the join of each `parallel` of a block, and reports branches that do not agree.
pub(crate) fn resolve(lowering: &mut Lowering<'_>, block: usize, steps: &mut [Step]) {
    let indexes = lowering.outline.blocks[block].steps.clone();
    for index in indexes {
        let Some(Transition::Parallel(branches)) = lowering.outline.steps[index].transition.clone() else { continue };
        let join = join_of(lowering, block, index, &branches);
        let id = &lowering.outline.steps[index].id;
        if let Some(step) = steps.iter_mut().find(|step| step.id == *id) {
            if let Some(Next::Parallel { join: place, .. }) = &mut step.next {
                *place = join;
            }
        }
    }
}

fn join_of(lowering: &mut Lowering<'_>, block: usize, fan: usize, branches: &[Named]) -> Option<String> {
    // Branches within branches are walked once per branch around them: bounded, not exact.
    let mut budget = 20_000_usize;
    let mut all = Ends::default();
    for branch in branches {
        if let Some(first) = lowering.outline.find_in(block, &branch.id) {
            walk(lowering, block, first, &mut BTreeSet::from([fan]), &mut all, &mut budget);
        }
    }
    let id = lowering.outline.steps[fan].id.clone();
    let outline = &lowering.outline;
    let mut joins: Vec<_> = all.joins.iter().map(|(join, step)| (join.clone(), outline.steps[*step].id.clone())).collect();
    joins.sort_by_key(|(_, step)| outline.find(step));
    if let [(first, a), (second, b), ..] = joins.as_slice() {
        let span = outline.steps[fan].id_span;
        let other = outline.find(b).and_then(|step| match &outline.steps[step].transition {
            Some(Transition::Join(named)) => Some(named.span),
            _ => None,
        });
        let message =
            format!("the branches of \"{id}\" join at \"{first}\" ({a}) and at \"{second}\" ({b}); one join is needed");
        let fix = other.map(|span| {
            let path = lowering.pointer(span);
            Fix::new(format!("join \"{b}\" at \"{first}\""), Edit::Replace { path, value: first.as_str().into() })
        });
        let finding = lowering.error(Code::F023, span, message);
        finding.fix = if joins.len() == 2 { fix } else { None };
    }
    let join = joins.first().map(|(join, _)| join.clone());
    // In the two-table engine a branch may end its workflow.
    if lowering.dialect != Dialect::TwoTable {
        for done in all.dones {
            report_done(lowering, done, &id, join.as_deref());
        }
    }
    join
}

fn report_done(lowering: &mut Lowering<'_>, done: usize, fan: &str, join: Option<&str>) {
    let (step, span) = (lowering.outline.steps[done].id.clone(), lowering.outline.steps[done].id_span);
    let path = lowering.pointer(lowering.outline.steps[done].span);
    let says_done = lowering.root_get(&format!("{path}/done"));
    let message = format!("step \"{step}\" ends the flow inside of \"{fan}\"");
    let advice = join.map_or_else(|| "write join: with the step that follows".to_owned(), |join| format!("write join: \"{join}\""));
    let fix = join.map(|join| {
        let add = Edit::Add { path: format!("{path}/join"), value: join.into() };
        let fix = Fix::new(advice.clone(), add);
        if says_done { fix.and(Edit::Remove { path: format!("{path}/done") }) } else { fix }
    });
    lowering.error(Code::F024, span, format!("{message}; {advice}")).fix = fix;
}

fn walk(
    lowering: &Lowering<'_>,
    block: usize,
    step: usize,
    seen: &mut BTreeSet<usize>,
    ends: &mut Ends,
    budget: &mut usize,
) {
    let mut open = vec![step];
    while let Some(step) = open.pop() {
        *budget = budget.saturating_sub(1);
        if *budget == 0 || !seen.insert(step) {
            continue;
        }
        let outline = &lowering.outline.steps[step];
        let find = |named: &Named| lowering.outline.find_in(block, &named.id);
        open.extend(outline.goto.as_ref().and_then(find));
        match &outline.transition {
            Some(Transition::Goto(to)) => open.extend(to.iter().filter_map(find)),
            Some(Transition::Join(to)) => {
                ends.joins.entry(to.id.clone()).or_insert(step);
            }
            Some(Transition::Done) => {
                ends.dones.insert(step);
            }
            // A parallel inside of a branch: it goes on at its own join.
            Some(Transition::Parallel(branches)) => {
                let mut inner = Ends::default();
                for first in branches.iter().filter_map(find) {
                    walk(lowering, block, first, &mut seen.clone(), &mut inner, budget);
                }
                let joins = inner.joins.keys().filter_map(|join| lowering.outline.find_in(block, join));
                open.extend(joins);
            }
            _ => {}
        }
    }
}
