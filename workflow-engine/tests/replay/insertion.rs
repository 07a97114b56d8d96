//! A step is inserted into the code of a run that has begun.

use std::time::Duration;

use fastrand::Rng;
use workflow_sdk::StepKind;

use crate::harness::{Delivery, START, Table};
use crate::program::{Leaves, Node, inserted_step, random};
use crate::properties::{cases, for_all};
use crate::random_drives::{CrashPoint, End, check_drive_after, check_full_replay, drive_at_random};

const CASES: u64 = 200;

/// Returns the program with a new step before or after one of its nodes.
fn with_insertion(program: &Node, seed: u64) -> Node {
    program.change_one(&mut Rng::with_seed(seed), &|rng, node| {
        let mut pair = vec![node.clone()];
        pair.insert(rng.usize(..=1), inserted_step());
        Node::Seq(pair)
    })
}

/// Runs the old code and crashes it after every commit. Then continues with the new code, and
/// crashes that run after every commit.
fn crash_and_deploy(program: &Node, seed: u64, may_diverge: bool) -> Result<usize, String> {
    let (old, new) = (program.flow(), with_insertion(program, seed).flow());
    let mut rng = Rng::with_seed(seed);
    let first = drive_at_random(&old, &Table::default(), START, Delivery::OneByOne, &mut rng)?;
    let mut checked = 0;
    for point in &first.crash_points {
        let second = drive_at_random(&new, &point.table, point.now, Delivery::OneByOne, &mut rng)?;
        if let (End::Diverged(divergence), false) = (&second.end, may_diverge) {
            return Err(divergence.to_string());
        }
        check_full_replay(&new, &second, Delivery::OneByOne)?;
        for point in &second.crash_points {
            let pause = Duration::from_millis(rng.u64(..30));
            let third = drive_at_random(&new, &point.table, point.now + pause, Delivery::OneByOne, &mut rng)?;
            check_drive_after(point, &second, &third)?;
            check_full_replay(&new, &third, Delivery::OneByOne)?;
            checked += 1;
        }
    }
    Ok(checked)
}

fn program(seed: u64) -> Node {
    let mut rng = Rng::with_seed(!seed);
    let depth = rng.u32(1..=2);
    random(&mut rng, depth, Leaves::WithoutExternalEvents)
}

/// Returns the program as a sequence: no branch can overtake another, so no key can change.
fn sequential(node: &Node) -> Node {
    match node.children() {
        [] => node.clone(),
        children => Node::Seq(children.iter().map(sequential).collect()),
    }
}

/// In concurrent branches, the insertion may change the winner of a race and the numbers in keys. A
/// recorded outcome that no call asks for is then a divergence. Without a divergence, the run
/// replays exactly.
#[test]
fn after_an_insertion_a_run_continues_and_replays_exactly() {
    for_all("insertion", cases(CASES), program, |program, seed| crash_and_deploy(program, seed, true));
}

#[test]
fn an_insertion_into_a_sequence_never_diverges() {
    let program = |seed| sequential(&program(seed));
    for_all("insertion into a sequence", cases(CASES), program, |program, seed| crash_and_deploy(program, seed, false));
}

/// Returns the program with one of its nodes replaced, behind a patch.
fn with_patch(program: &Node, seed: u64) -> Node {
    program.change_one(&mut Rng::with_seed(seed), &|_, node| Node::Patched {
        name: 0,
        ways: vec![node.clone(), Node::Seq(vec![inserted_step(), inserted_step()])],
    })
}

/// Runs the old code and crashes it after every commit. Then continues with the new code, and
/// crashes that run after every commit. The new code sees the same outcomes as the old code, and no
/// code diverges. A run that begins with the new code takes only the new branch.
fn crash_and_patch(program: &Node, seed: u64) -> Result<usize, String> {
    let flow = if seed.is_multiple_of(2) { Node::emitting_flow } else { Node::flow };
    let (old, new) = (flow(program), flow(&with_patch(program, seed)));
    let mut rng = Rng::with_seed(seed);
    let mut checked = 0;
    let fresh = drive_at_random(&new, &Table::default(), START, Delivery::OneByOne, &mut rng)?;
    for first in [drive_at_random(&old, &Table::default(), START, Delivery::OneByOne, &mut rng)?, fresh] {
        // An interrupted run may pass a patch without a record, so its crash points prove nothing
        // about the branch.
        let told_to_end = |point: &&CrashPoint| point.table.rows.iter().any(|row| row.kind == StepKind::Interruption);
        for point in first.crash_points.iter().filter(|point| !told_to_end(point)) {
            let second = drive_at_random(&new, &point.table, point.now, Delivery::OneByOne, &mut rng)?;
            if let End::Diverged(divergence) = &second.end {
                return Err(divergence.to_string());
            }
            check_drive_after(point, &first, &second)?;
            check_full_replay(&new, &second, Delivery::OneByOne)?;
            for point in &second.crash_points {
                let third = drive_at_random(&new, &point.table, point.now, Delivery::OneByOne, &mut rng)?;
                check_drive_after(point, &second, &third)?;
                check_full_replay(&new, &third, Delivery::OneByOne)?;
                checked += 1;
            }
        }
    }
    Ok(checked)
}

#[test]
fn a_patch_never_diverges_and_every_run_keeps_its_branch() {
    for_all("patch", cases(CASES), program, crash_and_patch);
}
