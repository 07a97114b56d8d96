//! Transactional steps: their outcomes are committed beside the executor's queue, and delivered in
//! the order of their positions.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::{Either, select};
use workflow_sdk::{Ctx, ErrorKind, Result, Retry, StepKind};

use crate::delivery::outcomes;
use crate::harness::{Drive, Flow, START, Stop, Table, World, flow, run_and_replay};

/// Returns a workflow with a concurrent step and transaction, each behind a gate. Its output is the
/// order in which it got their outcomes.
fn both() -> Flow {
    flow!(|ctx| {
        let step = ctx.step("s", || ctx.state().gated("s"));
        let transaction = ctx.transaction("t", |_tx| ctx.state().gated("t")).retry(Retry::fixed(Duration::ZERO));
        match select(step, transaction).await {
            Either::Left((first, second)) => Ok(first? + &second.await?),
            Either::Right((first, second)) => Ok(first? + &second.await?),
        }
    })
}

/// Lets a body end, without a commit.
fn end(drive: &mut Drive, gate: &str) {
    drive.world.open(gate, 0);
    drive.take_wakes();
    drive.advance();
}

#[test]
fn a_transaction_is_attempted_and_replayed_like_a_step() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let value = ctx.transaction("t", |_tx| ctx.state().body("t")).await?;
        Ok(value + &ctx.step("s", || ctx.state().body("s")).await?)
    });
    let (result, notes) = run_and_replay(&mut table, &flow);
    assert_eq!((result.unwrap().as_str(), notes), ("<t><s>", vec!["t".to_owned(), "s".to_owned()]));
    assert_eq!(table.rows[0].kind, StepKind::Transaction);
}

#[test]
fn a_commit_ahead_of_an_earlier_outcome_waits_for_its_turn() {
    let mut table = Table::default();
    let mut drive = Drive::begin(&table, &both());
    drive.advance();
    end(&mut drive, "s");
    end(&mut drive, "t");
    drive.end_transaction(0, true, &mut table).unwrap();
    assert!(matches!(drive.advance(), Stop::Waits { .. }));
    assert_eq!(drive.events, ["commit t#1 at 2"], "nothing is delivered before position 1");
    assert!(drive.commit(&mut table).unwrap());
    assert_eq!(drive.advance().value(), "<s><t>");
    assert_eq!(Drive::begin(&table, &both()).advance().value(), "<s><t>");
}

#[test]
fn an_outcome_after_a_transaction_waits_for_its_commit() {
    let mut table = Table::default();
    let mut drive = Drive::begin(&table, &both());
    drive.advance();
    end(&mut drive, "t");
    end(&mut drive, "s");
    assert!(drive.commit(&mut table).unwrap());
    assert!(matches!(drive.advance(), Stop::Waits { park_until: None, .. }));
    assert_eq!(drive.events, ["write s#1 succeeded at 2"]);
    drive.end_transaction(0, true, &mut table).unwrap();
    assert_eq!(drive.advance().value(), "<t><s>");
    assert_eq!(Drive::begin(&table, &both()).advance().value(), "<t><s>");
}

#[test]
fn the_position_of_a_failed_commit_is_skipped() {
    let mut table = Table::default();
    let mut drive = Drive::begin(&table, &both());
    drive.advance();
    end(&mut drive, "t");
    end(&mut drive, "s");
    assert!(drive.commit(&mut table).unwrap());
    drive.end_transaction(0, false, &mut table).unwrap();
    drive.quiesce(&mut table);
    assert_eq!(drive.open("t", &mut table).value(), "<s><t>");
    assert_eq!(outcomes(&table), ["s", "t"]);
    let positions: Vec<_> = table.rows.iter().filter_map(|row| row.position).collect();
    assert_eq!(positions, [2, 3]);
    assert_eq!(Drive::begin(&table, &both()).advance().value(), "<s><t>");
}

#[test]
fn a_crash_between_two_commits_loses_only_undelivered_outcomes() {
    let mut table = Table::default();
    let mut drive = Drive::begin(&table, &both());
    drive.advance();
    end(&mut drive, "s");
    end(&mut drive, "t");
    drive.end_transaction(0, true, &mut table).unwrap();
    drop(drive);
    let mut second = Drive::begin(&table, &both());
    second.quiesce(&mut table);
    assert_eq!(second.world.notes(), ["s"], "the transaction is not run again");
    assert_eq!(second.open("s", &mut table).value(), "<t><s>");
    assert_eq!(Drive::begin(&table, &both()).advance().value(), "<t><s>");
}

/// Returns a race: the step wins at position 1, and the transaction is dropped while it commits at
/// position 2.
fn race() -> Flow {
    flow!(|ctx| {
        let step = ctx.step("s", || ctx.state().gated("s"));
        let transaction = ctx.transaction("t", |_tx| ctx.state().gated("t"));
        let first = match select(step, transaction).await {
            Either::Left((first, _)) | Either::Right((first, _)) => first?,
        };
        Ok(first + &ctx.step("after", || ctx.state().body("after")).await?)
    })
}

#[test]
fn a_transaction_that_is_dropped_while_it_commits_changes_no_replay() {
    for commits in [true, false] {
        let mut table = Table::default();
        let mut drive = Drive::begin(&table, &race());
        drive.advance();
        end(&mut drive, "s");
        end(&mut drive, "t");
        assert!(drive.commit(&mut table).unwrap());
        drive.advance();
        drive.end_transaction(0, commits, &mut table).unwrap();
        assert_eq!(drive.run(&mut table).value(), "<s><after>");
        let expected: &[&str] = if commits { &["s", "t", "after"] } else { &["s", "after"] };
        assert_eq!(outcomes(&table), expected);
        let mut replay = Drive::begin(&table, &race());
        assert_eq!(replay.advance().value(), "<s><after>");
        assert_eq!(replay.world.notes(), [""; 0]);
    }
}

#[test]
fn the_timeout_of_a_transaction_counts_from_its_begin() {
    let flow = flow!(|ctx| { ctx.transaction("t", |_tx| ctx.state().gated("t")).retry(Retry::none()).await });
    let mut table = Table::default();
    let mut waiting = Drive::begin(&table, &flow);
    waiting.port.database_is_busy.store(true, Ordering::SeqCst);
    assert_eq!(waiting.quiesce(&mut table).timer(), None);
    let mut drive = Drive::begin(&table, &flow);
    assert_eq!(drive.quiesce(&mut table).timer(), Some(START + Duration::from_secs(5)));
    let error = drive.run(&mut table).error();
    assert_eq!(error.kind, ErrorKind::Timeout);
    assert!(drive.commits.is_empty());
}

#[test]
fn a_body_that_ended_in_time_is_committed_even_if_the_commit_is_slow() {
    let flow = flow!(|ctx| { ctx.transaction("t", |_tx| ctx.state().gated("t")).await });
    let mut table = Table::default();
    let mut drive = Drive::begin(&table, &flow);
    drive.advance();
    end(&mut drive, "t");
    drive.set_now(START + Duration::from_secs(60));
    assert!(!drive.fire_timers());
    drive.end_transaction(0, true, &mut table).unwrap();
    assert_eq!(drive.advance().value(), "<t>");
}
