//! Retries of a failed run: steps whose failures lost their positions are attempted again, and no
//! other step is.

use std::time::Duration;

use fastrand::Rng;
use workflow_sdk::{AttemptStatus, Ctx, Error, ErrorKind, Result, Retry, RunId, StepAttempt, StepKind, StoredError};

use crate::external_events::{TAKEN_KEY, kid};
use crate::harness::{Delivery, Drive, Flow, START, Table, World, flow, row, run_and_replay};
use crate::program::{Leaves, Node, random};
use crate::properties::{cases, for_all};
use crate::random_drives::{End, check_bodies, check_drive_after, check_full_replay, drive_at_random};

fn failed(key: &str, position: Option<i64>) -> StepAttempt {
    let error = Some(StoredError::new(ErrorKind::Application, "no"));
    StepAttempt { error, ..row(key, 1, AttemptStatus::Failed, position, None) }
}

#[test]
fn outcomes_after_the_failure_are_kept_and_may_be_left_out() {
    let flow = flow!(|ctx| {
        let body = async || if ctx.attempt() == 1 { Err(Error::msg("no")) } else { Ok(7) };
        let value = ctx.step("a", body).retry(Retry::none()).await;
        if value.is_err() {
            ctx.step("apologize", async || Ok::<_, Error>(1)).await?;
        }
        Ok(value?.to_string())
    });
    let mut table = Table::default();
    assert!(run_and_replay(&mut table, &flow).0.is_err());
    table.retry(1);
    assert_eq!(run_and_replay(&mut table, &flow).0.unwrap(), "7");
    let positions: Vec<_> = table.rows.iter().map(|row| (row.step_key.as_str(), row.attempt, row.position)).collect();
    assert_eq!(positions, [("a", 1, None), ("apologize", 1, Some(2)), ("a", 2, Some(3))]);
}

#[test]
fn outcomes_before_the_failure_must_be_asked_for() {
    let flow = flow!(|ctx| { ctx.step("b", async || Ok::<_, Error>("b".to_owned())).retry(Retry::none()).await });
    let table = Table::default().with_value("a", 1, "1").with(failed("b", None)).with_value("c", 3, "1");
    let mut drive = Drive::begin(&table, &flow);
    let divergence = drive.run(&mut table.clone()).divergence().to_string();
    assert!(divergence.contains("recorded: #1 step \"a\" (succeeded, 1 byte)\n  current:"), "{divergence}");
}

#[test]
fn an_exhausted_step_gets_one_attempt_without_delay() {
    let flow = flow!(|ctx| {
        let policy = Retry::fixed(Duration::from_secs(10)).max_attempts(1);
        let body = async || Err::<String, _>(Error::msg(format!("failed {}", ctx.attempt())));
        ctx.step("a", body).retry(policy).await
    });
    let mut table = Table::default().with(failed("a", None));
    let mut drive = Drive::begin_at(&table, &flow, START, World::default());
    assert_eq!(drive.run(&mut table).error().message, "failed 2");
    assert_eq!(table.rows.len(), 2);
}

/// Returns a workflow whose step may be attempted this often and always fails, in its first attempt
/// for good.
fn fails_at_once_for_good<const ATTEMPTS: u32>() -> Flow {
    flow!(|ctx| {
        let policy = Retry::fixed(Duration::from_secs(10)).max_attempts(ATTEMPTS);
        let body = async || match ctx.attempt() {
            1 => Err::<String, _>(Error::fatal("failed 1")),
            number => Err(Error::msg(format!("failed {number}"))),
        };
        ctx.step("a", body).retry(policy).await
    })
}

#[test]
fn a_retried_step_has_all_attempts_of_its_policy_wherever_it_failed() {
    let mut table = Table::default();
    assert_eq!(Drive::begin(&table, &fails_at_once_for_good::<3>()).run(&mut table).error().message, "failed 1");
    table.retry(1);
    let mut drive = Drive::begin(&table, &fails_at_once_for_good::<3>());
    assert_eq!(drive.quiesce(&mut table).timer(), Some(START + Duration::from_secs(10)), "it began at once");
    // The next drive goes on with the round.
    drop(drive);
    assert_eq!(Drive::begin(&table, &fails_at_once_for_good::<3>()).run(&mut table).error().message, "failed 4");
    let left = |table: &Table| -> Vec<_> {
        table.rows.iter().map(|row| row.error.as_ref().and_then(|error| error.attempts_left)).collect()
    };
    assert_eq!(left(&table), [None, Some(2), Some(1), None]);
    // A deploy has changed the policy.
    table.retry(1);
    assert_eq!(Drive::begin(&table, &fails_at_once_for_good::<2>()).run(&mut table).error().message, "failed 6");
    assert_eq!(left(&table), [None, Some(2), Some(1), None, Some(1), None]);
}

