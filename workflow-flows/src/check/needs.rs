//! F021: no steps of a dag need each other.

use super::{Code, Edit, Fix};
use crate::lower::Lowering;
use crate::lower::outline::Shape;

pub(super) fn check(lowering: &mut Lowering<'_>) {
    for block in 0..lowering.outline.blocks.len() {
        if lowering.outline.blocks[block].shape != Shape::Dag {
            continue;
        }
        if let Some(cycle) = find(lowering, block) {
            report(lowering, &cycle);
        }
    }
}

/// Finds the steps of one cycle, in the order in which they need each other.
fn find(lowering: &Lowering<'_>, block: usize) -> Option<Vec<usize>> {
    let outline = &lowering.outline;
    let steps = &outline.blocks[block].steps;
    let needs = |step: usize| outline.steps[step].needs.iter().filter_map(|it| outline.find_in(block, &it.id));
    // Takes off the steps whose needs are met, until none is left or the rest needs itself.
    let mut left: Vec<usize> = steps.clone();
    loop {
        let before = left.len();
        let still: std::collections::BTreeSet<usize> = left.iter().copied().collect();
        left.retain(|step| needs(*step).any(|need| still.contains(&need)));
        if left.is_empty() {
            return None;
        }
        if left.len() == before {
            break;
        }
    }
    let mut walked = vec![*left.first()?];
    loop {
        let next = needs(*walked.last()?).find(|need| left.contains(need))?;
        if let Some(start) = walked.iter().position(|step| *step == next) {
            let mut cycle = walked.split_off(start);
            let first = cycle.iter().enumerate().min_by_key(|(_, step)| **step).map_or(0, |(at, _)| at);
            cycle.rotate_left(first);
            return Some(cycle);
        }
        walked.push(next);
    }
}

fn report(lowering: &mut Lowering<'_>, cycle: &[usize]) {
    let outline = &lowering.outline;
    let ids: Vec<&str> = cycle.iter().chain(cycle.first()).map(|step| outline.steps[*step].id.as_str()).collect();
    let message = format!("the steps need each other: {}", ids.join(" -> "));
    let Some(first) = cycle.first().copied() else { return };
    let span = outline.steps[first].id_span;
    // Takes away the need of the first step, which closes the cycle.
    let next = ids.get(1).copied().unwrap_or_default();
    let need = outline.steps[first].needs.iter().find(|need| need.id == next).map(|need| need.span);
    let fix = need.map(|need| {
        let path = lowering.pointer(need);
        Fix::new(format!("let \"{}\" not need \"{next}\"", ids[0]), Edit::Remove { path })
    });
    lowering.error(Code::F021, span, message).fix = fix;
}
