//! The keys of steps, recorded steps, and the order of deliveries.

use serde::{Deserialize, Serialize};
use workflow_sdk::{Ctx, Error, Result};

use crate::harness::{Drive, Flow, Table, World, flow, run_and_replay};

/// Returns the keys of the outcomes in the order of their positions.
pub(crate) fn outcomes(table: &Table) -> Vec<&str> {
    let mut rows: Vec<_> = table.rows.iter().filter(|row| row.position.is_some()).collect();
    rows.sort_by_key(|row| row.position);
    rows.iter().map(|row| row.step_key.as_str()).collect()
}

fn two_steps() -> Flow {
    flow!(|ctx| {
        let a = ctx.step("a", || ctx.state().body("a")).await?;
        let b = ctx.step("b", || ctx.state().body("b")).await?;
        Ok(a + &b)
    })
}

#[test]
fn a_first_run_writes_each_outcome_before_it_delivers_it() {
    let mut table = Table::default();
    let mut drive = Drive::begin(&table, &two_steps());
    assert_eq!(drive.run(&mut table).value(), "<a><b>");
    let events = ["write a#1 succeeded at 1", "deliver 0", "write b#1 succeeded at 2", "deliver 1"];
    assert_eq!(drive.events, events);
}

#[test]
fn an_outcome_that_is_not_committed_is_not_seen() {
    let mut drive = Drive::begin(&Table::default(), &two_steps());
    for _ in 0..3 {
        drive.advance();
    }
    assert_eq!(drive.world.notes(), ["a"]);
    assert_eq!(drive.in_flight.len(), 1);
}

#[test]
fn a_recorded_step_is_not_run_again_and_returns_the_recorded_value() {
    let mut table = Table::default().with_value("a", 1, "\"recorded\"");
    let mut drive = Drive::begin(&table, &two_steps());
    assert_eq!(drive.run(&mut table).value(), "recorded<b>");
    assert_eq!(drive.world.notes(), ["b"]);
    assert_eq!(drive.events, ["deliver 0", "write b#1 succeeded at 2", "deliver 1"]);
}

#[test]
fn a_full_replay_delivers_in_recorded_order_and_does_nothing_else() {
    let table = Table::default().with_value("a", 1, "\"1\"").with_value("b", 2, "\"2\"");
    let mut drive = Drive::begin(&table, &two_steps());
    assert_eq!(drive.advance().value(), "12");
    assert_eq!(drive.events, ["deliver 0", "deliver 1"]);
    assert_eq!(drive.polls, 3, "the first poll, and one poll per delivery");
}

#[test]
fn a_repeated_name_gets_a_number_in_the_order_of_calls_not_of_polls() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let first = ctx.step("page", || ctx.state().body("first"));
        let second = ctx.step("page", || ctx.state().body("second"));
        let third = ctx.step("page", || ctx.state().body("third"));
        Ok(third.await? + &second.await? + &first.await?)
    });
    assert_eq!(run_and_replay(&mut table, &flow).0.unwrap(), "<third><second><first>");
    assert_eq!(outcomes(&table), ["page:2", "page:1", "page"]);
}

#[test]
fn a_name_that_looks_like_the_key_of_a_repeat_gets_its_own_key() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        for name in ["page:1", "page", "page", "page:1", "page", "page:1"] {
            ctx.step(name, || ctx.state().body(name)).await?;
        }
        Ok(String::new())
    });
    run_and_replay(&mut table, &flow).0.unwrap();
    assert_eq!(outcomes(&table), ["page:1", "page", "page:2", "page:1:1", "page:3", "page:1:2"]);
}

#[derive(Serialize, Deserialize)]
struct Lossy {
    kept: u32,
    #[serde(skip)]
    lost: u32,
}

#[test]
fn the_first_run_decodes_the_stored_value_like_every_replay() {
    let flow = flow!(|ctx| {
        let value = ctx.step("a", async || Ok::<_, Error>(Lossy { kept: 1, lost: 2 })).await?;
        Ok(format!("{} {}", value.kept, value.lost))
    });
    assert_eq!(run_and_replay(&mut Table::default(), &flow).0.unwrap(), "1 0");
}

#[test]
fn a_call_that_is_never_polled_does_nothing_and_needs_no_record() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        drop(ctx.step("unused", || ctx.state().body("unused")));
        ctx.step("used", || ctx.state().body("used")).await
    });
    assert_eq!(run_and_replay(&mut table, &flow).1, ["used"]);
    assert_eq!(outcomes(&table), ["used"]);
}

#[test]
fn an_attempt_interrupted_by_a_crash_is_repeated_under_the_same_number() {
    let mut table =
        Table::default().with(crate::harness::row("a", 1, workflow_sdk::AttemptStatus::Running, None, None));
    let flow = flow!(|ctx| {
        let attempt = ctx.step("a", async || Ok::<_, Error>(ctx.attempt())).await?;
        Ok(attempt.to_string())
    });
    assert_eq!(run_and_replay(&mut table, &flow).0.unwrap(), "1");
    assert_eq!(table.rows.len(), 1);
}
