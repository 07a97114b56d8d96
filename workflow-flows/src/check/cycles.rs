//! F025: each cycle of a graph has a bound.

use std::collections::BTreeSet;

use super::{Code, Edit, Fix};
use crate::lower::outline::Shape;
use crate::lower::{Dialect, Lowering};

pub(super) fn check(lowering: &mut Lowering<'_>) {
    // The engine with two tables knows no bounds, so the default bound holds there.
    if lowering.dialect != Dialect::Native {
        return;
    }
    for block in 0..lowering.outline.blocks.len() {
        if lowering.outline.blocks[block].shape == Shape::Graph {
            // A cycle that is reported counts as bounded, so that the next one is found.
            let mut bounded = BTreeSet::new();
            while let Some(cycle) = find(lowering, block, &bounded) {
                report(lowering, &cycle);
                bounded.extend(cycle);
            }
        }
    }
}

fn find(lowering: &Lowering<'_>, block: usize, bounded: &BTreeSet<usize>) -> Option<Vec<usize>> {
    let outline = &lowering.outline;
    let is_free = |step: &usize| outline.steps[*step].max_visits.is_none() && !bounded.contains(step);
    let mut ended: BTreeSet<usize> = BTreeSet::new();
    for first in outline.blocks[block].steps.iter().copied().filter(is_free) {
        // A walk in depth with the path to where it stands.
        let mut path: Vec<(usize, Vec<usize>)> = Vec::new();
        let next = |step: usize| -> Vec<usize> {
            let named = outline.steps[step].targets().filter_map(|named| outline.find_in(block, &named.id));
            named.filter(is_free).collect()
        };
        if !ended.contains(&first) {
            path.push((first, next(first)));
        }
        while let Some((step, open)) = path.last_mut() {
            let step = *step;
            let Some(to) = open.pop() else {
                ended.insert(step);
                path.pop();
                continue;
            };
            if let Some(start) = path.iter().position(|(on_path, _)| *on_path == to) {
                let mut cycle: Vec<usize> = path[start..].iter().map(|(step, _)| *step).collect();
                let first = cycle.iter().enumerate().min_by_key(|(_, step)| **step).map_or(0, |(at, _)| at);
                cycle.rotate_left(first);
                return Some(cycle);
            }
            if !ended.contains(&to) {
                path.push((to, next(to)));
            }
        }
    }
    None
}

fn report(lowering: &mut Lowering<'_>, cycle: &[usize]) {
    let outline = &lowering.outline;
    let ids: Vec<String> =
        cycle.iter().chain(cycle.first()).map(|step| format!("\"{}\"", outline.steps[*step].id)).collect();
    let Some(first) = cycle.first().copied() else { return };
    let message = format!("{} has no max_visits", ids.join(" -> "));
    let (id_span, span) = (outline.steps[first].id_span, outline.steps[first].span);
    let path = format!("{}/max_visits", lowering.pointer(span));
    let fix = Fix::new(format!("add max_visits: 100 to {}", ids[0]), Edit::Add { path, value: 100.into() });
    let help = "a step of the cycle says how often it may be visited";
    lowering.error(Code::F025, id_span, message).help(help).fix(fix);
}
