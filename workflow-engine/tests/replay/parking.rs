//! When a run may be parked, and that a dropped call leaves no wait behind.

use std::time::Duration;

use futures::future::{Either, select};
use workflow_sdk::{Ctx, Error, Result, Retry};

use crate::harness::{Drive, Flow, START, Stop, Table, World, flow};

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn a_run_is_not_parked_before_the_body_beside_a_sleep_is_committed() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let (slept, value) = futures::join!(ctx.sleep(MINUTE), ctx.step("a", || ctx.state().gated("a")));
        slept?;
        value
    });
    let mut drive = Drive::begin(&table, &flow);
    let stop = drive.quiesce(&mut table);
    assert_eq!(stop.park_until(), None);
    drive.world.open("a", 0);
    drive.take_wakes();
    assert_eq!(drive.advance().park_until(), None, "the outcome is not committed");
    assert_eq!(drive.quiesce(&mut table).park_until(), Some(START + MINUTE));
}

#[test]
fn a_run_is_parked_until_the_first_of_its_waits() {
    let flow = flow!(|ctx| {
        let failing = ctx.step("a", async || Err::<(), _>(Error::msg("no"))).retry(Retry::fixed(MINUTE));
        futures::join!(ctx.sleep(2 * MINUTE), failing, ctx.sleep(3 * MINUTE)).0?;
        Ok(String::new())
    });
    let mut table = Table::default();
    assert_eq!(Drive::begin(&table, &flow).quiesce(&mut table).park_until(), Some(START + MINUTE));
}

#[test]
fn a_run_without_an_active_call_is_not_parked() {
    let flow = flow!(|_ctx| { std::future::pending().await });
    let stop = Drive::begin(&Table::default(), &flow).quiesce(&mut Table::default());
    assert_eq!((stop.park_until(), stop.timer()), (None, None));
}

#[test]
fn a_slow_body_gets_one_running_row() {
    let mut table = Table::default();
    let flow = flow!(|ctx| { ctx.step("a", || ctx.state().gated("a")).await });
    let mut drive = Drive::begin(&table, &flow);
    let at = drive.quiesce(&mut table).timer().unwrap();
    drive.set_now(at);
    assert_eq!(drive.quiesce(&mut table).timer(), None);
    assert_eq!(drive.events, ["write a#1 running"]);
    assert_eq!(drive.open("a", &mut table).value(), "<a>");
    assert_eq!(table.rows.len(), 1);
}

/// Returns a workflow that begins steps and a sleep, drops them in some phase, and then sleeps.
/// Only that last sleep may be left.
fn drops_then_sleeps(drop_at_gate: bool) -> Flow {
    if drop_at_gate {
        flow!(|ctx| {
            let step = ctx.step("a", || ctx.state().gated("a")).timeout(10 * MINUTE);
            let failing = ctx.step("b", async || Err::<(), _>(Error::msg("no"))).retry(Retry::fixed(MINUTE));
            let both = futures::future::join3(step, failing, ctx.sleep(MINUTE));
            select(Box::pin(both), ctx.step("go", || ctx.state().gated("go"))).await;
            ctx.sleep(5 * MINUTE).await?;
            Ok("done".into())
        })
    } else {
        flow!(|ctx| {
            let step = ctx.step("a", || ctx.state().gated("a"));
            let both = futures::future::join(step, ctx.sleep(MINUTE));
            select(Box::pin(both), std::future::ready(())).await;
            ctx.sleep(5 * MINUTE).await?;
            Ok("done".into())
        })
    }
}

fn assert_only_the_last_sleep_is_left(stop: &Stop, begun: workflow_sdk::Timestamp) {
    let until = Some(begun + 5 * MINUTE);
    assert_eq!((stop.park_until(), stop.timer()), (until, until));
}

#[test]
fn dropped_calls_that_run_back_off_or_sleep_leave_nothing_behind() {
    let mut table = Table::default();
    let mut drive = Drive::begin(&table, &drops_then_sleeps(true));
    drive.quiesce(&mut table);
    let stop = drive.open("go", &mut table);
    assert_only_the_last_sleep_is_left(&stop, START);
    assert!(!drive.cell.is_running());
    assert_eq!(drive.run(&mut table).value(), "done");
}

#[test]
fn calls_dropped_in_their_first_poll_leave_nothing_behind() {
    let mut table = Table::default();
    let mut drive = Drive::begin(&table, &drops_then_sleeps(false));
    assert_only_the_last_sleep_is_left(&drive.quiesce(&mut table), START);
    assert_eq!(drive.run(&mut table).value(), "done");
}

#[test]
fn dropped_calls_that_wait_to_start_leave_nothing_behind() {
    let mut table = Table::default();
    Drive::begin(&table, &drops_then_sleeps(true)).quiesce(&mut table);
    let table = &mut Table::default().with_value("go", 1, "\"\"");
    let mut drive = Drive::begin(table, &drops_then_sleeps(true));
    assert_only_the_last_sleep_is_left(&drive.quiesce(table), START);
    assert_eq!(drive.world.notes(), [""; 0]);
    assert_eq!(drive.events, ["deliver 3", "write sleep:1#1 running"]);
}