#[test]
fn an_attempt_that_was_dropped_ends_no_round() {
    let mut dropped = failed("a", None);
    dropped.error = Some(StoredError::new(ErrorKind::Canceled, "the step was dropped before its attempt ended"));
    let mut table = Table { retries: 1, ..Table::default() }.with(dropped);
    assert_eq!(Drive::begin(&table, &fails_at_once_for_good::<3>()).run(&mut table).error().message, "failed 3");
}

/// Runs the program, retries it from one of its failures, and crashes that drive after every
/// commit.
fn retry_everywhere(program: &Node, seed: u64) -> Result<usize, String> {
    let (flow, mut rng) = (program.flow(), Rng::with_seed(seed));
    let first = drive_at_random(&flow, &Table::default(), START, Delivery::OneByOne, &mut rng)?;
    let failures = |row: &StepAttempt| row.position.filter(|_| row.status == AttemptStatus::Failed);
    let failures: Vec<i64> = first.table.rows.iter().filter_map(failures).collect();
    // A run with completed compensations cannot be retried.
    if failures.is_empty() || first.table.rows.iter().any(|row| row.kind == StepKind::Compensation) {
        return Ok(0);
    }
    let mut table = first.table.clone();
    table.retry(failures[rng.usize(..failures.len())]);
    table.external.end_with_parent(&mut rng);
    let later = START + Duration::from_secs(10);
    let second = drive_at_random(&flow, &table, later, Delivery::OneByOne, &mut rng)?;
    if let End::Diverged(divergence) = &second.end {
        return Err(divergence.to_string());
    }
    check_bodies(&table, &second.begun)?;
    check_full_replay(&flow, &second, Delivery::OneByOne)?;
    for point in &second.crash_points {
        let third = drive_at_random(&flow, &point.table, point.now, Delivery::OneByOne, &mut rng)?;
        check_drive_after(point, &second, &third)?;
        check_full_replay(&flow, &third, Delivery::OneByOne)?;
    }
    Ok(second.crash_points.len())
}

#[test]
fn a_retried_run_keeps_every_other_outcome() {
    for (what, leaves) in [("retried run", Leaves::WithoutTime), ("retried run with waits and children", Leaves::Any)] {
        let program = |seed: u64| {
            let mut rng = Rng::with_seed(seed);
            let depth = rng.u32(1..=3);
            random(&mut rng, depth, leaves).with_own_names()
        };
        for_all(what, cases(1500), program, retry_everywhere);
    }
}

const MINUTE: Duration = Duration::from_secs(60);

fn begin_later(table: &Table, flow: &Flow) -> Drive {
    Drive::begin_at(table, flow, START + 60 * MINUTE, World::default())
}

/// Returns key, attempt, status and position of each row.
fn rows(table: &Table) -> Vec<(&str, i64, AttemptStatus, Option<i64>)> {
    table.rows.iter().map(|row| (row.step_key.as_str(), row.attempt, row.status, row.position)).collect()
}

fn child_fails() -> StoredError {
    StoredError::new(ErrorKind::Application, "no luck")
}

fn needs_its_child() -> Flow {
    flow!(|ctx| { Ok(ctx.child(kid, ()).await?.to_string()) })
}

/// Returns the history of a run that failed with its child and is retried.
fn retried_with_its_child(flow: &Flow) -> (Table, RunId) {
    let mut table = Table::default();
    let mut drive = Drive::begin(&table, flow);
    drive.quiesce(&mut table);
    let first = table.external.children["kid"].run_id;
    drive.notify(&mut table, |external| external.end_child("kid", Err(child_fails()))).error();
    table.retry(1);
    (table, first)
}

