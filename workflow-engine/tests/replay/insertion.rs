//! The code of a run that has begun is changed: a step is inserted, renamed or removed, with and
//! without a patch.

use std::time::Duration;

use fastrand::Rng;
use workflow_sdk::StepKind;

use crate::harness::{Delivery, Flow, START, Table};
use crate::program::{Leaves, Node, inserted_step, random};
use crate::properties::{cases, for_all};
use crate::random_drives::{CrashPoint, End, FinishedDrive, check_drive_after, check_full_replay, drive_at_random};

const CASES: u64 = 200;

/// Returns the program with a new step before, after or in place of one of its nodes, or with one
/// branch less.
fn changed(program: &Node, seed: u64) -> Node {
    program.change_one(&mut Rng::with_seed(seed), &|rng, node| match rng.u8(..4) {
        0 => Node::Seq(vec![inserted_step(), node.clone()]),
        1 => Node::Seq(vec![node.clone(), inserted_step()]),
        2 if node.children().len() > 1 => {
            let mut children = node.children().to_vec();
            children.remove(rng.usize(..children.len()));
            node.with_children(children)
        }
        _ => inserted_step(),
    })
}

/// Runs the old code and crashes it after every commit. Then continues with the new code: either it
/// diverges and leaves everything as it was, so that the old code can go on, or it continues and
/// replays exactly.
fn crash_and_deploy(program: &Node, seed: u64) -> Result<usize, String> {
    let (old, new) = (program.flow(), changed(program, seed).flow());
    let mut rng = Rng::with_seed(seed);
    let first = drive_at_random(&old, &Table::default(), START, Delivery::OneByOne, &mut rng)?.fits()?;
    let mut checked = 0;
    for point in &first.crash_points {
        let second = drive_at_random(&new, &point.table, point.now, Delivery::OneByOne, &mut rng)?;
        check_full_replay(&new, &second, Delivery::OneByOne)?;
        if let End::Diverged(_) = second.end {
            return_to(&old, point, &first, &second, &mut rng)?;
            checked += 1;
            continue;
        }
        for point in &second.crash_points {
            let pause = Duration::from_millis(rng.u64(..30));
            let third = drive_at_random(&new, &point.table, point.now + pause, Delivery::OneByOne, &mut rng)?;
            // A call that had begun in the old code may have another kind in the new code.
            let third = if has_another_kind(&third) { third } else { third.fits()? };
            check_drive_after(point, &second, &third)?;
            check_full_replay(&new, &third, Delivery::OneByOne)?;
            checked += 1;
        }
    }
    Ok(checked)
}

/// Checks that new code that diverged has begun nothing, and that the old code goes on.
fn return_to(
    old: &Flow,
    point: &CrashPoint,
    first: &FinishedDrive,
    diverged: &FinishedDrive,
    rng: &mut Rng,
) -> Result<(), String> {
    // Behind a gap, recorded outcomes may belong to a path that the run does not take again. Calls
    // of another kind may be recorded without an outcome, so they are found later.
    let End::Diverged(divergence) = &diverged.end else { return Ok(()) };
    if !is_dense(&point.table) || has_another_kind(diverged) {
        return Ok(());
    }
    let calls = |table: &Table| {
        let is_call = |row: &&workflow_sdk::StepAttempt| row.kind != StepKind::Interruption;
        table.rows.iter().filter(is_call).cloned().collect::<Vec<_>>()
    };
    if !diverged.begun.is_empty() || calls(&diverged.table) != calls(&point.table) {
        return Err(format!("before {divergence}\nthe new code has begun {:?}: {:?}", diverged.begun, diverged.table));
    }
    let third = drive_at_random(old, &diverged.table, point.now, Delivery::OneByOne, rng)?.fits()?;
    check_drive_after(point, first, &third)?;
    check_full_replay(old, &third, Delivery::OneByOne)
}

fn has_another_kind(drive: &FinishedDrive) -> bool {
    matches!(&drive.end, End::Diverged(divergence) if divergence.summary().starts_with("the kind of the call"))
}

fn is_dense(table: &Table) -> bool {
    let mut positions: Vec<_> = table.rows.iter().filter_map(|row| row.position).collect();
    positions.sort_unstable();
    positions.into_iter().eq(1..=table.rows.iter().filter(|row| row.position.is_some()).count() as i64)
}

fn program(seed: u64) -> Node {
    let mut rng = Rng::with_seed(!seed);
    let depth = rng.u32(1..=2);
    random(&mut rng, depth, Leaves::WithoutExternalEvents)
}

#[test]
fn changed_code_begins_nothing_before_it_diverges_and_the_old_code_goes_on() {
    for_all("change", cases(CASES), program, crash_and_deploy);
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
            let second = drive_at_random(&new, &point.table, point.now, Delivery::OneByOne, &mut rng)?.fits()?;
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
