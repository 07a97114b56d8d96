//! Compensations of runs that fail or are canceled.

use std::sync::Arc;
use std::time::Duration;

use workflow_engine::replay::Interruption;
use workflow_sdk::{AttemptStatus, Ctx, Error, ErrorKind, Result, Retry, StepKind, StoredError};

use crate::delivery::outcomes;
use crate::harness::{Drive, Flow, START, Stop, Table, World, flow, run_and_replay};

/// Returns the body of a compensation that notes its name.
fn noted(name: &'static str) -> impl FnMut(Arc<World>, ()) -> futures::future::BoxFuture<'static, Result<()>> + Send {
    move |world, ()| {
        Box::pin(async move {
            world.note(name);
            Ok(())
        })
    }
}

fn refused(error: Error) -> StoredError {
    let stored = StoredError::new(error.kind(), error.message());
    assert_eq!((error.kind(), error.is_fatal()), (ErrorKind::Refused, true), "{error}");
    stored
}

/// Runs the steps `a` and `b`, each with a compensation, then ends with the result of `end`.
fn books(end: fn() -> Result<String>) -> Flow {
    crate::harness::flow_of(move |ctx: &Ctx<World>| {
        Box::pin(async move {
            ctx.step("a", || ctx.state().body("a")).await?;
            let _a = ctx.compensate("undo a", (), noted("undo a"))?;
            ctx.step("b", || ctx.state().body("b")).await?;
            let _b = ctx.compensate("undo b", (), noted("undo b"))?;
            ctx.sleep(Duration::from_secs(60)).await?;
            end()
        })
    })
}

#[test]
fn a_run_that_fails_is_undone_in_reverse_order_and_keeps_its_error() {
    let mut table = Table::default();
    let (result, notes) = run_and_replay(&mut table, &books(|| Err(Error::msg("no luck"))));
    let error = result.unwrap_err();
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Application, "no luck"));
    assert_eq!(error.causes, [""; 0]);
    assert_eq!(notes, ["a", "b", "undo b", "undo a"]);
    assert_eq!(outcomes(&table), ["a", "b", "sleep", "undo b", "undo a"]);
    let kinds: Vec<_> = table.rows.iter().filter(|row| row.kind == StepKind::Compensation).collect();
    assert_eq!(kinds.len(), 2);
}

#[test]
fn a_run_that_panics_is_undone_too() {
    let (result, notes) = run_and_replay(&mut Table::default(), &books(|| panic!("on purpose")));
    assert_eq!(result.unwrap_err().to_string(), "the workflow panicked: on purpose");
    assert_eq!(notes, ["a", "b", "undo b", "undo a"]);
}

#[test]
fn a_run_that_succeeds_is_not_undone() {
    let (result, notes) = run_and_replay(&mut Table::default(), &books(|| Ok("done".into())));
    assert_eq!(result.unwrap(), "done");
    assert_eq!(notes, ["a", "b"]);
}

#[test]
fn a_canceled_run_is_undone() {
    let mut table = Table::default();
    let flow = books(|| Ok(String::new()));
    let mut drive = Drive::begin(&table, &flow);
    drive.quiesce(&mut table);
    drive.interrupt(Interruption::Canceled);
    let error = drive.run(&mut table).error();
    assert_eq!((error.kind, error.step_key.as_deref()), (ErrorKind::Canceled, Some("sleep")));
    assert_eq!(drive.world.notes(), ["a", "b", "undo b", "undo a"]);
    assert_eq!(Drive::begin(&table, &flow).advance().error(), error);
}

#[test]
fn a_value_that_is_returned_after_a_deadline_is_undone_on_each_replay() {
    let flow = flow!(|ctx| {
        let _undo = ctx.compensate("undo", (), noted("undo"))?;
        let _ = ctx.sleep(Duration::from_secs(60)).await;
        Ok("done".into())
    });
    let interrupted = |by| {
        let mut table = Table::default();
        let mut drive = Drive::begin(&table, &flow);
        drive.quiesce(&mut table);
        drive.interrupt(by);
        let end = drive.run(&mut table);
        (end, drive.world.notes(), table)
    };
    let (end, notes, _) = interrupted(Interruption::Canceled);
    assert_eq!((end.value().as_str(), notes.len()), ("done", 0), "a canceled run may succeed");

    let (end, notes, mut table) = interrupted(Interruption::Deadline);
    let error = end.error();
    assert_eq!((error.kind, error.causes.len(), notes), (ErrorKind::Deadline, 0, vec!["undo".to_owned()]));
    let mut replay = Drive::begin(&table, &flow);
    assert_eq!(replay.advance().error(), error);
    assert_eq!(replay.world.notes(), [""; 0]);
    table.rows.retain(|row| row.kind != StepKind::Compensation);
    let mut drive = Drive::begin(&table, &flow);
    assert_eq!(drive.run(&mut table).error(), error, "after a crash before the compensation");
    assert_eq!(drive.world.notes(), ["undo"]);
}

