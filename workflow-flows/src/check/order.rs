//! Which steps have run when an expression is evaluated.

use std::collections::BTreeSet;

use crate::lower::outline::{Outline, Part, Role, Section, Shape};

/// Whether one step has run before another one reads its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Order {
    /// The read step has run.
    Before,
    /// The read step may have run. The text says why it may not.
    Perhaps(String),
    /// The read step has not run. The text says why.
    Not(String),
    /// In a dag: the read step would have run if the reader needed it.
    NotNeeded,
}

/// Finds out whether `read` has run when `reader` evaluates an expression of this role. `reader`
/// is `None` for the output of the flow.
pub(super) fn order(outline: &Outline, reader: Option<usize>, role: Role, read: usize) -> Order {
    let read_chain = outline.chain(read);
    let Some(reader) = reader else {
        return match section(outline, read) {
            Section::Body => inside(outline, &read_chain, 0, read),
            _ => Order::Not("runs after the flow's output".to_owned()),
        };
    };
    match (section(outline, reader), section(outline, read)) {
        (Section::Body, Section::Body) => {}
        (left, right) if left == right => {}
        (Section::Body, _) => return Order::Not("runs after it".to_owned()),
        (Section::OnError, Section::Body) => return Order::Before,
        (Section::OnComplete, Section::Body) => return inside(outline, &read_chain, 0, read),
        _ => return Order::Not("does not run in the same run of the flow".to_owned()),
    }
    let chain = outline.chain(reader);
    let mut level = 0;
    loop {
        let (a, b) = (chain[level], read_chain[level]);
        if a != b {
            return beside(outline, &chain, &read_chain, level, read);
        }
        let (is_reader, is_read) = (level + 1 == chain.len(), level + 1 == read_chain.len());
        match (is_reader, is_read) {
            (true, true) => return itself(outline, &chain, role),
            (true, false) => return own_part(outline, &read_chain, level, role, read),
            (false, true) => {
                let id = &outline.steps[read].id;
                return Order::Not(format!("is a part of \"{id}\", which has no result yet"));
            }
            (false, false) => {}
        }
        let (part_a, part_b) = (part(outline, chain[level + 1]), part(outline, read_chain[level + 1]));
        if part_a != part_b {
            return parts(part_a, part_b);
        }
        level += 1;
    }
}

fn section(outline: &Outline, step: usize) -> Section {
    outline.blocks[outline.steps[step].block].section
}

/// The part of its parent in which a step stands.
fn part(outline: &Outline, step: usize) -> Option<&Part> {
    outline.blocks[outline.steps[step].block].parent.as_ref().map(|(_, part)| part)
}

fn parts(reader: Option<&Part>, read: Option<&Part>) -> Order {
    match (reader, read) {
        (Some(Part::Branch(_)), Some(Part::Branch(_))) => Order::Not("runs beside it, in another branch".to_owned()),
        (Some(Part::Instead(_)), Some(Part::Instead(_))) => Order::Not("runs in another case".to_owned()),
        (Some(Part::Instead(_)), _) => Order::Perhaps("may not have run before the failure".to_owned()),
        _ => Order::Not("runs in another branch".to_owned()),
    }
}

fn itself(outline: &Outline, chain: &[usize], role: Role) -> Order {
    if role == Role::Undo {
        return Order::Before;
    }
    let step = chain.last().copied().unwrap_or_default();
    let block = outline.steps[step].block;
    let in_turns = chain.iter().rev().skip(1).any(|outer| outline.steps[*outer].is_turning);
    let in_cycle = outline.blocks[block].shape == Shape::Graph && reaches(outline, block, step, step, None);
    if in_turns || in_cycle {
        return Order::Perhaps("has not run at its first visit".to_owned());
    }
    let advice = if role.sees_result() { "is the step itself; write result" } else { "is the step itself" };
    Order::Not(advice.to_owned())
}

/// A step reads a step inside of itself.
fn own_part(outline: &Outline, read_chain: &[usize], level: usize, role: Role, read: usize) -> Order {
    let in_fallback = matches!(part(outline, read_chain[level + 1]), Some(Part::Instead(_)));
    if role.sees_result() && !in_fallback {
        // A loop's condition and output see the last turn.
        let in_loop = matches!(part(outline, read_chain[level + 1]), Some(Part::Body));
        return if in_loop { Order::Before } else { inside(outline, read_chain, level, read) };
    }
    if role == Role::While {
        return Order::Perhaps("has not run before the first turn".to_owned());
    }
    Order::Not("is a part of it, and runs later".to_owned())
}

