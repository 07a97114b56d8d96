//! Errors of steps: stored, handled and retried.

use std::time::Duration;

use workflow_sdk::{AttemptStatus, Ctx, Error, ErrorExt, ErrorKind, Result, Retry, StepAttempt, StoredError};

use crate::harness::{Drive, Flow, START, Stop, Table, World, flow, row, run_and_replay};

fn attempts(table: &Table) -> Vec<(i64, AttemptStatus, Option<i64>)> {
    table.rows.iter().map(|row| (row.attempt, row.status, row.position)).collect()
}

fn failed(attempt: i64, position: Option<i64>) -> StepAttempt {
    let error = Some(StoredError::new(ErrorKind::Application, "no"));
    StepAttempt { error, ..row("a", attempt, AttemptStatus::Failed, position, None) }
}

#[derive(Debug, thiserror::Error)]
#[error("outer")]
struct Outer(#[source] std::num::ParseIntError);

#[test]
fn the_error_of_a_step_is_the_same_on_every_replay() {
    let flow = flow!(|ctx| {
        let failing = || async { Err::<(), _>(Outer("x".parse::<u32>().unwrap_err())) };
        let error = ctx.step("a", failing).retry(Retry::none()).await.unwrap_err();
        let fallback = match error.kind() {
            ErrorKind::Application => ctx.step("fallback", async || Ok::<_, Error>("handled".to_owned())).await?,
            _ => "not handled".into(),
        };
        let (message, causes, key) = (error.message(), error.causes(), error.step_key());
        Ok(format!("{fallback}: {message} {causes:?} {key:?} {error}"))
    });
    let value = run_and_replay(&mut Table::default(), &flow).0.unwrap();
    let cause = "invalid digit found in string";
    assert_eq!(value, format!("handled: outer [{cause:?}] Some(\"a\") step \"a\": outer: {cause}"));
}

/// Returns a workflow whose step fails twice and succeeds at its third attempt.
fn succeeds_at_third() -> Flow {
    flow!(|ctx| {
        let retry = Retry::fixed(Duration::from_secs(10)).max_attempts(3);
        let body = async || if ctx.attempt() < 3 { Err(Error::msg("not yet")) } else { Ok(ctx.attempt()) };
        Ok(ctx.step("a", body).retry(retry).await?.to_string())
    })
}

#[test]
fn a_failed_attempt_has_a_row_without_position_and_the_next_one_follows_after_the_delay() {
    use AttemptStatus::{Failed, Succeeded};
    let mut table = Table::default();
    let mut drive = Drive::begin(&table, &succeeds_at_third());
    let stop = drive.quiesce(&mut table);
    assert_eq!(stop.timer(), Some(START + Duration::from_secs(10)));
    assert_eq!(stop.park_until(), stop.timer(), "a back-off is a durable wait");
    assert_eq!(attempts(&table), [(1, Failed, None)]);
    assert_eq!(drive.run(&mut table).value(), "3");
    assert_eq!(attempts(&table), [(1, Failed, None), (2, Failed, None), (3, Succeeded, Some(1))]);
    assert_eq!(Drive::begin(&table, &succeeds_at_third()).advance().value(), "3");
}

#[test]
fn a_failed_attempt_shows_the_attempts_left_and_the_final_one_none() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let retry = Retry::fixed(Duration::from_secs(10)).max_attempts(3);
        let body = async || match ctx.attempt() {
            1 => Err::<(), _>(Error::msg("no")),
            2 => Err("busy").retry_after(Duration::from_secs(77)),
            _ => Err("never").fatal(),
        };
        let error = ctx.step("a", body).retry(retry).await.unwrap_err();
        Ok(error.message().to_owned())
    });
    assert_eq!(run_and_replay(&mut table, &flow).0.unwrap(), "never");
    let shown: Vec<_> = table.rows.iter().map(|row| row.error.as_ref().unwrap()).collect();
    let shown: Vec<_> = shown.iter().map(|error| (error.attempts_left, error.next_attempt_at)).collect();
    let seconds = |seconds| Some(START + Duration::from_secs(seconds));
    assert_eq!(shown, [(Some(2), seconds(10)), (Some(1), seconds(87)), (None, None)]);
}

#[test]
fn a_row_without_the_attempts_left_replays_like_one_with_them() {
    let mut table = Table::default();
    Drive::begin(&table, &succeeds_at_third()).quiesce(&mut table);
    let bare = |row: &StepAttempt| {
        let error = row.error.clone().map(|error| StoredError::new(error.kind, error.message));
        StepAttempt { error, ..row.clone() }
    };
    let mut older = Table { rows: table.rows.iter().map(bare).collect(), ..Table::default() };
    for table in [&mut table, &mut older] {
        let mut drive = Drive::begin_at(table, &succeeds_at_third(), START + Duration::from_secs(4), World::default());
        assert_eq!(drive.quiesce(table).timer(), Some(START + Duration::from_secs(10)));
        assert_eq!(drive.run(table).value(), "3");
    }
}

#[test]
fn a_back_off_continues_after_a_crash_from_the_time_of_the_failure() {
    let mut table = Table::default();
    Drive::begin(&table, &succeeds_at_third()).quiesce(&mut table);
    let mut drive = Drive::begin_at(&table, &succeeds_at_third(), START + Duration::from_secs(4), World::default());
    assert_eq!(drive.quiesce(&mut table).timer(), Some(START + Duration::from_secs(10)));
    assert_eq!(drive.run(&mut table).value(), "3");
}

