//! Properties of random programs that run in random orders, with a crash after every commit: the
//! result is the same, no recorded body runs again, no recorded outcome is left over, and no replay
//! of unchanged code diverges.

use std::time::Duration;

use fastrand::Rng;

use crate::harness::{Delivery, START, Table};
use crate::program::{Leaves, Node, minimal, random};
use crate::random_drives::{FinishedDrive, check_drive_after, check_full_replay, drive_at_random, drive_in_order};

/// The number of programs, unless `WORKFLOW_PROPERTY_CASES` is set.
const CASES: u64 = 2500;

pub(crate) fn cases(default: u64) -> u64 {
    std::env::var("WORKFLOW_PROPERTY_CASES").map_or(default, |cases| cases.parse().expect("a number"))
}

/// Checks the programs, and fails with the smallest form of the first program that fails.
pub(crate) fn for_all(
    what: &str,
    cases: u64,
    program: impl Fn(u64) -> Node,
    check: impl Fn(&Node, u64) -> Result<usize, String>,
) {
    let mut crash_points = 0;
    for seed in 0..cases {
        let program = program(seed);
        match check(&program, seed) {
            Ok(checked) => crash_points += checked,
            Err(failure) => {
                let (smallest, its_failure) = minimal(program, failure.clone(), |program| check(program, seed));
                panic!("{what}, seed {seed}: {failure}\n\nsmallest program: {smallest:#?}\n{its_failure}");
            }
        }
    }
    println!("{what}: {cases} programs, {crash_points} crash points");
}

/// Runs the program once, crashes it after every commit, and continues in a random order. Crashes
/// some of these drives once more, and replays every history to its end.
fn crash_everywhere(program: &Node, seed: u64, delivery: Delivery) -> Result<usize, String> {
    let flow = program.flow();
    let mut rng = Rng::with_seed(seed);
    let first =
        drive_at_random(&flow, &later(&Table::default(), &mut rng), START, Delivery::OneByOne, &mut rng)?.fits()?;
    check_full_replay(&flow, &first, delivery)?;
    let mut checked = 0;
    for point in &first.crash_points {
        let pause = Duration::from_millis(rng.u64(..30));
        let second =
            drive_at_random(&flow, &later(&point.table, &mut rng), point.now + pause, delivery, &mut rng)?.fits()?;
        check_drive_after(point, &first, &second)?;
        check_full_replay(&flow, &second, delivery)?;
        checked += 1;
        if rng.u8(..3) > 0 {
            continue;
        }
        let point = &second.crash_points[rng.usize(..second.crash_points.len())];
        let third =
            drive_at_random(&flow, &later(&point.table, &mut rng), point.now + pause, delivery, &mut rng)?.fits()?;
        check_drive_after(point, &second, &third)?;
        check_full_replay(&flow, &third, delivery)?;
        checked += 1;
    }
    Ok(checked)
}

/// Returns the table after external events that happened while the run had no drive.
fn later(table: &Table, rng: &mut Rng) -> Table {
    let mut table = table.clone();
    for _ in 0..rng.u8(..4) {
        table.external.happen(rng);
    }
    table
}

/// Crashes the program after every commit and continues in the recorded order. The result must
/// equal the result of the run without a crash.
fn crash_and_continue_in_order(program: &Node, seed: u64, delivery: Delivery) -> Result<usize, String> {
    let flow = program.flow();
    let first = drive_at_random(&flow, &Table::default(), START, Delivery::OneByOne, &mut Rng::with_seed(seed))?;
    for point in &first.crash_points {
        let second = drive_in_order(&flow, point, &first, delivery)?;
        check_drive_after(point, &first, &second)?;
        let (was, is) = ((&first.end, values_seen(&first.seen)), (&second.end, values_seen(&second.seen)));
        if was != is {
            return Err(format!("without a crash the result is {was:?}, with a crash {is:?}"));
        }
    }
    Ok(first.crash_points.len())
}

fn values_seen(seen: &[crate::harness::Seen]) -> Vec<(usize, u64)> {
    seen.iter().map(|(leaf, value, _, _)| (*leaf, *value)).collect()
}

/// Crashes an emitting program after every commit. The emitted items must be the outcomes that it
/// saw, each once and in order.
fn emit_and_crash(program: &Node, seed: u64) -> Result<usize, String> {
    let flow = program.emitting_flow();
    let mut rng = Rng::with_seed(seed);
    let first = drive_at_random(&flow, &Table::default(), START, Delivery::OneByOne, &mut rng)?;
    check_stream(&first)?;
    for point in &first.crash_points {
        let second = drive_at_random(&flow, &point.table, point.now, Delivery::OneByOne, &mut rng)?;
        check_drive_after(point, &first, &second)?;
        check_full_replay(&flow, &second, Delivery::OneByOne)?;
        check_stream(&second)?;
    }
    Ok(first.crash_points.len())
}

fn check_stream(finished: &FinishedDrive) -> Result<(), String> {
    let seen: Vec<_> = values_seen(&finished.seen).iter().map(|(leaf, value)| format!("[{leaf},{value}]")).collect();
    let emitted = finished.table.items("seen");
    let last = finished.table.published("last");
    if emitted == seen && last.as_ref() == seen.last() {
        return Ok(());
    }
    Err(format!("saw {seen:?}, emitted {emitted:?}, published {last:?}"))
}

fn program(seed: u64, leaves: Leaves) -> Node {
    let mut rng = Rng::with_seed(!seed);
    let depth = rng.u32(1..=3);
    random(&mut rng, depth, leaves)
}

#[test]
fn a_run_sees_the_same_outcomes_again_after_a_crash_at_any_commit() {
    for_all(
        "steps, sleeps, signals and children",
        cases(CASES),
        |seed| program(seed, Leaves::Any),
        |program, seed| crash_everywhere(program, seed, Delivery::OneByOne),
    );
}

#[test]
fn a_run_ends_with_the_same_result_after_a_crash_at_any_commit() {
    for_all(
        "steps",
        cases(CASES),
        |seed| program(seed, Leaves::WithoutTime),
        |program, seed| crash_and_continue_in_order(program, seed, Delivery::OneByOne),
    );
}

#[test]
fn items_are_emitted_once_and_in_order_after_any_crash() {
    for_all("emitted and published", cases(CASES / 5), |seed| program(seed, Leaves::Any), emit_and_crash);
}

/// Returns how many of 300 programs fail this check.
fn violations(check: impl Fn(&Node, u64) -> Result<usize, String>) -> usize {
    (0..300).filter(|seed| check(&program(*seed, Leaves::WithoutTime), *seed).is_err()).count()
}

#[test]
fn the_checks_find_a_drive_that_delivers_all_recorded_outcomes_at_once() {
    for delivery in [Delivery::AllAtOnce, Delivery::AllAtOnceWithBodies] {
        let crashed = violations(|program, seed| crash_everywhere(program, seed, delivery));
        let continued = violations(|program, seed| crash_and_continue_in_order(program, seed, delivery));
        println!("{delivery:?}: of 300 programs {crashed} and {continued} fail the checks");
        assert!(crashed > 30 && continued > 30, "{delivery:?}: only {crashed} and {continued} of 300");
    }
}
