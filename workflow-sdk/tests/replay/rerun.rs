//! Runs that are tried again: failures that lost their positions are attempted again, and nothing else is.

use std::time::Duration;

use fastrand::Rng;
use workflow_sdk::{AttemptStatus, Ctx, Error, ErrorKind, Result, Retry, StepAttempt, StepKind, StoredError};

use crate::harness::{Delivery, Life, START, Table, World, flow, row, run_and_replay};
use crate::lives::{End, check_bodies, check_full_replay, check_life_after, live};
use crate::program::{Leaves, Node, random};
use crate::properties::{cases, for_all};

fn failed(key: &str, position: Option<i64>) -> StepAttempt {
    let error = Some(StoredError::new(ErrorKind::Application, "no"));
    StepAttempt { error, ..row(key, 1, AttemptStatus::Failed, position, None) }
}

/// Takes the positions of failures from this one on, as the database does when a run is tried again.
fn try_again(table: &mut Table, from: i64) {
    let failures = table.rows.iter_mut().filter(|row| row.status == AttemptStatus::Failed);
    failures.filter(|row| row.position >= Some(from)).for_each(|row| row.position = None);
}

#[test]
fn what_came_after_the_failure_is_kept_and_need_not_be_asked_for() {
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
    try_again(&mut table, 1);
    assert_eq!(run_and_replay(&mut table, &flow).0.unwrap(), "7");
    let positions: Vec<_> = table.rows.iter().map(|row| (row.step_key.as_str(), row.attempt, row.position)).collect();
    assert_eq!(positions, [("a", 1, None), ("apologize", 1, Some(2)), ("a", 2, Some(3))]);
}

#[test]
fn what_came_before_the_failure_must_be_asked_for() {
    let flow = flow!(|ctx| { ctx.step("b", async || Ok::<_, Error>("b".to_owned())).retry(Retry::none()).await });
    let table = Table::default().with_value("a", 1, "1").with(failed("b", None)).with_value("c", 3, "1");
    let mut life = Life::begin(&table, &flow);
    let divergence = life.run(&mut table.clone()).divergence().to_string();
    assert!(divergence.contains("recorded: #1 step \"a\" (succeeded, 1 byte)\n  current:"), "{divergence}");
}

#[test]
fn a_step_that_was_used_up_is_attempted_at_once_and_only_once_in_the_same_attempt_of_the_run() {
    let flow = flow!(|ctx| {
        let policy = Retry::fixed(Duration::from_secs(10)).max_attempts(1);
        let body = async || Err::<String, _>(Error::msg(format!("failed {}", ctx.attempt())));
        ctx.step("a", body).retry(policy).await
    });
    let mut table = Table::default().with(failed("a", None));
    let mut life = Life::begin_at(&table, &flow, START, World::default());
    assert_eq!(life.run(&mut table).error().message, "failed 2");
    assert_eq!(table.rows.len(), 2);
}

/// Runs the program, tries it again from one of its failures, and crashes that life after every commit.
fn retry_everywhere(program: &Node, seed: u64) -> Result<usize, String> {
    let (flow, mut rng) = (program.flow(), Rng::with_seed(seed));
    let first = live(&flow, &Table::default(), START, Delivery::OneByOne, &mut rng)?;
    let failures = |row: &StepAttempt| row.position.filter(|_| row.status == AttemptStatus::Failed);
    let failures: Vec<i64> = first.table.rows.iter().filter_map(failures).collect();
    // A run that has undone what it did is not tried again.
    if failures.is_empty() || first.table.rows.iter().any(|row| row.kind == StepKind::Compensation) {
        return Ok(0);
    }
    let mut table = first.table.clone();
    try_again(&mut table, failures[rng.usize(..failures.len())]);
    let later = START + Duration::from_secs(10);
    let second = live(&flow, &table, later, Delivery::OneByOne, &mut rng)?;
    if let End::Diverged(divergence) = &second.end {
        return Err(divergence.to_string());
    }
    check_bodies(&table, &second.begun)?;
    check_full_replay(&flow, &second, Delivery::OneByOne)?;
    for point in &second.crash_points {
        let third = live(&flow, &point.table, point.now, Delivery::OneByOne, &mut rng)?;
        check_life_after(point, &second, &third)?;
        check_full_replay(&flow, &third, Delivery::OneByOne)?;
    }
    Ok(second.crash_points.len())
}

#[test]
fn a_run_that_is_tried_again_keeps_every_other_outcome() {
    let program = |seed: u64| {
        let mut rng = Rng::with_seed(seed);
        let depth = rng.u32(1..=3);
        random(&mut rng, depth, Leaves::WithoutTime).with_own_names()
    };
    for_all("tried again", cases(1500), program, retry_everywhere);
}