#[test]
fn when_the_policy_is_exhausted_the_last_error_is_the_outcome() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let retry = Retry::fixed(Duration::from_secs(10)).max_attempts(2);
        let body = async || Err::<(), _>(Error::msg(format!("failed {}", ctx.attempt())));
        Ok(ctx.step("a", body).retry(retry).await.unwrap_err().message().to_owned())
    });
    assert_eq!(run_and_replay(&mut table, &flow).0.unwrap(), "failed 2");
    assert_eq!(attempts(&table), [(1, AttemptStatus::Failed, None), (2, AttemptStatus::Failed, Some(1))]);
}

#[test]
fn a_fatal_error_ends_the_retries() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let error = ctx.step("a", async || Err::<(), _>("stolen").fatal()).await.unwrap_err();
        Ok(format!("{} {}", error.message(), error.is_fatal()))
    });
    assert_eq!(run_and_replay(&mut table, &flow).0.unwrap(), "stolen true");
    assert_eq!(attempts(&table), [(1, AttemptStatus::Failed, Some(1))]);
}

#[test]
fn an_error_may_set_the_next_delay_but_not_the_number_of_attempts() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let retry = Retry::fixed(Duration::from_secs(10)).max_attempts(2);
        let body = async || Err::<(), _>("busy").retry_after(Duration::from_secs(77));
        Ok(ctx.step("a", body).retry(retry).await.unwrap_err().message().to_owned())
    });
    let mut drive = Drive::begin(&table, &flow);
    assert_eq!(drive.quiesce(&mut table).timer(), Some(START + Duration::from_secs(77)));
    assert_eq!(Drive::begin(&table, &flow).quiesce(&mut table).timer(), Some(START + Duration::from_secs(77)));
    assert_eq!(drive.run(&mut table).value(), "busy");
}

#[test]
fn a_tightened_policy_still_allows_the_promised_attempt_at_once() {
    let mut table = Table::default().with(failed(1, None)).with(failed(2, None));
    let flow = flow!(|ctx| { ctx.step("a", || ctx.state().body("a")).retry(Retry::none()).await });
    let (result, notes) = run_and_replay(&mut table, &flow);
    assert_eq!(result.unwrap(), "<a>");
    assert_eq!(notes, ["a"]);
    assert_eq!(table.rows[2].attempt, 3);
}

#[test]
fn a_loosened_policy_does_not_revive_a_final_failure() {
    let mut table = Table::default().with(failed(1, Some(1)));
    let flow = flow!(|ctx| { ctx.step("a", || ctx.state().body("a")).await });
    let (result, notes) = run_and_replay(&mut table, &flow);
    assert_eq!(result.unwrap_err().message, "no");
    assert_eq!(notes, [""; 0]);
}

#[test]
fn an_attempt_that_takes_longer_than_its_timeout_is_dropped_and_retried() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let body =
            async || if ctx.attempt() == 1 { ctx.state().gated("slow").await } else { ctx.state().body("fast").await };
        let retry = Retry::fixed(Duration::from_secs(10));
        ctx.step("a", body).timeout(Duration::from_secs(5)).retry(retry).await
    });
    let mut drive = Drive::begin(&table, &flow);
    drive.quiesce(&mut table);
    drive.set_now(START + Duration::from_secs(5));
    drive.quiesce(&mut table);
    assert_eq!(drive.world.closed(), [""; 0], "the body is dropped");
    let error = table.rows[0].error.clone().unwrap();
    assert_eq!(error.kind, ErrorKind::Timeout);
    assert_eq!(error.message, "attempt 1 took longer than its timeout of 5s");
    assert_eq!(drive.run(&mut table).value(), "<fast>");
}

#[test]
fn a_panic_when_a_body_is_called_or_polled_is_a_failed_attempt() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let body = || {
            assert!(ctx.attempt() != 1, "called");
            async {
                assert!(ctx.attempt() != 2, "polled");
                ctx.state().body("a").await
            }
        };
        ctx.step("a", body).retry(Retry::fixed(Duration::ZERO)).await
    });
    assert_eq!(run_and_replay(&mut table, &flow).0.unwrap(), "<a>");
    let errors: Vec<_> = table.rows.iter().filter_map(|row| row.error.clone()).collect();
    assert_eq!(errors.iter().map(|error| error.kind).collect::<Vec<_>>(), [ErrorKind::Panic; 2]);
    assert_eq!(errors[0].message, "the body of a step panicked: called");
}

#[test]
fn a_panic_of_the_workflow_is_its_error() {
    let flow = flow!(|ctx| {
        ctx.step("a", || ctx.state().body("a")).await?;
        panic!("oh no")
    });
    let error = run_and_replay(&mut Table::default(), &flow).0.unwrap_err();
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Panic, "the workflow panicked: oh no"));
}

#[test]
fn a_retry_without_delay_begins_in_the_same_instant() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let body = async || if ctx.attempt() < 3 { Err(Error::msg("not yet")) } else { Ok(()) };
        ctx.step("a", body).retry(Retry::fixed(Duration::ZERO)).await?;
        Ok(String::new())
    });
    let Stop::Ended(Ok(_)) = Drive::begin(&table, &flow).quiesce(&mut table) else { panic!("the drive waits") };
}

#[test]
fn the_body_of_an_attempt_that_timed_out_is_dropped_before_the_next_attempt_begins() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let body = || {
            ctx.state().note(format!("attempt {} beside {}", ctx.attempt(), ctx.state().closed().len()));
            ctx.state().gated("a")
        };
        ctx.step("a", body).timeout(Duration::from_secs(5)).retry(Retry::fixed(Duration::ZERO)).await
    });
    let mut drive = Drive::begin(&table, &flow);
    drive.quiesce(&mut table);
    drive.set_now(START + Duration::from_secs(5));
    drive.quiesce(&mut table);
    assert_eq!(drive.world.notes(), ["attempt 1 beside 0", "a", "attempt 2 beside 0", "a"]);
}
