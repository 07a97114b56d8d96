//! Waits for signals: one wait takes each signal, and a dropped wait takes none.

use std::time::Duration;

use futures::future::{Either, join, select};
use workflow_sdk::{AttemptStatus, Ctx, Result, StepKind};

use crate::delivery::outcomes;
use crate::harness::{Drive, Flow, START, Stop, Table, World, flow};

const MINUTE: Duration = Duration::from_secs(60);

fn two_waits() -> Flow {
    flow!(|ctx| {
        let first = ctx.signal::<u64>("paid").await?;
        let second = ctx.signal::<u64>("paid").await?;
        Ok(format!("{first:?} {second:?}"))
    })
}

/// Returns the keys of the waits that took the signals, in the order of the signals.
fn taken_by(table: &Table) -> Vec<Option<&str>> {
    table.external.inbox.iter().map(|sent| sent.consumed_by.as_deref()).collect()
}

#[test]
fn a_signal_is_taken_whether_it_was_sent_before_the_wait_or_after() {
    let mut table = Table::default();
    table.external.send("paid", 1);
    let mut drive = Drive::begin(&table, &two_waits());
    assert!(drive.quiesce(&mut table).park_until().is_some());
    assert_eq!(drive.notify(&mut table, |external| external.send("paid", 2)).value(), "Some(1) Some(2)");
    assert_eq!(taken_by(&table), [Some("paid"), Some("paid:1")]);
    let mut replay = Drive::begin(&table, &two_waits());
    assert_eq!(replay.advance().value(), "Some(1) Some(2)");
    assert!(replay.cell.take_outbox().is_empty());
}

/// The park would include the wake of the signal, so nothing would wake the run again.
#[test]
fn a_held_run_is_not_parked_over_a_known_signal() {
    let mut table = Table::default();
    let mut drive = Drive::begin(&table, &two_waits());
    assert!(drive.quiesce(&mut table).park_until().is_some());
    drive.hold(true);
    assert_eq!(drive.notify(&mut table, |external| external.send("paid", 1)).park_until(), None);
    assert_eq!(taken_by(&table), [None]);
    drive.hold(false);
    assert!(drive.quiesce(&mut table).park_until().is_some());
    assert_eq!(taken_by(&table), [Some("paid")]);
}

#[test]
fn a_signal_is_not_seen_before_its_consumption_is_committed() {
    let mut table = Table::default();
    table.external.send("paid", 1);
    let mut drive = Drive::begin(&table, &two_waits());
    drive.advance();
    assert!(drive.read_external_events(&table));
    for _ in 0..3 {
        drive.advance();
    }
    assert_eq!(drive.in_flight.len(), 1);
    assert_eq!(drive.events, [""; 0]);
    drop(drive);
    assert_eq!(taken_by(&table), [None], "after a crash the signal is still in the inbox");
    table.external.send("paid", 2);
    assert_eq!(Drive::begin(&table, &two_waits()).quiesce(&mut table).value(), "Some(1) Some(2)");
}

#[test]
fn two_waits_of_one_name_are_served_in_the_order_of_their_calls() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let (first, second) = (ctx.signal::<u64>("paid"), ctx.signal::<u64>("paid"));
        let (second, first) = join(second, first).await;
        Ok(format!("{:?} {:?}", first?, second?))
    });
    let mut drive = Drive::begin(&table, &flow);
    drive.quiesce(&mut table);
    drive.notify(&mut table, |external| external.send("paid", 1));
    assert_eq!(outcomes(&table), ["paid"]);
    assert_eq!(drive.notify(&mut table, |external| external.send("paid", 2)).value(), "Some(1) Some(2)");
    assert_eq!(taken_by(&table), [Some("paid"), Some("paid:1")]);
}

/// Returns a workflow in which a wait races with a sleep. Then another wait takes a signal.
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