#[test]
fn a_retried_run_starts_its_failed_child_anew() {
    let flow = needs_its_child();
    let (mut table, first) = retried_with_its_child(&flow);
    let mut drive = begin_later(&table, &flow);
    assert!(drive.quiesce(&mut table).park_until().is_some());
    let second = table.external.children["kid"].run_id;
    assert_ne!(second, first);
    // The next drive waits for the second child.
    drop(drive);
    let mut drive = begin_later(&table, &flow);
    drive.quiesce(&mut table);
    assert_eq!(drive.events, [""; 0]);
    assert_eq!(drive.notify(&mut table, |external| external.end_child("kid", Ok("7".into()))).value(), "7");
    assert_eq!(table.external.children["kid"].run_id, second);
    assert_eq!(rows(&table), [("kid", 1, AttemptStatus::Failed, None), ("kid", 2, AttemptStatus::Succeeded, Some(1))]);
    assert_eq!(begin_later(&table, &flow).advance().value(), "7");
}

/// An operator has retried the child and then its parent.
#[test]
fn a_retried_run_waits_for_a_child_that_was_retried_too() {
    let flow = needs_its_child();
    for succeeds in [true, false] {
        let (mut table, first) = retried_with_its_child(&flow);
        table.external.children.get_mut("kid").unwrap().end = None;
        for _ in 0..2 {
            let mut drive = begin_later(&table, &flow);
            assert!(drive.quiesce(&mut table).park_until().is_some());
            assert_eq!(rows(&table)[1], ("kid", 2, AttemptStatus::Running, None), "the row says what is awaited");
            assert_eq!(table.external.children["kid"].run_id, first);
        }
        // A second retry changes nothing of that.
        table.retry(1);
        table.external.end_child("kid", if succeeds { Ok("7".into()) } else { Err(child_fails()) });
        let mut drive = begin_later(&table, &flow);
        if succeeds {
            assert_eq!(drive.quiesce(&mut table).value(), "7");
            assert_eq!(rows(&table)[1], ("kid", 2, AttemptStatus::Succeeded, Some(1)));
        } else {
            drive.quiesce(&mut table);
            assert_ne!(table.external.children["kid"].run_id, first);
            let end = drive.notify(&mut table, |external| external.end_child("kid", Ok("8".into())));
            assert_eq!(end.value(), "8");
            assert_eq!(rows(&table)[2], ("kid", 3, AttemptStatus::Succeeded, Some(1)));
        }
        let value = begin_later(&table, &flow).advance().value();
        assert_eq!(value, if succeeds { "7" } else { "8" });
    }
}

/// Waits for a child beside a step that fails in its first attempt.
fn child_beside_a_step() -> Flow {
    flow!(|ctx| {
        let body = async || if ctx.attempt() == 1 { Err(Error::msg("no")) } else { Ok(1) };
        let (child, _) = futures::try_join!(ctx.child(kid, ()), ctx.step("a", body).retry(Retry::none()))?;
        Ok(child.to_string())
    })
}

/// Returns the history of a run that failed beside its child and is retried.
fn retried_beside_its_child(flow: &Flow) -> (Table, RunId) {
    let mut table = Table::default();
    Drive::begin(&table, flow).quiesce(&mut table).error();
    let first = table.external.children["kid"].run_id;
    table.retry(1);
    (table, first)
}

#[test]
fn a_child_that_was_canceled_with_its_parent_is_started_anew() {
    let flow = child_beside_a_step();
    let (mut table, first) = retried_beside_its_child(&flow);
    let mut drive = begin_later(&table, &flow);
    drive.quiesce(&mut table);
    assert_eq!(table.external.children["kid"].run_id, first, "the first child has not ended");
    let canceled = StoredError::new(ErrorKind::ChildCanceled, "the child was canceled");
    drive.notify(&mut table, |external| external.end_child("kid", Err(canceled)));
    assert_ne!(table.external.children["kid"].run_id, first);
    let end = drive.notify(&mut table, |external| external.end_child("kid", Ok("7".into())));
    assert_eq!(end.value(), "7");
    let kid = |row: &&(&str, i64, AttemptStatus, Option<i64>)| row.0 == "kid";
    let of_child: Vec<_> = rows(&table).iter().filter(kid).map(|row| (row.1, row.2)).collect();
    assert_eq!(of_child, [(1, AttemptStatus::Failed), (2, AttemptStatus::Succeeded)]);
    assert_eq!(begin_later(&table, &flow).advance().value(), "7");
}