/// The limit of a history must not end a run while it is undone.
#[test]
fn the_rows_that_a_failed_function_leaves_do_not_count_for_the_size_of_the_history() {
    let flow = flow!(|ctx| {
        let _undo = ctx.compensate("undo", (), noted("undo"))?;
        let fails = async {
            ctx.step("a", || ctx.state().gated("a")).await?;
            Err(Error::msg("no luck"))
        };
        futures::try_join!(ctx.approval("ship"), fails).map(|(_, end)| end)
    });
    let mut table = Table::default();
    let mut drive = Drive::begin(&table, &flow);
    drive.quiesce(&mut table);
    assert_eq!(drive.open("a", &mut table).error().message, "no luck");
    let mut rows: Vec<_> = table.rows.iter().map(|row| (row.step_key.as_str(), row.status)).collect();
    rows.sort_unstable_by_key(|(key, _)| *key);
    let succeeded = AttemptStatus::Succeeded;
    assert_eq!(rows, [("a", succeeded), ("ship", succeeded), ("undo", succeeded)]);
    assert_eq!(drive.cell.history_size().steps, 1);
    assert_eq!(Drive::begin(&table, &flow).cell.history_size().steps, 1);
}

#[test]
fn an_interruption_does_not_end_compensations() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let body = |world: Arc<World>, ()| async move { world.gated("undo").await };
        let _undo = ctx.compensate("undo", (), body)?;
        Err(Error::msg("no luck"))
    });
    let mut drive = Drive::begin(&table, &flow);
    drive.quiesce(&mut table);
    drive.interrupt(Interruption::Canceled);
    assert!(matches!(drive.quiesce(&mut table), Stop::Waits { .. }));
    assert_eq!(drive.open("undo", &mut table).error().message, "no luck");
}

#[test]
fn pending_calls_are_dropped_before_the_compensations() {
    let flow = flow!(|ctx| {
        let _undo = ctx.compensate("undo", (), noted("undo"))?;
        let fails = async { Err::<String, _>(Error::msg("no luck")) };
        futures::try_join!(ctx.step("endless", || ctx.state().gated("endless")), fails).map(|_| String::new())
    });
    let mut table = Table::default();
    let mut drive = Drive::begin(&table, &flow);
    assert_eq!(drive.run(&mut table).error().message, "no luck");
    assert!(drive.world.closed().is_empty(), "the pending body is dropped");
}

#[test]
fn after_a_crash_between_two_compensations_the_first_is_not_run_again() {
    let mut table = Table::default();
    let flow = books(|| Err(Error::msg("no luck")));
    Drive::begin(&table, &flow).run(&mut table);
    table.rows.retain(|row| row.step_key != "undo a");
    let mut drive = Drive::begin(&table, &flow);
    assert_eq!(drive.run(&mut table).error().message, "no luck");
    assert_eq!(drive.world.notes(), ["undo a"]);
}

#[test]
fn a_failed_compensation_does_not_stop_the_others_and_is_reported() {
    let flow = flow!(|ctx| {
        let _first = ctx.compensate("first", (), noted("first"))?;
        let body = |_: Arc<World>, ()| async { Err::<(), _>(Error::fatal("the bank is closed")) };
        let _second = ctx.compensate("second", (), body)?;
        let _third = ctx.compensate("third", (), noted("third"))?;
        ctx.sleep(Duration::from_secs(60)).await?;
        Err(Error::msg("no luck"))
    });
    let mut table = Table::default();
    let (result, notes) = run_and_replay(&mut table, &flow);
    let error = result.unwrap_err();
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Application, "no luck"));
    assert_eq!(error.causes, ["compensation failed: step \"second\": the bank is closed"]);
    assert_eq!(notes, ["third", "first"]);

    // A failed compensation is the error of a canceled run.
    let mut table = Table::default();
    let mut drive = Drive::begin(&table, &flow);
    drive.quiesce(&mut table);
    drive.interrupt(Interruption::Canceled);
    let error = drive.run(&mut table).error();
    assert_eq!(error.kind, ErrorKind::Compensation);
    assert_eq!(error.causes, ["compensation failed: step \"second\": the bank is closed"]);
}