/// Two different steps of one block, at this level of both chains.
fn beside(outline: &Outline, chain: &[usize], read_chain: &[usize], level: usize, read: usize) -> Order {
    let (a, b) = (chain[level], read_chain[level]);
    let block = outline.steps[a].block;
    let in_turns = chain[..level].iter().any(|outer| outline.steps[*outer].is_turning);
    let has_guard = chain[level..].iter().any(|step| outline.steps[*step].has_when);
    let found = match outline.blocks[block].shape {
        Shape::Do => {
            let position = |step: usize| outline.blocks[block].steps.iter().position(|it| *it == step);
            if position(b) < position(a) {
                inside(outline, read_chain, level, read)
            } else if in_turns {
                Order::Perhaps("has not run in the first turn".to_owned())
            } else {
                Order::Not("runs after it".to_owned())
            }
        }
        Shape::Dag => {
            if needs(outline, block, a, b) {
                inside(outline, read_chain, level, read)
            } else if needs(outline, block, b, a) {
                Order::Not("runs after it".to_owned())
            } else {
                Order::NotNeeded
            }
        }
        Shape::Graph => graph(outline, block, a, b, read_chain, level, read),
    };
    // A guard of the reader says when the result is there.
    match found {
        Order::Perhaps(_) if has_guard => Order::Before,
        found => found,
    }
}

fn graph(
    outline: &Outline,
    block: usize,
    a: usize,
    b: usize,
    read_chain: &[usize],
    level: usize,
    read: usize,
) -> Order {
    if !reaches(outline, block, b, a, None) {
        return Order::Not("never runs before it".to_owned());
    }
    let has_parallel = outline.blocks[block]
        .steps
        .iter()
        .any(|step| matches!(outline.steps[*step].transition, Some(crate::lower::outline::Transition::Parallel(_))));
    let start = outline.blocks[block].start;
    // A way around the step leads to the reader without it.
    let way_around =
        start.is_some_and(|start| start != b && (start == a || reaches(outline, block, start, a, Some(b))));
    if way_around && !has_parallel {
        return Order::Perhaps("may not have run on every way".to_owned());
    }
    inside(outline, read_chain, level, read)
}

/// Whether a step of a dag needs another one, directly or not.
fn needs(outline: &Outline, block: usize, step: usize, needed: usize) -> bool {
    let mut seen = BTreeSet::new();
    let mut open = vec![step];
    while let Some(step) = open.pop() {
        for need in outline.steps[step].needs.iter().filter_map(|it| outline.find_in(block, &it.id)) {
            if need == needed {
                return true;
            }
            if seen.insert(need) {
                open.push(need);
            }
        }
    }
    false
}

/// Whether a graph leads from one step to another one, without a third.
fn reaches(outline: &Outline, block: usize, from: usize, to: usize, without: Option<usize>) -> bool {
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(step) = open.pop() {
        for next in outline.steps[step].targets().filter_map(|named| outline.find_in(block, &named.id)) {
            if next == to {
                return true;
            }
            if Some(next) != without && seen.insert(next) {
                open.push(next);
            }
        }
    }
    false
}

/// A step that has begun before: whether the part of it that is read has run.
fn inside(outline: &Outline, chain: &[usize], level: usize, read: usize) -> Order {
    for step in &chain[level..] {
        let it = &outline.steps[*step];
        if it.has_when {
            return Order::Perhaps(if *step == read {
                "may be skipped".to_owned()
            } else {
                format!("may be skipped with \"{}\"", it.id)
            });
        }
    }
    for step in chain.iter().skip(level + 1) {
        let parent = outline.blocks[outline.steps[*step].block].parent.as_ref();
        let Some((outer, part)) = parent else { continue };
        let outer = &outline.steps[*outer].id;
        match part {
            Part::Choice(name) => {
                return Order::Perhaps(format!("runs only in the branch \"{name}\" of \"{outer}\""));
            }
            Part::Instead(name) => return Order::Perhaps(format!("runs only in {name} of \"{outer}\"")),
            Part::Body => {
                return Order::Perhaps(format!("is inside of the loop \"{outer}\", whose result has all turns"));
            }
            Part::Branch(_) => {}
        }
    }
    Order::Before
}
