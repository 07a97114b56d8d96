//! Random programs.

use fastrand::Rng;

use super::{ATTEMPTS, MapPlan, Node, Plan, Policy, SIGNALS};

/// Few names, so that they repeat inside and across branches. One looks like the key of another
/// name, one is the name of every sleep, and one looks like the key of a step in a scope.
const NAMES: [&str; 6] = ["a", "b", "c", "a:1", "sleep", "s/a"];

/// The leaves that programs may have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Leaves {
    Any,
    /// No signals and no children.
    WithoutExternalEvents,
    /// No sleeps, back-off, breakers, transactions, or bodies that end by themselves. The order in
    /// which gates are opened decides everything.
    WithoutTime,
}

pub(crate) fn random(rng: &mut Rng, depth: u32, leaves: Leaves) -> Node {
    let mut program = branch(rng, depth, leaves);
    program.number(&mut 0);
    program
}

fn branch(rng: &mut Rng, depth: u32, leaves: Leaves) -> Node {
    if depth == 0 || rng.u8(..4) == 0 {
        return leaf(rng, leaves);
    }
    let children: Vec<Node> = (0..rng.usize(2..=3)).map(|_| branch(rng, depth - 1, leaves)).collect();
    match rng.u8(..16) {
        0 | 1 => Node::Seq(children),
        2 | 3 => Node::Join(children),
        4 | 5 => Node::Race(children),
        6 => Node::Unordered(children),
        7 | 8 => Node::Map(map_plan(rng), children),
        9 => Node::FirstOf(children),
        10 if leaves != Leaves::WithoutTime => Node::Timeout { leaf: 0, millis: rng.u64(..60), within: children },
        11 => Node::Shield(children.into_iter().take(1).collect()),
        12 | 13 => Node::Saga { leaf: 0, undo_fails: rng.u8(..5) == 0, branch: children.into_iter().take(1).collect() },
        14 => Node::Fail(children.into_iter().take(1).collect()),
        _ => Node::Scope(children),
    }
}

fn map_plan(rng: &mut Rng) -> MapPlan {
    let policy = [Policy::FirstFailure, Policy::FinishAll, Policy::CollectResults][rng.usize(..3)];
    MapPlan { limit: rng.usize(1..=3), policy, fails: rng.u64(2..=4) }
}

fn leaf(rng: &mut Rng, leaves: Leaves) -> Node {
    if leaves == Leaves::Any && rng.u8(..3) == 0 {
        return external_event(rng);
    }
    if leaves != Leaves::WithoutTime && rng.u8(..5) == 0 {
        return Node::Sleep { leaf: 0, millis: rng.u64(..40) };
    }
    let fails = if rng.u8(..3) == 0 { rng.u32(1..=ATTEMPTS) } else { 0 };
    let back_off_millis = if leaves != Leaves::WithoutTime { rng.u64(..40) } else { 0 };
    let at_once = leaves != Leaves::WithoutTime && rng.u8(..4) == 0;
    let transaction = leaves != Leaves::WithoutTime && rng.u8(..3) == 0;
    let name = NAMES[rng.usize(..NAMES.len())];
    let guarded = leaves == Leaves::Any && rng.u8(..3) == 0;
    Node::Step(Plan { leaf: 0, name, fails, fatal: rng.u8(..8) == 0, at_once, transaction, back_off_millis, guarded })
}

fn external_event(rng: &mut Rng) -> Node {
    if rng.u8(..3) == 0 {
        return Node::Child { leaf: 0, detached: rng.u8(..3) == 0, key_taken: rng.u8(..4) == 0 };
    }
    let timeout = rng.bool().then(|| rng.u64(..40));
    Node::Signal { leaf: 0, name: SIGNALS[rng.usize(..SIGNALS.len())], timeout }
}