#[test]
fn a_child_that_outlives_the_failure_of_its_parent_is_awaited() {
    let flow = child_beside_a_step();
    for fails in [false, true] {
        let (mut table, first) = retried_beside_its_child(&flow);
        let mut drive = begin_later(&table, &flow);
        drive.quiesce(&mut table);
        let end = if fails { Err(child_fails().fatal()) } else { Ok("7".into()) };
        let end = drive.notify(&mut table, |external| external.end_child("kid", end));
        match fails {
            true => assert_eq!(end.error().message, "no luck", "a fatal error is not repeated"),
            false => assert_eq!(end.value(), "7"),
        }
        assert_eq!(table.external.children["kid"].run_id, first);
        assert_eq!(table.rows.iter().filter(|row| row.step_key == "kid").count(), 1);
    }
}

/// It may have succeeded before it was deleted.
#[test]
fn a_child_that_is_missing_is_not_started_anew_before_the_run_has_seen_that() {
    let flow = child_beside_a_step();
    let (mut table, _) = retried_beside_its_child(&flow);
    table.external.children.clear();
    assert_eq!(begin_later(&table, &flow).quiesce(&mut table).error().kind, ErrorKind::ChildMissing);
    assert!(table.external.children.is_empty());
    table.retry(1);
    begin_later(&table, &flow).quiesce(&mut table);
    assert_eq!(table.external.children.len(), 1);
}

#[test]
fn a_detached_child_whose_key_was_taken_starts_in_the_next_attempt() {
    let mut table = Table::default();
    let flow = flow!(|ctx| { Ok(ctx.child(kid, ()).key(TAKEN_KEY).detach().await?.id().to_string()) });
    assert_eq!(Drive::begin(&table, &flow).quiesce(&mut table).error().kind, ErrorKind::Refused);
    table.retry(1);
    table.external.is_key_free = true;
    let id = begin_later(&table, &flow).quiesce(&mut table).value();
    assert_eq!(id, table.external.children["kid"].run_id.to_string());
    assert_eq!(rows(&table)[1], ("kid", 2, AttemptStatus::Succeeded, Some(1)));
    assert_eq!(begin_later(&table, &flow).advance().value(), id);
}

#[test]
fn a_retried_run_sleeps_anew_and_its_steps_have_their_whole_timeouts() {
    let flow = flow!(|ctx| {
        let body = async || if ctx.attempt() == 1 { Err(Error::msg("no")) } else { ctx.state().gated("a").await };
        let step = ctx.step("a", body).retry(Retry::none());
        let (value, ()) = futures::try_join!(ctx.timeout(MINUTE, step), ctx.sleep(2 * MINUTE))?;
        Ok(value)
    });
    let mut table = Table::default();
    assert_eq!(Drive::begin(&table, &flow).quiesce(&mut table).error().message, "no");
    table.retry(1);
    let later = START + 60 * MINUTE;
    let mut drive = begin_later(&table, &flow);
    drive.quiesce(&mut table);
    drive.set_now(later + MINUTE / 2);
    drive.quiesce(&mut table);
    let stop = drive.open("a", &mut table);
    assert_eq!(stop.park_until(), Some(later + 2 * MINUTE), "the step has ended in time");
    // The next drive continues the sleep that has begun anew.
    let mut drive = Drive::begin_at(&table, &flow, later + MINUTE, World::default());
    assert_eq!(drive.quiesce(&mut table).park_until(), Some(later + 2 * MINUTE));
    assert_eq!(drive.events, ["deliver 0", "start 2"], "the sleep is not written again");
    assert_eq!(drive.run(&mut table).value(), "<a>");
    let of_sleep: Vec<_> = rows(&table).into_iter().filter(|row| row.0 == "sleep").collect();
    let [dropped, slept] = of_sleep[..] else { panic!("{of_sleep:?}") };
    assert_eq!(dropped, ("sleep", 1, AttemptStatus::Succeeded, None));
    assert_eq!(slept, ("sleep", 2, AttemptStatus::Succeeded, Some(2)));
    assert_eq!(Drive::begin(&table, &flow).advance().value(), "<a>");
}