/// A signal arrives at each moment of the race, and the run crashes after each commit.
#[test]
fn a_wait_that_loses_a_race_consumes_nothing() {
    // s: the signal is sent. z: the sleep is over. c: the process dies. In every order.
    for order in ["szc", "scz", "zsc", "zcs", "csz", "czs", "sz", "zs"] {
        for commits_before_the_crash in 0..4 {
            let mut table = Table::default();
            let flow = race_then_wait();
            let mut now = START;
            let mut drive = Drive::begin(&table, &flow);
            drive.advance();
            for what in order.chars() {
                match what {
                    's' => {
                        table.external.send("paid", 7);
                        drive.cell.look_again();
                    }
                    'z' => {
                        now = START + MINUTE;
                        drive.set_now(now);
                        drive.fire_timers();
                    }
                    _ => {
                        for _ in 0..commits_before_the_crash {
                            drive.advance();
                            drive.read_external_events(&table);
                            drive.advance();
                            drive.commit(&mut table).unwrap();
                        }
                        drive = Drive::begin_at(&table, &flow, now, World::default());
                    }
                }
            }
            drive.set_now(START + MINUTE);
            let result = match drive.quiesce(&mut table) {
                Stop::Waits { .. } => drive.notify(&mut table, |external| external.send("paid", 8)).value(),
                ended => ended.value(),
            };
            let case = format!("{order} after {commits_before_the_crash} commits");
            assert!(["Some(7) Some(8)", "None Some(7)"].contains(&result.as_str()), "{case}: {result}");
            assert!(taken_by(&table).iter().all(Option::is_some), "{case}: {table:?}");
            assert_eq!(Drive::begin(&table, &flow).advance().value(), result, "{case}");
        }
    }
}

fn waits_a_minute() -> Flow {
    flow!(|ctx| { Ok(format!("{:?}", ctx.signal::<u64>("paid").timeout(MINUTE).await?)) })
}

#[test]
fn an_empty_inbox_writes_the_row_of_the_wait() {
    let mut table = Table::default();
    let mut drive = Drive::begin(&table, &waits_a_minute());
    drive.advance();
    assert!(drive.in_flight.is_empty());
    assert!(drive.read_external_events(&table));
    assert_eq!(drive.advance().park_until(), None, "the row of the wait is not committed");
    drive.commit(&mut table).unwrap();
    assert_eq!(drive.advance().park_until(), Some(START + MINUTE));
    let row = &table.rows[0];
    assert_eq!((row.status, row.kind, row.position), (AttemptStatus::Running, StepKind::Signal, None));
}

#[test]
fn a_timeout_counts_from_the_first_poll_and_survives_a_crash() {
    let mut table = Table::default();
    Drive::begin(&table, &waits_a_minute()).quiesce(&mut table);
    let mut drive = Drive::begin_at(&table, &waits_a_minute(), START + MINUTE / 2, World::default());
    assert_eq!(drive.quiesce(&mut table).park_until(), Some(START + MINUTE));
    assert_eq!(drive.run(&mut table).value(), "None");
    assert_eq!(Drive::begin(&table, &waits_a_minute()).advance().value(), "None");
    assert_eq!(table.rows.len(), 1);
}

/// The run had no drive when the signal arrived and when the timeout passed.
#[test]
fn a_signal_that_arrives_before_the_timeout_is_noticed_is_taken() {
    let mut table = Table::default();
    Drive::begin(&table, &waits_a_minute()).quiesce(&mut table);
    table.external.send("paid", 1);
    let mut drive = Drive::begin_at(&table, &waits_a_minute(), START + 2 * MINUTE, World::default());
    assert_eq!(drive.quiesce(&mut table).value(), "Some(1)");
}

