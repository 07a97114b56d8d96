//! Waits for signals: each signal is taken by one wait, and a wait that is given up takes none.

use std::time::Duration;

use futures::future::{Either, join, select};
use workflow_sdk::{AttemptStatus, Ctx, Result, StepKind};

use crate::harness::{Flow, Life, START, Stop, Table, World, flow};
use crate::table::outcomes;

const MINUTE: Duration = Duration::from_secs(60);

fn two_waits() -> Flow {
    flow!(|ctx| {
        let first = ctx.signal::<u64>("paid").await?;
        let second = ctx.signal::<u64>("paid").await?;
        Ok(format!("{first:?} {second:?}"))
    })
}

/// Who took the signals, in their order.
fn taken_by(table: &Table) -> Vec<Option<&str>> {
    table.outside.inbox.iter().map(|sent| sent.consumed_by.as_deref()).collect()
}

#[test]
fn a_signal_is_taken_whether_it_was_sent_before_the_wait_or_after() {
    let mut table = Table::default();
    table.outside.send("paid", 1);
    let mut life = Life::begin(&table, &two_waits());
    assert!(life.quiesce(&mut table).park_until().is_some());
    assert_eq!(life.hear(&mut table, |outside| outside.send("paid", 2)).value(), "Some(1) Some(2)");
    assert_eq!(taken_by(&table), [Some("paid"), Some("paid:1")]);
    let mut replay = Life::begin(&table, &two_waits());
    assert_eq!(replay.settle().value(), "Some(1) Some(2)");
    assert!(replay.cell.take_outbox().is_empty());
}

/// Parked, it would have seen the wake of the signal, and nobody would wake it again.
#[test]
fn while_a_run_is_held_it_is_not_parked_over_a_signal_that_it_knows_of() {
    let mut table = Table::default();
    let mut life = Life::begin(&table, &two_waits());
    assert!(life.quiesce(&mut table).park_until().is_some());
    life.hold(true);
    assert_eq!(life.hear(&mut table, |outside| outside.send("paid", 1)).park_until(), None);
    assert_eq!(taken_by(&table), [None]);
    life.hold(false);
    assert!(life.quiesce(&mut table).park_until().is_some());
    assert_eq!(taken_by(&table), [Some("paid")]);
}

#[test]
fn a_signal_is_not_seen_before_its_consumption_is_committed() {
    let mut table = Table::default();
    table.outside.send("paid", 1);
    let mut life = Life::begin(&table, &two_waits());
    life.settle();
    assert!(life.look_outside(&table));
    for _ in 0..3 {
        life.settle();
    }
    assert_eq!(life.in_flight.len(), 1);
    assert_eq!(life.events, [""; 0]);
    drop(life);
    assert_eq!(taken_by(&table), [None], "a crash leaves it where it was");
    table.outside.send("paid", 2);
    assert_eq!(Life::begin(&table, &two_waits()).quiesce(&mut table).value(), "Some(1) Some(2)");
}

#[test]
fn two_waits_of_one_name_are_served_in_the_order_of_their_calls() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let (first, second) = (ctx.signal::<u64>("paid"), ctx.signal::<u64>("paid"));
        let (second, first) = join(second, first).await;
        Ok(format!("{:?} {:?}", first?, second?))
    });
    let mut life = Life::begin(&table, &flow);
    life.quiesce(&mut table);
    life.hear(&mut table, |outside| outside.send("paid", 1));
    assert_eq!(outcomes(&table), ["paid"]);
    assert_eq!(life.hear(&mut table, |outside| outside.send("paid", 2)).value(), "Some(1) Some(2)");
    assert_eq!(taken_by(&table), [Some("paid"), Some("paid:1")]);
}

/// The wait loses to the sleep or wins; then one more wait takes what is there.
fn race_then_wait() -> Flow {
    flow!(|ctx| {
        let first = match select(ctx.signal::<u64>("paid"), ctx.sleep(MINUTE)).await {
            Either::Left((paid, _)) => paid?,
            Either::Right(_) => None,
        };
        let second = ctx.signal::<u64>("paid").await?;
        Ok(format!("{first:?} {second:?}"))
    })
}

/// The signals come at every moment of the race, and the run crashes after every commit.
#[test]
fn a_wait_that_loses_a_race_consumes_nothing() {
    // What happens, in every order: the signal is sent, the sleep is over, the process dies.
    for order in ["szc", "scz", "zsc", "zcs", "csz", "czs", "sz", "zs"] {
        for commits_before_the_crash in 0..4 {
            let mut table = Table::default();
            let flow = race_then_wait();
            let mut now = START;
            let mut life = Life::begin(&table, &flow);
            life.settle();
            for what in order.chars() {
                match what {
                    's' => {
                        table.outside.send("paid", 7);
                        life.cell.look_again();
                    }
                    'z' => {
                        now = START + MINUTE;
                        life.set_now(now);
                        life.fire_timers();
                    }
                    _ => {
                        for _ in 0..commits_before_the_crash {
                            life.settle();
                            life.look_outside(&table);
                            life.settle();
                            life.commit(&mut table).unwrap();
                        }
                        life = Life::begin_at(&table, &flow, now, World::default());
                    }
                }
            }
            life.set_now(START + MINUTE);
            let result = match life.quiesce(&mut table) {
                Stop::Waits { .. } => life.hear(&mut table, |outside| outside.send("paid", 8)).value(),
                ended => ended.value(),
            };
            let case = format!("{order} after {commits_before_the_crash} commits");
            assert!(["Some(7) Some(8)", "None Some(7)"].contains(&result.as_str()), "{case}: {result}");
            assert!(taken_by(&table).iter().all(Option::is_some), "{case}: {table:?}");
            assert_eq!(Life::begin(&table, &flow).settle().value(), result, "{case}");
        }
    }
}

