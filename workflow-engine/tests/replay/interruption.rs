//! Interruptions: which calls of a run end with one, once, and at the same position on every
//! replay.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use workflow_engine::replay::Interruption;
use workflow_sdk::{AttemptStatus, Ctx, Error, ErrorKind, Result, StepKind};

use crate::delivery::outcomes;
use crate::harness::{Drive, Flow, START, Stop, Table, World, flow, row};

const MINUTE: Duration = Duration::from_secs(60);

/// Returns the table with a recorded interruption.
fn interrupted(table: Table, position: i64) -> Table {
    let row = row("interruption", 1, AttemptStatus::Succeeded, Some(position), Some("\"canceled\""));
    table.with(workflow_sdk::StepAttempt { kind: StepKind::Interruption, ..row })
}

/// Interrupts a waiting drive and runs it to the end. Then replays it, and returns the value.
fn interrupt(drive: &mut Drive, table: &mut Table, flow: &Flow) -> String {
    drive.interrupt(Interruption::Canceled);
    let value = drive.run(table).value();
    let mut replay = Drive::begin(table, flow);
    assert_eq!(replay.advance().value(), value, "{:?}", replay.events);
    assert_eq!(replay.world.notes(), [""; 0], "the replay began bodies");
    assert!(replay.in_flight.is_empty());
    value
}

fn kind<T>(result: &Result<T>) -> String {
    result.as_ref().err().map_or("ok".into(), |error| error.kind().to_string())
}

#[test]
fn the_pending_call_is_interrupted_once_after_the_commit_and_clean_up_runs() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let first = ctx.step("a", || ctx.state().gated("a")).await;
        let canceled = ctx.is_canceled();
        let error = first.unwrap_err();
        assert_eq!((error.kind(), error.step_key(), error.is_fatal()), (ErrorKind::Canceled, Some("a"), true));
        assert_eq!(error.message(), "the run was canceled");
        let cleaned = ctx.step("clean up", || ctx.state().body("clean up")).await?;
        ctx.sleep(MINUTE).await?;
        Ok(format!("{canceled} {cleaned}"))
    });
    let mut drive = Drive::begin(&table, &flow);
    drive.quiesce(&mut table);
    drive.interrupt(Interruption::Canceled);
    drive.interrupt(Interruption::Deadline);
    drive.advance();
    assert_eq!(drive.events, [""; 0], "the interruption is not delivered before its commit");
    assert_eq!(interrupt(&mut drive, &mut table, &flow), "true <clean up>");
    assert_eq!(drive.events[..2], ["write interruption#1 succeeded at 1", "interrupt [0]"]);
    assert_eq!(outcomes(&table), ["interruption", "clean up", "sleep"]);
    assert_eq!(table.rows[0].output.as_deref(), Some("\"canceled\""), "the first interruption counts");
}

#[test]
fn a_running_body_is_dropped() {
    struct Note<'a>(&'a World);
    impl Drop for Note<'_> {
        fn drop(&mut self) {
            self.0.note("dropped");
        }
    }
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let body = async || {
            let _note = Note(ctx.state());
            ctx.state().gated("a").await
        };
        let step = ctx.step("a", body);
        futures::pin_mut!(step);
        let ended = kind(&step.as_mut().await);
        // The step future is alive, and its body is dropped.
        Ok(format!("{ended} {}", ctx.state().notes().len()))
    });
    let mut drive = Drive::begin(&table, &flow);
    drive.quiesce(&mut table);
    drive.interrupt(Interruption::Canceled);
    assert_eq!(drive.run(&mut table).value(), "canceled 2");
    assert_eq!(drive.world.notes(), ["a", "dropped"]);
}

#[test]
fn every_pending_call_is_interrupted_in_one_poll() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let (a, b, c) = futures::join!(
            ctx.step("a", || ctx.state().gated("a")),
            ctx.sleep(MINUTE),
            ctx.step("c", || ctx.state().gated("c"))
        );
        Ok(format!("{} {} {}", kind(&a), kind(&b), kind(&c)))
    });
    let mut drive = Drive::begin(&table, &flow);
    drive.quiesce(&mut table);
    let polls = drive.polls;
    assert_eq!(interrupt(&mut drive, &mut table, &flow), "canceled canceled canceled");
    assert_eq!(drive.polls, polls + 1);
    assert_eq!(drive.events.last().unwrap(), "interrupt [0, 1, 2]");
}

