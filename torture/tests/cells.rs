//! Runs a small number of cells with few workers under one virtual clock. See
//! `workflow_torture::simulation::cells`. `simulate --cells 64 --workers 1000` runs many.

use std::time::Duration;

use workflow_torture::simulation::Planted;
use workflow_torture::simulation::cells::{Bounds, Plan, compare, run};

/// Two workers of each cell are killed: one stays dead, one comes back.
fn plan() -> Plan {
    Plan { kills: 16, ..Plan::of_size(8, 40) }
}

#[test]
fn claims_takeovers_and_schedules_are_alike_in_one_cell_and_in_many() {
    let plan = plan();
    let all = compare(&plan, &[1, 3, 8]).unwrap_or_else(|violation| panic!("{violation}"));
    for figures in &all {
        println!("{figures}");
        assert_eq!(figures.kills, 2 * figures.calls.len() as u64);
        // Each cell has occurrences every second, every two and every five seconds.
        assert_eq!(figures.scheduled, (20 + 10 + 4) * figures.calls.len() as u64);
        assert!(figures.taken_over > 0, "no killed worker held a run");
    }
    let last = &all[2];
    assert_eq!((last.workers, last.keys.iter().sum::<usize>()), (plan.workers, plan.runs));
}

#[test]
fn a_wait_beyond_its_bound_is_found() {
    let usual = plan().bounds;
    for (bounds, says) in [
        (Bounds { first_claim: Duration::ZERO, ..usual }, "first claim"),
        (Bounds { take_over: Duration::ZERO, ..usual }, "take-over"),
        (Bounds { schedule: Duration::ZERO, ..usual }, "scheduled run"),
    ] {
        let violation = run(&Plan { bounds, ..plan() }, 1).expect_err("no wait is shorter than nothing");
        assert!(violation.contains(says), "{violation}");
    }
}

#[test]
fn a_bug_in_a_cell_is_found() {
    let violation = run(&Plan { planted: Some(Planted::LostRow), ..plan() }, 2).expect_err("outcomes are lost");
    println!("{violation}");
    assert!(violation.starts_with("cell "), "{violation}");
}
