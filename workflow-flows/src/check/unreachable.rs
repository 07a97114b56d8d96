//! F022: steps that nothing leads to. A warning.

use std::collections::BTreeSet;

use super::{Code, Edit, Fix};
use crate::lower::outline::Shape;
use crate::lower::{Dialect, Lowering};

pub(super) fn check(lowering: &mut Lowering<'_>) {
    for block in 0..lowering.outline.blocks.len() {
        match lowering.outline.blocks[block].shape {
            Shape::Graph => graph(lowering, block),
            Shape::Do => after_fail(lowering, block),
            Shape::Dag => {}
        }
    }
}

fn graph(lowering: &mut Lowering<'_>, block: usize) {
    let outline = &lowering.outline;
    let Some(start) = outline.blocks[block].start else { return };
    // A target that does not exist is reported as such; it may be the one that leads there.
    let all_exist = |step: &usize| outline.steps[*step].targets().all(|it| outline.find_in(block, &it.id).is_some());
    if !outline.blocks[block].steps.iter().all(all_exist) {
        return;
    }
    let mut reached = BTreeSet::new();
    let mut open = vec![start];
    while let Some(step) = open.pop() {
        if reached.insert(step) {
            open.extend(outline.steps[step].targets().filter_map(|named| outline.find_in(block, &named.id)));
        }
    }
    let lost: Vec<usize> = outline.blocks[block].steps.iter().copied().filter(|step| !reached.contains(step)).collect();
    for step in lost {
        let (id, span) = (lowering.outline.steps[step].id.clone(), lowering.outline.steps[step].id_span);
        report(lowering, span, format!("nothing leads to step \"{id}\""), lowering.outline.steps[step].span);
    }
}

/// Steps after one that always fails.
fn after_fail(lowering: &mut Lowering<'_>, block: usize) {
    let outline = &lowering.outline;
    let steps = &outline.blocks[block].steps;
    let fails = |step: &&usize| {
        let step = &outline.steps[**step];
        step.kind == "fail" && !step.has_when
    };
    let Some(at) = steps.iter().position(|step| fails(&step)) else { return };
    let (Some(next), failing) = (steps.get(at + 1).copied(), steps[at]) else { return };
    let id = &outline.steps[next].id;
    let message = format!("step \"{id}\" is never reached: \"{}\" fails before it", outline.steps[failing].id);
    let (span, whole) = (outline.steps[next].id_span, outline.steps[next].span);
    report(lowering, span, message, whole);
}

fn report(lowering: &mut Lowering<'_>, span: crate::document::Span, message: String, step: crate::document::Span) {
    let path = lowering.pointer(step);
    let fix = Fix::new("remove the step", Edit::Remove { path });
    let fix = (lowering.dialect == Dialect::Native).then_some(fix);
    lowering.error(Code::F022, span, message).warning().fix = fix;
}