fn waits_a_minute() -> Flow {
    flow!(|ctx| { Ok(format!("{:?}", ctx.signal::<u64>("paid").timeout(MINUTE).await?)) })
}

#[test]
fn a_look_that_finds_nothing_writes_the_row_of_the_wait() {
    let mut table = Table::default();
    let mut life = Life::begin(&table, &waits_a_minute());
    life.settle();
    assert!(life.in_flight.is_empty());
    assert!(life.look_outside(&table));
    assert_eq!(life.settle().park_until(), None, "its row is not committed");
    life.commit(&mut table).unwrap();
    assert_eq!(life.settle().park_until(), Some(START + MINUTE));
    let row = &table.rows[0];
    assert_eq!((row.status, row.kind, row.position), (AttemptStatus::Running, StepKind::Signal, None));
}

#[test]
fn a_timeout_counts_from_the_first_poll_and_outlives_a_crash() {
    let mut table = Table::default();
    Life::begin(&table, &waits_a_minute()).quiesce(&mut table);
    let mut life = Life::begin_at(&table, &waits_a_minute(), START + MINUTE / 2, World::default());
    assert_eq!(life.quiesce(&mut table).park_until(), Some(START + MINUTE));
    assert_eq!(life.run(&mut table).value(), "None");
    assert_eq!(Life::begin(&table, &waits_a_minute()).settle().value(), "None");
    assert_eq!(table.rows.len(), 1);
}

/// Nobody drove the run when the signal came, and when the time was over.
#[test]
fn a_signal_that_came_before_anybody_noticed_the_timeout_is_taken() {
    let mut table = Table::default();
    Life::begin(&table, &waits_a_minute()).quiesce(&mut table);
    table.outside.send("paid", 1);
    let mut life = Life::begin_at(&table, &waits_a_minute(), START + 2 * MINUTE, World::default());
    assert_eq!(life.quiesce(&mut table).value(), "Some(1)");
}

/// It waits for its turn: a step ends in the same poll.
#[test]
fn a_timeout_of_zero_takes_what_is_there_even_beside_another_outcome() {
    let flow = flow!(|ctx| {
        let looks = ["paid", "paid", "other"].map(|name| ctx.signal::<u64>(name).timeout(Duration::ZERO));
        let (step, looks) = join(ctx.step("a", || ctx.state().body("a")), futures::future::join_all(looks)).await;
        let looks: Result<Vec<_>> = looks.into_iter().collect();
        Ok(format!("{} {:?}", step?, looks?))
    });
    for late_commit in [false, true] {
        let mut table = Table::default();
        table.outside.send("paid", 1);
        let mut life = Life::begin(&table, &flow);
        life.settle();
        assert!(life.look_outside(&table));
        if late_commit {
            life.fire_timers();
        }
        assert_eq!(life.quiesce(&mut table).value(), "<a> [Some(1), None, None]");
    }
}

#[test]
fn a_wait_that_is_dropped_is_written_off() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        match select(ctx.approval("ship"), ctx.sleep(MINUTE)).await {
            Either::Left(_) => panic!("nobody decides"),
            Either::Right((slept, wait)) => drop((slept?, wait)),
        }
        ctx.step("after", || ctx.state().gated("after")).await
    });
    let mut life = Life::begin(&table, &flow);
    life.quiesce(&mut table);
    assert_eq!(table.rows.iter().find(|row| row.step_key == "ship").unwrap().status, AttemptStatus::Running);
    life.set_now(START + MINUTE);
    life.quiesce(&mut table);
    let row = table.rows.iter().find(|row| row.step_key == "ship").unwrap();
    assert_eq!((row.status, row.position), (AttemptStatus::Succeeded, None), "nobody is asked any more");
    let mut life = Life::begin_at(&table, &flow, START + MINUTE, World::default());
    life.quiesce(&mut table);
    assert!(life.in_flight.is_empty());
    assert_eq!(life.open("after", &mut table).value(), "<after>");
    assert_eq!(Life::begin(&table, &flow).settle().value(), "<after>");
}

#[test]
fn a_page_full_of_signals_for_a_wait_that_was_dropped_hides_no_other() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let other = ctx.signal::<u64>("other");
        // The loser is dropped: one that is kept goes on waiting.
        let race = async { drop(select(ctx.signal::<u64>("paid"), ctx.step("a", || ctx.state().gated("a"))).await) };
        let ((), other) = join(race, other).await;
        Ok(format!("{:?}", other?))
    });
    // A step ends while the page, which has no room for the third signal, is read.
    for (name, payload) in [("paid", 1), ("paid", 2), ("other", 3)] {
        table.outside.send(name, payload);
    }
    let mut life = Life::begin(&table, &flow);
    life.settle();
    life.world.open("a", 0);
    assert!(life.look());
    life.settle();
    assert!(life.look_outside(&table));
    assert_eq!(life.quiesce(&mut table).value(), "Some(3)");
    assert_eq!(taken_by(&table), [None, None, Some("other")]);
}

#[test]
fn a_payload_of_another_type_is_an_error_that_replays() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let error = ctx.signal::<bool>("paid").await.unwrap_err();
        let next = ctx.signal::<u64>("paid").await?;
        Ok(format!("{} {next:?}", error.kind()))
    });
    table.outside.send("paid", 1);
    table.outside.send("paid", 2);
    assert_eq!(Life::begin(&table, &flow).quiesce(&mut table).value(), "refused Some(2)");
    assert_eq!(Life::begin(&table, &flow).settle().value(), "refused Some(2)");
}