#[test]
fn dropped_calls_that_are_held_leave_nothing_behind() {
    let flow = flow!(|ctx| {
        let held = ctx.step("held", || ctx.state().gated("held"));
        select(Box::pin(held), Box::pin(ctx.sleep(MINUTE))).await;
        ctx.sleep(5 * MINUTE).await?;
        Ok("done".into())
    });
    let mut table = Table::default();
    Drive::begin(&table, &flow).quiesce(&mut table);
    let mut drive = Drive::begin(&table, &flow);
    // The sleep continues from its row. The body may begin, and is held before its first poll.
    drive.hold(true);
    drive.quiesce(&mut table);
    drive.hold(false);
    drive.waking(|cell| cell.next());
    drive.hold(true);
    assert_eq!(drive.advance().park_until(), None);
    drive.set_now(START + MINUTE);
    drive.fire_timers();
    drive.quiesce(&mut table);
    drive.hold(false);
    assert_only_the_last_sleep_is_left(&drive.quiesce(&mut table), START + MINUTE);
}

#[test]
fn a_dropped_call_with_an_undelivered_outcome_leaves_nothing_behind() {
    let flow = flow!(|ctx| {
        let (a, b) = (ctx.step("a", || ctx.state().body("a")), ctx.step("b", || ctx.state().body("b")));
        let (Either::Left((first, _)) | Either::Right((first, _))) = select(a, b).await;
        ctx.sleep(5 * MINUTE).await?;
        first
    });
    let mut table = Table::default();
    let mut drive = Drive::begin(&table, &flow);
    assert_only_the_last_sleep_is_left(&drive.quiesce(&mut table), START);
    assert_only_the_last_sleep_is_left(&Drive::begin(&table, &flow).quiesce(&mut table), START);
    assert_eq!(drive.run(&mut table).value(), "<a>");
}

#[test]
fn while_a_run_is_held_no_body_begins_and_the_run_is_not_parked() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let (value, slept) = futures::join!(ctx.step("a", || ctx.state().body("a")), ctx.sleep(MINUTE));
        slept?;
        value
    });
    let mut drive = Drive::begin(&table, &flow);
    drive.hold(true);
    assert_eq!(drive.quiesce(&mut table).park_until(), None);
    assert_eq!(drive.world.notes(), [""; 0]);
    drive.hold(false);
    drive.quiesce(&mut table);
    assert_eq!(drive.world.notes(), ["a"]);
}

#[test]
fn a_held_run_is_not_parked_while_a_call_waits_to_start() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let steps = async {
            ctx.step("a", || ctx.state().gated("a")).await?;
            ctx.step("b", || ctx.state().gated("b")).await
        };
        let (slept, value) = futures::join!(ctx.sleep(MINUTE), steps);
        slept?;
        value
    });
    let mut drive = Drive::begin(&table, &flow);
    drive.quiesce(&mut table);
    drive.hold(true);
    let stop = drive.open("a", &mut table);
    assert_eq!((stop.timer(), stop.park_until()), (Some(START + MINUTE), None));
    assert_eq!(drive.world.notes(), ["a"]);
    drive.hold(false);
    drive.quiesce(&mut table);
    assert_eq!(drive.world.notes(), ["a", "b"]);
}

#[test]
fn a_retry_that_is_due_while_a_run_is_held_begins_when_the_hold_ends() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let body = async || if ctx.attempt() == 1 { Err(Error::msg("no")) } else { ctx.state().body("a").await };
        ctx.step("a", body).retry(Retry::fixed(MINUTE)).await
    });
    let mut drive = Drive::begin(&table, &flow);
    drive.quiesce(&mut table);
    drive.hold(true);
    drive.set_now(START + MINUTE);
    drive.quiesce(&mut table);
    assert_eq!(drive.world.notes(), [""; 0]);
    drive.hold(false);
    assert_eq!(drive.quiesce(&mut table).value(), "<a>");
}

#[test]
fn recorded_outcomes_are_delivered_while_a_run_is_held() {
    let table = Table::default().with_value("a", 1, "\"1\"");
    let flow = flow!(|ctx| { ctx.step("a", || ctx.state().body("a")).await });
    let mut drive = Drive::begin(&table, &flow);
    drive.hold(true);
    assert_eq!(drive.advance().value(), "1");
}

#[test]
fn dropping_a_drive_drops_its_bodies() {
    let mut table = Table::default();
    let flow = flow!(|ctx| { ctx.step("a", || ctx.state().gated("a")).await });
    let mut drive = Drive::begin(&table, &flow);
    drive.quiesce(&mut table);
    drive.drop_future();
    assert_eq!(drive.world.closed(), [""; 0]);
    assert!(!drive.cell.is_running());
}
