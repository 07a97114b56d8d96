//! Retries of a failed run: steps whose failures lost their positions are attempted again, and no
//! other step is.

use std::time::Duration;

use fastrand::Rng;
use workflow_sdk::{AttemptStatus, Ctx, Error, ErrorKind, Result, Retry, StepAttempt, StepKind, StoredError};

use crate::harness::{Delivery, Drive, START, Table, World, flow, row, run_and_replay};
use crate::program::{Leaves, Node, random};
use crate::properties::{cases, for_all};
use crate::random_drives::{End, check_bodies, check_drive_after, check_full_replay, drive_at_random};

fn failed(key: &str, position: Option<i64>) -> StepAttempt {
    let error = Some(StoredError::new(ErrorKind::Application, "no"));
    StepAttempt { error, ..row(key, 1, AttemptStatus::Failed, position, None) }
}

/// Removes the positions of the failures at and after `from`, as the store does for the retry of a
/// run.
fn retry_run(table: &mut Table, from: i64) {
    let failures = table.rows.iter_mut().filter(|row| row.status == AttemptStatus::Failed);
    failures.filter(|row| row.position >= Some(from)).for_each(|row| row.position = None);
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
    retry_run(&mut table, 1);
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
    retry_run(&mut table, failures[rng.usize(..failures.len())]);
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
    let program = |seed: u64| {
        let mut rng = Rng::with_seed(seed);
        let depth = rng.u32(1..=3);
        random(&mut rng, depth, Leaves::WithoutTime).with_own_names()
    };
    for_all("retried run", cases(1500), program, retry_everywhere);
}
