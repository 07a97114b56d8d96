//! The one step at which the branches of a `parallel` of a graph join.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::Dialect;
use super::context::Lowering;
use super::outline::{Named, Transition};
use crate::check::{Code, Edit, Fix};
use crate::graph::{Next, Step};

/// The steps at which one branch ends.
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
    let mut walked = Walked::new();
    for index in indexes {
        if !matches!(lowering.outline.steps[index].transition, Some(Transition::Parallel(_))) {
            continue;
        }
        let join = join_of(lowering, block, index, &mut walked);
        let id = &lowering.outline.steps[index].id;
        if let Some(step) = steps.iter_mut().find(|step| step.id == *id)
            && let Some(Next::Parallel { join: place, .. }) = &mut step.next
        {
            *place = join;
        }
    }
}

fn join_of(lowering: &mut Lowering<'_>, block: usize, fan: usize, walked: &mut Walked) -> Option<String> {
    let all = walk(lowering, block, fan, walked);
    let id = lowering.outline.steps[fan].id.clone();
    let outline = &lowering.outline;
    let mut joins: Vec<_> =
        all.joins.iter().map(|(join, step)| (join.clone(), outline.steps[*step].id.clone())).collect();
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
        for done in all.dones.iter().copied() {
            report_done(lowering, done, &id, join.as_deref());
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

/// The ends of the branches of each `parallel` that was walked. `None`: it is being walked.
type Walked = BTreeMap<usize, Option<Rc<Ends>>>;

/// Follows the branches of a `parallel` to their ends. A `parallel` inside of them goes on at its
/// own joins.
fn walk(lowering: &Lowering<'_>, block: usize, fan: usize, walked: &mut Walked) -> Rc<Ends> {
    if let Some(known) = walked.get(&fan) {
        return known.clone().unwrap_or_default();
    }
    walked.insert(fan, None);
    let mut ends = Ends::default();
    let mut seen = BTreeSet::from([fan]);
    let find = |named: &Named| lowering.outline.find_in(block, &named.id);
    let mut open: Vec<usize> = match &lowering.outline.steps[fan].transition {
        Some(Transition::Parallel(branches)) => branches.iter().filter_map(find).collect(),
        _ => Vec::new(),
    };
    while let Some(step) = open.pop() {
        if !seen.insert(step) {
            continue;
        }
        let outline = &lowering.outline.steps[step];
        open.extend(outline.goto.as_ref().and_then(find));
        match &outline.transition {
            Some(Transition::Goto(to)) => open.extend(to.iter().filter_map(find)),
            Some(Transition::Join(to)) => {
                ends.joins.entry(to.id.clone()).or_insert(step);
            }
            Some(Transition::Done) => {
                ends.dones.insert(step);
            }
            Some(Transition::Parallel(_)) => {
                let inner = walk(lowering, block, step, walked);
                open.extend(inner.joins.keys().filter_map(|join| lowering.outline.find_in(block, join)));
            }
            None => {}
        }
    }
    let ends = Rc::new(ends);
    walked.insert(fan, Some(ends.clone()));
    ends
}
