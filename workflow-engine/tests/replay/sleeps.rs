//! Sleeps are durable and resume after a park, and code cannot catch the park.

use std::time::Duration;

use workflow_sdk::{AttemptStatus, Ctx, Result, StepKind};

use crate::harness::{Drive, Flow, START, Stop, Table, World, flow, run_and_replay};

const MINUTE: Duration = Duration::from_secs(60);

fn sleeps_a_minute() -> Flow {
    flow!(|ctx| {
        ctx.sleep(MINUTE).await?;
        Ok(format!("{:?}", ctx.now().duration_since(START.into()).unwrap()))
    })
}

#[test]
fn a_sleep_writes_a_running_row_with_its_wake_time_before_the_run_may_be_parked() {
    let mut table = Table::default();
    let mut drive = Drive::begin(&table, &sleeps_a_minute());
    assert_eq!(drive.advance().park_until(), None, "the row of the sleep is not committed");
    assert!(drive.commit(&mut table).unwrap());
    assert_eq!(drive.advance().park_until(), Some(START + MINUTE));
    let row = &table.rows[0];
    assert_eq!((row.status, row.kind, row.position), (AttemptStatus::Running, StepKind::Sleep, None));
    assert_eq!(row.output, Some((START + MINUTE).as_micros().to_string()));
}

#[test]
fn after_a_park_a_sleep_ends_at_the_wake_time_that_was_recorded() {
    let mut table = Table::default();
    Drive::begin(&table, &sleeps_a_minute()).quiesce(&mut table);
    let mut drive = Drive::begin_at(&table, &sleeps_a_minute(), START + MINUTE / 2, World::default());
    assert_eq!(drive.quiesce(&mut table).park_until(), Some(START + MINUTE));
    assert_eq!(drive.events, [""; 0], "the sleep continues without a write");
    assert_eq!(drive.run(&mut table).value(), "60s");
    assert_eq!(table.rows.len(), 1);
    assert_eq!(Drive::begin(&table, &sleeps_a_minute()).advance().value(), "60s");
}

#[test]
fn a_sleep_that_is_over_when_the_run_resumes_ends_at_once() {
    let mut table = Table::default();
    Drive::begin(&table, &sleeps_a_minute()).quiesce(&mut table);
    let mut drive = Drive::begin_at(&table, &sleeps_a_minute(), START + 2 * MINUTE, World::default());
    assert_eq!(drive.quiesce(&mut table).value(), "120s");
}

#[test]
fn a_sleep_until_an_instant_that_has_passed_ends_at_once() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        ctx.sleep_until(std::time::UNIX_EPOCH).await?;
        ctx.sleep_until(START).await?;
        ctx.sleep(Duration::ZERO).await?;
        Ok("awake".into())
    });
    let mut drive = Drive::begin(&table, &flow);
    assert_eq!(drive.quiesce(&mut table).value(), "awake");
    assert_eq!(Drive::begin(&table, &flow).advance().value(), "awake");
}

#[test]
fn a_step_beside_a_sleep_runs_once() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let (slept, value) = futures::join!(ctx.sleep(MINUTE), ctx.step("a", || ctx.state().body("a")));
        slept?;
        value
    });
    let mut drive = Drive::begin(&table, &flow);
    assert_eq!(drive.quiesce(&mut table).park_until(), Some(START + MINUTE));
    assert_eq!(drive.world.notes(), ["a"]);
    let (result, notes) = run_and_replay(&mut table, &flow);
    assert_eq!(result.unwrap(), "<a>");
    assert_eq!(notes, [""; 0]);
}

#[test]
fn code_that_catches_every_error_cannot_catch_a_park() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let slept = match ctx.sleep(MINUTE).await {
            Ok(()) => "slept",
            Err(_) => "caught",
        };
        let guarded = std::panic::AssertUnwindSafe(ctx.sleep(MINUTE));
        let again = match futures::FutureExt::catch_unwind(guarded).await {
            Ok(Ok(())) => "slept",
            Ok(Err(_)) | Err(_) => "caught",
        };
        Ok(format!("{slept} {again}"))
    });
    let mut now = START;
    let value = loop {
        let mut drive = Drive::begin_at(&table, &flow, now, World::default());
        match drive.quiesce(&mut table) {
            Stop::Ended(result) => break result.unwrap(),
            stop => now = stop.park_until().expect("the run may be parked"),
        }
        assert!(now <= START + 2 * MINUTE, "a sleep began again");
    };
    assert_eq!(value, "slept slept");
}

#[test]
fn a_dropped_sleep_sets_no_timer() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let sleep = ctx.sleep(MINUTE);
        futures::future::select(sleep, ctx.step("a", || ctx.state().body("a"))).await;
        ctx.step("b", || ctx.state().gated("b")).await
    });
    let mut drive = Drive::begin(&table, &flow);
    let stop = drive.quiesce(&mut table);
    assert_eq!(stop.park_until(), None);
    let shown = Duration::from_millis(20);
    assert_eq!(stop.timer(), Some(START + shown), "the only timer is the running row of b");
    drive.set_now(START + shown);
    assert_eq!(drive.quiesce(&mut table).timer(), None);
    assert_eq!(drive.open("b", &mut table).value(), "<b>");
}
