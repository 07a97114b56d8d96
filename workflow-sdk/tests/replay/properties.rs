//! For random programs, in random orders, with a crash after every commit: same result, no recorded body again, nothing
//! left over.

use std::time::Duration;

use fastrand::Rng;

use crate::harness::{Delivery, START, Table};
use crate::lives::{End, Lived, check_full_replay, check_life_after, live, live_like};
use crate::program::{Leaves, Node, minimal, random};

/// How many programs, unless `WORKFLOW_PROPERTY_CASES` says otherwise.
const CASES: u64 = 2500;

pub(crate) fn cases(default: u64) -> u64 {
    std::env::var("WORKFLOW_PROPERTY_CASES").map_or(default, |cases| cases.parse().expect("a number"))
}

/// Checks programs, and shows the smallest form of the first that fails.
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

/// Runs the program once, then crashes it after every commit and lives on at random; crashes some of these lives once more;
/// and replays every history to its end.
fn crash_everywhere(program: &Node, seed: u64, delivery: Delivery) -> Result<usize, String> {
    let flow = program.flow();
    let mut rng = Rng::with_seed(seed);
    let first = live(&flow, &later(&Table::default(), &mut rng), START, Delivery::OneByOne, &mut rng)?;
    if let End::Diverged(divergence) = &first.end {
        return Err(divergence.to_string());
    }
    check_full_replay(&flow, &first, delivery)?;
    let mut checked = 0;
    for point in &first.crash_points {
        let pause = Duration::from_millis(rng.u64(..30));
        let second = live(&flow, &later(&point.table, &mut rng), point.now + pause, delivery, &mut rng)?;
        check_life_after(point, &first, &second)?;
        check_full_replay(&flow, &second, delivery)?;
        checked += 1;
        if rng.u8(..3) > 0 {
            continue;
        }
        let point = &second.crash_points[rng.usize(..second.crash_points.len())];
        let third = live(&flow, &later(&point.table, &mut rng), point.now + pause, delivery, &mut rng)?;
        check_life_after(point, &second, &third)?;
        check_full_replay(&flow, &third, delivery)?;
        checked += 1;
    }
    Ok(checked)
}

/// What others have done while nobody drove the run.
fn later(table: &Table, rng: &mut Rng) -> Table {
    let mut table = table.clone();
    for _ in 0..rng.u8(..4) {
        table.outside.happen(rng);
    }
    table
}

/// Crashes after every commit and goes on in the recorded order: the result must be that of the run without a crash.
fn crash_and_go_on_as_before(program: &Node, seed: u64, delivery: Delivery) -> Result<usize, String> {
    let flow = program.flow();
    let first = live(&flow, &Table::default(), START, Delivery::OneByOne, &mut Rng::with_seed(seed))?;
    for point in &first.crash_points {
        let second = live_like(&flow, point, &first, delivery)?;
        check_life_after(point, &first, &second)?;
        let (was, is) = ((&first.end, values_seen(&first.seen)), (&second.end, values_seen(&second.seen)));
        if was != is {
            return Err(format!("without a crash it gives {was:?}, with one {is:?}"));
        }
    }
    Ok(first.crash_points.len())
}

fn values_seen(seen: &[crate::harness::Seen]) -> Vec<(usize, u64)> {
    seen.iter().map(|(leaf, value, _, _)| (*leaf, *value)).collect()
}

/// What it emitted is what it saw: each once and in order, whenever the process dies.
fn talk_and_crash(program: &Node, seed: u64) -> Result<usize, String> {
    let flow = program.talkative_flow();
    let mut rng = Rng::with_seed(seed);
    let first = live(&flow, &Table::default(), START, Delivery::OneByOne, &mut rng)?;
    check_stream(&first)?;
    for point in &first.crash_points {
        let second = live(&flow, &point.table, point.now, Delivery::OneByOne, &mut rng)?;
        check_life_after(point, &first, &second)?;
        check_full_replay(&flow, &second, Delivery::OneByOne)?;
        check_stream(&second)?;
    }
    Ok(first.crash_points.len())
}

fn check_stream(lived: &Lived) -> Result<(), String> {
    let seen: Vec<_> = values_seen(&lived.seen).iter().map(|(leaf, value)| format!("[{leaf},{value}]")).collect();
    let emitted = lived.table.items("seen");
    let last = lived.table.published("last");
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
fn a_run_that_crashes_after_any_commit_goes_on_from_what_it_had_seen() {
    for_all(
        "steps, sleeps, signals and children",
        cases(CASES),
        |seed| program(seed, Leaves::Any),
        |program, seed| crash_everywhere(program, seed, Delivery::OneByOne),
    );
}

#[test]
fn a_run_that_crashes_after_any_commit_ends_as_it_would_have_ended() {
    for_all(
        "steps",
        cases(CASES),
        |seed| program(seed, Leaves::WithoutTime),
        |program, seed| crash_and_go_on_as_before(program, seed, Delivery::OneByOne),
    );
}

#[test]
fn what_a_run_emits_is_there_once_and_in_order_after_any_crash() {
    for_all("emitted and published", cases(CASES / 5), |seed| program(seed, Leaves::Any), talk_and_crash);
}

/// How many of 300 programs a check finds wrong.
fn violations(check: impl Fn(&Node, u64) -> Result<usize, String>) -> usize {
    (0..300).filter(|seed| check(&program(*seed, Leaves::WithoutTime), *seed).is_err()).count()
}

#[test]
fn the_checks_find_a_drive_that_delivers_all_recorded_outcomes_at_once() {
    for delivery in [Delivery::AllAtOnce, Delivery::AllAtOnceWithBodies] {
        let crashed = violations(|program, seed| crash_everywhere(program, seed, delivery));
        let continued = violations(|program, seed| crash_and_go_on_as_before(program, seed, delivery));
        println!("{delivery:?}: of 300 programs {crashed} and {continued} are found wrong");
        assert!(crashed > 30 && continued > 30, "{delivery:?}: only {crashed} and {continued} of 300");
    }
}
