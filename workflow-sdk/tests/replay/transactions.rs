//! Transactions: outcomes that are committed beside the queue, and delivered in the order of their positions all the same.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::{Either, select};
use workflow_sdk::{Ctx, ErrorKind, Result, Retry, StepKind};

use crate::harness::{Flow, Life, START, Stop, Table, World, flow, run_and_replay};
use crate::table::outcomes;

/// A step and a transaction at once, each behind a gate. Gives the order in which they were seen.
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

/// Lets a body end, without any commit.
fn end(life: &mut Life, gate: &str) {
    life.world.open(gate, 0);
    life.look();
    life.settle();
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
fn a_commit_that_comes_before_that_of_an_earlier_outcome_waits_for_its_turn() {
    let mut table = Table::default();
    let mut life = Life::begin(&table, &both());
    life.settle();
    end(&mut life, "s");
    end(&mut life, "t");
    life.end_transaction(0, true, &mut table).unwrap();
    assert!(matches!(life.settle(), Stop::Waits { .. }));
    assert_eq!(life.events, ["commit t#1 at 2"], "nothing is delivered before position 1");
    assert!(life.commit(&mut table).unwrap());
    assert_eq!(life.settle().value(), "<s><t>");
    assert_eq!(Life::begin(&table, &both()).settle().value(), "<s><t>");
}

#[test]
fn what_comes_after_a_transaction_waits_for_its_commit() {
    let mut table = Table::default();
    let mut life = Life::begin(&table, &both());
    life.settle();
    end(&mut life, "t");
    end(&mut life, "s");
    assert!(life.commit(&mut table).unwrap());
    assert!(matches!(life.settle(), Stop::Waits { park_until: None, .. }));
    assert_eq!(life.events, ["write s#1 succeeded at 2"]);
    life.end_transaction(0, true, &mut table).unwrap();
    assert_eq!(life.settle().value(), "<t><s>");
    assert_eq!(Life::begin(&table, &both()).settle().value(), "<t><s>");
}

#[test]
fn a_position_whose_commit_failed_holds_nothing_up_and_is_nobodys() {
    let mut table = Table::default();
    let mut life = Life::begin(&table, &both());
    life.settle();
    end(&mut life, "t");
    end(&mut life, "s");
    assert!(life.commit(&mut table).unwrap());
    life.end_transaction(0, false, &mut table).unwrap();
    life.quiesce(&mut table);
    assert_eq!(life.open("t", &mut table).value(), "<s><t>");
    assert_eq!(outcomes(&table), ["s", "t"]);
    let positions: Vec<_> = table.rows.iter().filter_map(|row| row.position).collect();
    assert_eq!(positions, [2, 3]);
    assert_eq!(Life::begin(&table, &both()).settle().value(), "<s><t>");
}

#[test]
fn a_crash_between_the_two_commits_loses_what_nobody_has_seen() {
    let mut table = Table::default();
    let mut life = Life::begin(&table, &both());
    life.settle();
    end(&mut life, "s");
    end(&mut life, "t");
    life.end_transaction(0, true, &mut table).unwrap();
    drop(life);
    let mut second = Life::begin(&table, &both());
    second.quiesce(&mut table);
    assert_eq!(second.world.notes(), ["s"], "the transaction is not run again");
    assert_eq!(second.open("s", &mut table).value(), "<t><s>");
    assert_eq!(Life::begin(&table, &both()).settle().value(), "<t><s>");
}

/// The step wins at position 1, and the transaction is dropped while it commits at position 2.
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
        let mut life = Life::begin(&table, &race());
        life.settle();
        end(&mut life, "s");
        end(&mut life, "t");
        assert!(life.commit(&mut table).unwrap());
        life.settle();
        life.end_transaction(0, commits, &mut table).unwrap();
        assert_eq!(life.run(&mut table).value(), "<s><after>");
        let expected: &[&str] = if commits { &["s", "t", "after"] } else { &["s", "after"] };
        assert_eq!(outcomes(&table), expected);
        let mut replay = Life::begin(&table, &race());
        assert_eq!(replay.settle().value(), "<s><after>");
        assert_eq!(replay.world.notes(), [""; 0]);
    }
}

#[test]
fn the_time_of_a_transaction_counts_from_its_opening() {
    let flow = flow!(|ctx| { ctx.transaction("t", |_tx| ctx.state().gated("t")).retry(Retry::none()).await });
    let mut table = Table::default();
    let mut waiting = Life::begin(&table, &flow);
    waiting.port.database_is_busy.store(true, Ordering::SeqCst);
    assert_eq!(waiting.quiesce(&mut table).timer(), None);
    let mut life = Life::begin(&table, &flow);
    assert_eq!(life.quiesce(&mut table).timer(), Some(START + Duration::from_secs(5)));
    let error = life.run(&mut table).error();
    assert_eq!(error.kind, ErrorKind::Timeout);
    assert!(life.commits.is_empty());
}

#[test]
fn a_body_that_ended_in_time_is_committed_however_long_that_takes() {
    let flow = flow!(|ctx| { ctx.transaction("t", |_tx| ctx.state().gated("t")).await });
    let mut table = Table::default();
    let mut life = Life::begin(&table, &flow);
    life.settle();
    end(&mut life, "t");
    life.set_now(START + Duration::from_secs(60));
    assert!(!life.fire_timers());
    life.end_transaction(0, true, &mut table).unwrap();
    assert_eq!(life.settle().value(), "<t>");
}