#[test]
fn a_deadline_is_an_interruption_with_its_own_kind() {
    let mut table = Table::default();
    let flow = flow!(|ctx| { Err(Error::msg(kind(&ctx.sleep(MINUTE).await))) });
    let mut drive = Drive::begin(&table, &flow);
    drive.quiesce(&mut table);
    drive.interrupt(Interruption::Deadline);
    assert_eq!(drive.run(&mut table).error().message, "deadline");
    assert_eq!(Drive::begin(&table, &flow).advance().error().message, "deadline");
}

#[test]
fn an_interrupted_wait_sets_no_timer() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let _ = ctx.sleep(MINUTE).await;
        ctx.sleep(3 * MINUTE).await?;
        Ok("slept".into())
    });
    let mut drive = Drive::begin(&table, &flow);
    drive.quiesce(&mut table);
    drive.interrupt(Interruption::Canceled);
    assert_eq!(drive.quiesce(&mut table).park_until(), Some(START + 3 * MINUTE));
}

async fn both(ctx: &Ctx<World>) -> Result<String> {
    let a = ctx.step("a", || ctx.state().gated("a")).await?;
    let b = ctx.step("b", || ctx.state().body("b")).await?;
    Ok(a + &b)
}

#[test]
fn a_shielded_call_continues_and_the_next_call_ends_at_its_first_poll() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let shielded = ctx.shield(both(ctx)).await?;
        let next = ctx.step("next", || ctx.state().body("next")).await;
        let last = ctx.step("last", || ctx.state().body("last")).await;
        Ok(format!("{shielded} {} {}", kind(&next), kind(&last)))
    });
    let mut drive = Drive::begin(&table, &flow);
    drive.quiesce(&mut table);
    drive.interrupt(Interruption::Canceled);
    assert!(matches!(drive.quiesce(&mut table), Stop::Waits { .. }));
    assert_eq!(drive.events, ["write interruption#1 succeeded at 1", "interrupt []"]);
    drive.world.open("a", 0);
    assert_eq!(interrupt(&mut drive, &mut table, &flow), "<a><b> canceled ok");
    assert_eq!(drive.world.notes(), ["a", "b", "last"]);
}

#[test]
fn a_timeout_ends_no_shielded_part_when_the_run_is_told_to_end() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let shielded = ctx.timeout(MINUTE, ctx.shield(both(ctx))).await?;
        let bare = ctx.timeout(MINUTE, ctx.step("bare", || ctx.state().body("bare"))).await;
        Ok(format!("{shielded} {}", kind(&bare)))
    });
    let mut drive = Drive::begin(&table, &flow);
    drive.quiesce(&mut table);
    drive.interrupt(Interruption::Canceled);
    drive.quiesce(&mut table);
    drive.world.open("a", 0);
    assert_eq!(interrupt(&mut drive, &mut table, &flow), "<a><b> canceled");
    assert_eq!(drive.world.notes(), ["a", "b"]);
}

#[test]
fn a_call_is_shielded_where_it_is_awaited_and_not_where_it_is_made() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let (outside,) = ctx.shield(async { (ctx.step("outside", || ctx.state().gated("outside")),) }).await;
        let inside = ctx.step("inside", || ctx.state().gated("inside"));
        let (outside, inside) = futures::join!(outside, ctx.shield(inside));
        Ok(format!("{} {}", kind(&outside), kind(&inside)))
    });
    let mut drive = Drive::begin(&table, &flow);
    drive.quiesce(&mut table);
    drive.interrupt(Interruption::Canceled);
    drive.quiesce(&mut table);
    drive.world.open("inside", 0);
    assert_eq!(interrupt(&mut drive, &mut table, &flow), "canceled ok");
}

#[test]
fn a_shield_ends_with_its_poll_also_after_a_panic_and_when_nested() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let panics: std::thread::Result<()> =
            AssertUnwindSafe(ctx.shield(async { panic!("out of the shield") })).catch_unwind().await;
        assert!(panics.is_err());
        let both = ctx.shield(async {
            ctx.shield(std::future::ready(())).await;
            ctx.step("inner", || ctx.state().gated("inner")).await
        });
        let (both, bare) = futures::join!(both, ctx.step("bare", || ctx.state().gated("bare")));
        Ok(format!("{} {}", kind(&both), kind(&bare)))
    });
    let mut drive = Drive::begin(&table, &flow);
    drive.quiesce(&mut table);
    drive.interrupt(Interruption::Canceled);
    drive.quiesce(&mut table);
    drive.world.open("inner", 0);
    assert_eq!(interrupt(&mut drive, &mut table, &flow), "ok canceled");
}

