//! A step is inserted into the code of a run that is under way.

use std::time::Duration;

use fastrand::Rng;
use workflow_sdk::StepKind;

use crate::harness::{Delivery, START, Table};
use crate::lives::{CrashPoint, End, check_full_replay, check_life_after, live};
use crate::program::{Leaves, Node, inserted_step, random};
use crate::properties::{cases, for_all};

const CASES: u64 = 200;

/// The program with a step before or after one of its nodes.
fn with_insertion(program: &Node, seed: u64) -> Node {
    program.change_one(&mut Rng::with_seed(seed), &|rng, node| {
        let mut pair = vec![node.clone()];
        pair.insert(rng.usize(..=1), inserted_step());
        Node::Seq(pair)
    })
}

/// Runs the old code, crashes it after every commit, goes on with the new code, crashes that after every commit.
fn crash_and_deploy(program: &Node, seed: u64, may_diverge: bool) -> Result<usize, String> {
    let (old, new) = (program.flow(), with_insertion(program, seed).flow());
    let mut rng = Rng::with_seed(seed);
    let first = live(&old, &Table::default(), START, Delivery::OneByOne, &mut rng)?;
    let mut checked = 0;
    for point in &first.crash_points {
        let second = live(&new, &point.table, point.now, Delivery::OneByOne, &mut rng)?;
        if let (End::Diverged(divergence), false) = (&second.end, may_diverge) {
            return Err(divergence.to_string());
        }
        check_full_replay(&new, &second, Delivery::OneByOne)?;
        for point in &second.crash_points {
            let pause = Duration::from_millis(rng.u64(..30));
            let third = live(&new, &point.table, point.now + pause, Delivery::OneByOne, &mut rng)?;
            check_life_after(point, &second, &third)?;
            check_full_replay(&new, &third, Delivery::OneByOne)?;
            checked += 1;
        }
    }
    Ok(checked)
}

fn program(seed: u64) -> Node {
    let mut rng = Rng::with_seed(!seed);
    let depth = rng.u32(1..=2);
    random(&mut rng, depth, Leaves::WithoutOutside)
}

/// Only sequences: no branch can overtake another, so no key can move.
fn sequential(node: &Node) -> Node {
    match node.children() {
        [] => node.clone(),
        children => Node::Seq(children.iter().map(sequential).collect()),
    }
}

/// Where branches run beside each other the insertion may change who wins and which key goes where, which can leave a
/// recorded outcome over: that is reported. Where it is not, the run is as exact as any other.
#[test]
fn after_an_insertion_a_run_goes_on_and_is_then_exact_again() {
    for_all("insertion", cases(CASES), program, |program, seed| crash_and_deploy(program, seed, true));
}

#[test]
fn an_insertion_into_a_sequence_never_diverges() {
    let program = |seed| sequential(&program(seed));
    for_all("insertion into a sequence", cases(CASES), program, |program, seed| crash_and_deploy(program, seed, false));
}

/// The program with one of its nodes replaced, behind a patch.
fn with_patch(program: &Node, seed: u64) -> Node {
    program.change_one(&mut Rng::with_seed(seed), &|_, node| Node::Patched {
        name: 0,
        ways: vec![node.clone(), Node::Seq(vec![inserted_step(), inserted_step()])],
    })
}

/// Runs the old code, crashes it after every commit, goes on with the new code, crashes that after every commit. What the old
/// code saw the new one sees again, and no code diverges; a run that begins with the new code goes the new way alone.
fn crash_and_patch(program: &Node, seed: u64) -> Result<usize, String> {
    let flow = if seed.is_multiple_of(2) { Node::talkative_flow } else { Node::flow };
    let (old, new) = (flow(program), flow(&with_patch(program, seed)));
    let mut rng = Rng::with_seed(seed);
    let mut checked = 0;
    let fresh = live(&new, &Table::default(), START, Delivery::OneByOne, &mut rng)?;
    for first in [live(&old, &Table::default(), START, Delivery::OneByOne, &mut rng)?, fresh] {
        // What a run that was told to end comes past without a record is no more seen than a body that had begun.
        let told_to_end = |point: &&CrashPoint| point.table.rows.iter().any(|row| row.kind == StepKind::Interruption);
        for point in first.crash_points.iter().filter(|point| !told_to_end(point)) {
            let second = live(&new, &point.table, point.now, Delivery::OneByOne, &mut rng)?;
            if let End::Diverged(divergence) = &second.end {
                return Err(divergence.to_string());
            }
            check_life_after(point, &first, &second)?;
            check_full_replay(&new, &second, Delivery::OneByOne)?;
            for point in &second.crash_points {
                let third = live(&new, &point.table, point.now, Delivery::OneByOne, &mut rng)?;
                check_life_after(point, &second, &third)?;
                check_full_replay(&new, &third, Delivery::OneByOne)?;
                checked += 1;
            }
        }
    }
    Ok(checked)
}

#[test]
fn a_patch_diverges_nowhere_and_every_run_keeps_its_way() {
    for_all("patch", cases(CASES), program, crash_and_patch);
}