#[test]
fn a_compensation_is_retried_by_its_own_policy() {
    let flow = flow!(|ctx| {
        let mut left = 2;
        let body = move |world: Arc<World>, ()| {
            left -= 1;
            world.note("undo");
            async move { if left > 0 { Err(Error::msg("busy")) } else { Ok(()) } }
        };
        let _undo = ctx.compensate("undo", (), body)?.retry(Retry::fixed(Duration::from_secs(5)));
        Err(Error::msg("no luck"))
    });
    let mut table = Table::default();
    let mut drive = Drive::begin(&table, &flow);
    assert_eq!(
        drive.quiesce(&mut table).park_until(),
        Some(START + Duration::from_secs(5)),
        "the back-off is a durable wait"
    );
    assert_eq!(drive.run(&mut table).error().causes, [""; 0]);
    assert_eq!(drive.world.notes(), ["undo", "undo"]);
    let statuses: Vec<_> = table.rows.iter().map(|row| (row.attempt, row.status)).collect();
    assert_eq!(statuses, [(1, AttemptStatus::Failed), (2, AttemptStatus::Succeeded)]);
    assert!(Retry::COMPENSATION_DEFAULT.delay_after(24, 1.0) > Retry::STEP_DEFAULT.delay_after(9, 1.0));
}

#[test]
fn an_attempt_of_a_compensation_can_time_out() {
    let flow = flow!(|ctx| {
        let body = |world: Arc<World>, ()| async move { world.gated("undo").await };
        let _undo = ctx.compensate("undo", (), body)?.timeout(Duration::from_secs(3)).retry(Retry::none());
        Err(Error::msg("no luck"))
    });
    let error = Drive::begin(&Table::default(), &flow).run(&mut Table::default()).error();
    assert_eq!(error.causes, ["compensation failed: step \"undo\": attempt 1 took longer than its timeout of 3s"]);
}

#[test]
fn a_disarmed_compensation_does_not_run() {
    let flow = flow!(|ctx| {
        let first = ctx.compensate("first", (), noted("first"))?;
        let second = ctx.compensate("second", (), noted("second"))?;
        first.disarm();
        drop(second);
        Err(Error::msg("no luck"))
    });
    assert_eq!(
        run_and_replay(&mut Table::default(), &flow).1,
        ["second"],
        "a dropped guard leaves its compensation armed"
    );
}

#[test]
fn a_repeated_name_gets_its_key_where_it_is_armed() {
    let flow = flow!(|ctx| {
        for _ in 0..2 {
            let _undo = ctx.compensate("undo", (), noted("undo"))?;
        }
        Err(Error::msg("no luck"))
    });
    let mut table = Table::default();
    run_and_replay(&mut table, &flow).0.unwrap_err();
    assert_eq!(outcomes(&table), ["undo:1", "undo"]);
}

#[test]
fn a_compensation_for_a_step_that_never_ran_is_refused_and_disarmed() {
    let flow = flow!(|ctx| {
        ctx.step("reserve", || ctx.state().body("reserve")).await?;
        let failed = ctx.step("charge", async || Err::<(), _>(Error::fatal("refused"))).await;
        assert!(failed.is_err());
        let good = ctx.compensate("release", (), noted("release"))?.undoes("reserve")?;
        drop(good);
        let refusal = ctx.compensate("refund", (), noted("refund"))?.undoes("charge").unwrap_err();
        Err(Error::msg(refused(refusal).message))
    });
    let (result, notes) = run_and_replay(&mut Table::default(), &flow);
    assert_eq!(
        result.unwrap_err().message,
        "compensation \"refund\" is to undo \"charge\", but no call with that key has succeeded in this run; \
         these have: [\"reserve\"]; call ctx.compensate after the step that it undoes"
    );
    assert_eq!(notes, ["reserve", "release"]);
}

#[test]
fn a_compensation_is_refused_under_a_bad_name_and_inside_the_body_of_a_step() {
    let flow = flow!(|ctx| {
        let name = refused(ctx.compensate("", (), noted("")).unwrap_err());
        let body = async || Ok::<_, Error>(refused(ctx.compensate("undo", (), noted("undo")).unwrap_err()).message);
        let place = ctx.step("a", body).await?;
        Ok(format!("{name}; {place}"))
    });
    let (result, _) = run_and_replay(&mut Table::default(), &flow);
    let told = result.unwrap();
    assert!(told.starts_with("step name \"\" is empty") && told.contains("inside the body of step \"a\""), "{told}");
}