/// The drive could not read the inbox, and its timers fire meanwhile.
#[test]
fn a_timeout_waits_for_the_look_that_may_find_the_signal() {
    for sent in [true, false] {
        let mut table = Table::default();
        Drive::begin(&table, &waits_a_minute()).quiesce(&mut table);
        if sent {
            table.external.send("paid", 1);
        }
        let mut drive = Drive::begin_at(&table, &waits_a_minute(), START + 2 * MINUTE, World::default());
        drive.advance();
        assert!(drive.cell.begin_look().is_some());
        drive.cell.look_again();
        assert!(!drive.fire_timers());
        assert_eq!(drive.advance().timer(), Some(START + MINUTE), "the timer is still set");
        assert_eq!(drive.quiesce(&mut table).value(), if sent { "Some(1)" } else { "None" });
    }
}

/// The signal waits for its turn, because a step ends in the same poll.
#[test]
fn a_zero_timeout_takes_a_waiting_signal_even_beside_another_outcome() {
    let flow = flow!(|ctx| {
        let looks = ["paid", "paid", "other"].map(|name| ctx.signal::<u64>(name).timeout(Duration::ZERO));
        let (step, looks) = join(ctx.step("a", || ctx.state().body("a")), futures::future::join_all(looks)).await;
        let looks: Result<Vec<_>> = looks.into_iter().collect();
        Ok(format!("{} {:?}", step?, looks?))
    });
    for late_commit in [false, true] {
        let mut table = Table::default();
        table.external.send("paid", 1);
        let mut drive = Drive::begin(&table, &flow);
        drive.advance();
        assert!(drive.read_external_events(&table));
        if late_commit {
            drive.fire_timers();
        }
        assert_eq!(drive.quiesce(&mut table).value(), "<a> [Some(1), None, None]");
    }
}

#[test]
fn a_dropped_wait_is_recorded_without_a_position() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        match select(ctx.approval("ship"), ctx.sleep(MINUTE)).await {
            Either::Left(_) => panic!("the approval is never decided"),
            Either::Right((slept, wait)) => drop((slept?, wait)),
        }
        ctx.step("after", || ctx.state().gated("after")).await
    });
    let mut drive = Drive::begin(&table, &flow);
    drive.quiesce(&mut table);
    assert_eq!(table.rows.iter().find(|row| row.step_key == "ship").unwrap().status, AttemptStatus::Running);
    drive.set_now(START + MINUTE);
    drive.quiesce(&mut table);
    let row = table.rows.iter().find(|row| row.step_key == "ship").unwrap();
    assert_eq!((row.status, row.position), (AttemptStatus::Succeeded, None), "the approval is not asked for");
    let mut drive = Drive::begin_at(&table, &flow, START + MINUTE, World::default());
    drive.quiesce(&mut table);
    assert!(drive.in_flight.is_empty());
    assert_eq!(drive.open("after", &mut table).value(), "<after>");
    assert_eq!(Drive::begin(&table, &flow).advance().value(), "<after>");
}

#[test]
fn a_page_of_signals_for_a_dropped_wait_hides_no_other_signal() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let other = ctx.signal::<u64>("other");
        // The loser is dropped, because a kept wait would continue.
        let race = async { drop(select(ctx.signal::<u64>("paid"), ctx.step("a", || ctx.state().gated("a"))).await) };
        let ((), other) = join(race, other).await;
        Ok(format!("{:?}", other?))
    });
    // A step ends while the page of two signals is read. The third signal is on the next page.
    for (name, payload) in [("paid", 1), ("paid", 2), ("other", 3)] {
        table.external.send(name, payload);
    }
    let mut drive = Drive::begin(&table, &flow);
    drive.advance();
    drive.world.open("a", 0);
    assert!(drive.take_wakes());
    drive.advance();
    assert!(drive.read_external_events(&table));
    assert_eq!(drive.quiesce(&mut table).value(), "Some(3)");
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
    table.external.send("paid", 1);
    table.external.send("paid", 2);
    assert_eq!(Drive::begin(&table, &flow).quiesce(&mut table).value(), "refused Some(2)");
    assert_eq!(Drive::begin(&table, &flow).advance().value(), "refused Some(2)");
}