#[test]
fn a_recorded_interruption_is_delivered_at_its_position_and_no_body_begins_before_it() {
    let flow = flow!(|ctx| {
        let a = ctx.step("a", || ctx.state().body("a")).await?;
        let b = ctx.step("b", || ctx.state().body("b")).await;
        let c = ctx.step("c", || ctx.state().body("c")).await?;
        Ok(format!("{a} {} {c}", kind(&b)))
    });
    let mut table = interrupted(Table::default().with_value("a", 1, "\"1\""), 2);
    let mut drive = Drive::begin(&table, &flow);
    assert_eq!(drive.run(&mut table).value(), "1 canceled <c>");
    assert_eq!(drive.world.notes(), ["c"]);
    assert_eq!(drive.events, ["deliver 0", "interrupt [1]", "start 2", "write c#1 succeeded at 3", "deliver 2"]);
}

#[test]
fn outcomes_and_the_interruption_are_delivered_in_the_order_of_their_positions() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let (a, b) = futures::join!(ctx.step("a", || ctx.state().gated("a")), ctx.step("b", || ctx.state().gated("b")));
        ctx.step("end", || ctx.state().body("end")).await?;
        Ok(format!("{} {}", kind(&a), kind(&b)))
    });
    let mut drive = Drive::begin(&table, &flow);
    drive.quiesce(&mut table);
    // The outcome of `a` is final before the interruption, and the outcome of `b` after it. All are
    // committed later.
    drive.world.open("a", 0);
    drive.take_wakes();
    drive.advance();
    drive.interrupt(Interruption::Canceled);
    drive.advance();
    drive.world.open("b", 0);
    drive.take_wakes();
    drive.advance();
    assert_eq!(drive.in_flight.len(), 3);
    assert_eq!(interrupt(&mut drive, &mut table, &flow), "ok canceled");
    assert_eq!(outcomes(&table), ["a", "interruption", "b", "end"]);
}

#[test]
fn no_body_begins_that_is_about_to_be_interrupted() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        ctx.step("a", || ctx.state().gated("a")).await?;
        let (b, c) = futures::join!(
            ctx.step("b", || ctx.state().body("b")),
            ctx.shield(ctx.step("c", || ctx.state().body("c")))
        );
        Ok(format!("{} {}", kind(&b), kind(&c)))
    });
    let mut drive = Drive::begin(&table, &flow);
    drive.quiesce(&mut table);
    drive.world.open("a", 0);
    drive.take_wakes();
    drive.advance();
    drive.interrupt(Interruption::Canceled);
    assert_eq!(interrupt(&mut drive, &mut table, &flow), "canceled ok");
    assert_eq!(drive.world.notes(), ["a", "c"]);
}

#[test]
fn a_step_named_interruption_gets_another_key() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let name = ctx.step("interruption", async || Ok::<_, Error>(ctx.idempotency_key().to_owned())).await?;
        let _ = ctx.sleep(MINUTE).await;
        Ok(name.split_once('/').unwrap().1.to_owned())
    });
    let mut drive = Drive::begin(&table, &flow);
    drive.quiesce(&mut table);
    assert_eq!(interrupt(&mut drive, &mut table, &flow), "interruption:1");
    assert_eq!(outcomes(&table), ["interruption:1", "interruption"]);
}

#[test]
fn an_interruption_is_not_delivered_to_a_step_that_was_inserted_before_recorded_ones() {
    let flow = flow!(|ctx| {
        let mut seen = Vec::new();
        for name in ["a", "new", "b", "c"] {
            seen.push(kind(&ctx.step(name, || ctx.state().body(name)).await));
        }
        Ok(seen.join(" "))
    });
    let recorded = Table::default().with_value("a", 1, "\"\"").with_value("b", 2, "\"\"");
    let mut drive = Drive::begin(&recorded, &flow);
    drive.interrupt(Interruption::Canceled);
    assert!(drive.advance().divergence().summary().starts_with("nothing asks for step \"b\""));
    let mut table = interrupted(recorded, 3);
    let mut drive = Drive::begin(&table, &flow);
    assert!(drive.run(&mut table).divergence().summary().starts_with("nothing asks for step \"b\""));
    assert_eq!((drive.events.as_slice(), drive.world.notes()), (["deliver 0".to_owned()].as_slice(), Vec::new()));
}

#[test]
fn a_workflow_that_ends_before_its_interruption_gets_no_interruption() {
    let flow = flow!(|ctx| { ctx.step("a", || ctx.state().body("a")).await });
    let table = interrupted(Table::default().with_value("a", 1, "\"1\""), 2);
    let mut drive = Drive::begin(&table, &flow);
    assert_eq!(drive.advance().value(), "1");
    assert!(!drive.cell.interrupted().unwrap().delivered);
}
