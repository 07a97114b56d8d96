//! Combinators of the futures crate work as usual, and replay exactly.

use futures::future::{Either, join_all, select};
use futures::stream::{self, FuturesUnordered};
use futures::{StreamExt, TryStreamExt};
use workflow_sdk::{Ctx, Error, Result};

use crate::delivery::outcomes;
use crate::harness::{Drive, Flow, Table, World, flow, run_and_replay};

/// Returns two races of the same steps, which poll their branches in opposite orders.
fn races() -> [Flow; 2] {
    let a_first = flow!(|ctx| {
        let a = ctx.step("a", || ctx.state().gated("a"));
        let b = ctx.step("b", || ctx.state().gated("b"));
        match select(a, b).await {
            Either::Left((value, _)) | Either::Right((value, _)) => value,
        }
    });
    let b_first = flow!(|ctx| {
        let a = ctx.step("a", || ctx.state().gated("a"));
        let b = ctx.step("b", || ctx.state().gated("b"));
        match select(b, a).await {
            Either::Left((value, _)) | Either::Right((value, _)) => value,
        }
    });
    [a_first, b_first]
}

#[test]
fn the_recorded_winner_wins_again_in_any_poll_order_and_the_loser_does_not_run() {
    for race in races() {
        let table = Table::default().with_value("b", 1, "\"b won\"");
        let mut drive = Drive::begin(&table, &race);
        assert_eq!(drive.advance().value(), "b won");
        assert_eq!(drive.events, ["deliver 1"]);
        assert_eq!(drive.world.notes(), [""; 0]);
    }
}

#[test]
fn the_lower_position_wins_if_both_branches_are_recorded() {
    for race in races() {
        let table = Table::default().with_value("a", 2, "\"a\"").with_value("b", 1, "\"b\"");
        assert_eq!(Drive::begin(&table, &race).advance().value(), "b");
    }
}

#[test]
fn the_body_that_ends_first_wins_and_the_other_one_is_dropped() {
    for race in races() {
        let mut table = Table::default();
        let mut drive = Drive::begin(&table, &race);
        drive.quiesce(&mut table);
        assert_eq!(drive.open("b", &mut table).value(), "<b>");
        assert_eq!(drive.world.closed(), [""; 0], "the body of the loser is dropped");
        assert_eq!(Drive::begin(&table, &race).advance().value(), "<b>");
    }
}

#[test]
fn two_bodies_that_end_before_a_commit_are_recorded_and_the_first_always_wins() {
    for race in races() {
        let mut table = Table::default();
        let mut drive = Drive::begin(&table, &race);
        drive.quiesce(&mut table);
        drive.world.open("b", 0);
        drive.take_wakes();
        drive.advance();
        drive.world.open("a", 0);
        drive.take_wakes();
        drive.advance();
        assert!(drive.commit(&mut table).unwrap());
        assert!(drive.commit(&mut table).unwrap());
        assert_eq!(drive.advance().value(), "<b>");
        assert_eq!(outcomes(&table), ["b", "a"]);
        assert_eq!(Drive::begin(&table, &race).advance().value(), "<b>");
    }
}

#[test]
fn the_recorded_outcome_of_a_dropped_call_is_skipped() {
    let flow = flow!(|ctx| {
        let (a, b) = (ctx.step("a", || ctx.state().body("a")), ctx.step("b", || ctx.state().body("b")));
        select(a, b).await;
        ctx.step("c", || ctx.state().body("c")).await
    });
    let table = Table::default().with_value("a", 1, "\"a\"").with_value("b", 2, "\"b\"").with_value("c", 3, "\"c\"");
    let mut drive = Drive::begin(&table, &flow);
    assert_eq!(drive.advance().value(), "c");
    assert_eq!(drive.events, ["deliver 0", "deliver 2"]);
}

#[test]
fn a_body_does_not_begin_while_an_outcome_that_may_drop_it_waits_for_delivery() {
    let flow = flow!(|ctx| {
        let two = Box::pin(async {
            ctx.step("a", || ctx.state().body("a")).await?;
            ctx.step("next", || ctx.state().body("next")).await
        });
        match select(two, ctx.step("b", || ctx.state().body("b"))).await {
            Either::Left((value, _)) | Either::Right((value, _)) => value,
        }
    });
    let mut table = Table::default();
    let mut drive = Drive::begin(&table, &flow);
    drive.advance();
    assert!(drive.commit(&mut table).unwrap());
    assert!(drive.commit(&mut table).unwrap());
    assert_eq!(drive.advance().value(), "<b>");
    assert_eq!(drive.world.notes(), ["a", "b"]);
}

#[test]
fn a_body_is_polled_only_when_it_was_woken() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let watched = ctx.step("watched", async || {
            let mut gate = ctx.state().pass("watched");
            let gate = std::future::poll_fn(move |cx| {
                ctx.state().note("polled");
                std::pin::Pin::new(&mut gate).poll(cx)
            });
            Ok::<_, Error>(gate.await)
        });
        let other = ctx.step("other", || ctx.state().gated("other"));
        let (watched, other) = futures::join!(watched, other);
        watched.and(other)
    });
    let mut drive = Drive::begin(&table, &flow);
    drive.quiesce(&mut table);
    drive.open("other", &mut table);
    assert_eq!(drive.world.notes(), ["polled", "other"]);
    assert_eq!(drive.open("watched", &mut table).value(), "<other>");
    assert_eq!(drive.world.notes(), ["polled", "other", "polled"]);
}

/// `select!` polls its branches in a new random order each time.
#[test]
fn a_race_by_an_unbiased_select_macro_replays_exactly() {
    let race = flow!(|ctx| {
        let mut a = Box::pin(futures::FutureExt::fuse(ctx.step("a", || ctx.state().gated("a"))));
        let mut b = Box::pin(futures::FutureExt::fuse(ctx.step("b", || ctx.state().gated("b"))));
        futures::select! { value = a => value, value = b => value }
    });
    let table = Table::default().with_value("b", 1, "\"b won\"").with_value("a", 2, "\"a\"");
    for _ in 0..64 {
        assert_eq!(Drive::begin(&table, &race).advance().value(), "b won");
    }
}

#[test]
fn join_runs_its_branches_concurrently() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let a = ctx.step("a", || ctx.state().gated("a"));
        let b = ctx.step("b", || ctx.state().gated("b"));
        let (a, b) = futures::join!(a, b);
        Ok(a? + &b?)
    });
    let mut drive = Drive::begin(&table, &flow);
    drive.quiesce(&mut table);
    assert_eq!(drive.world.notes(), ["a", "b"]);
    drive.open("b", &mut table);
    assert_eq!(drive.open("a", &mut table).value(), "<a><b>");
    assert_eq!(outcomes(&table), ["b", "a"]);
    let mut replay = Drive::begin(&table, &flow);
    assert_eq!(replay.advance().value(), "<a><b>");
    assert_eq!(replay.events, ["deliver 1", "deliver 0"]);
}

#[test]
fn try_join_ends_at_the_first_failure_and_keeps_recorded_successes() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let ok = ctx.step("ok", || ctx.state().body("ok"));
        let fails = ctx.step("fails", async || {
            ctx.state().gated("fails").await?;
            Err::<(), _>(Error::fatal("no"))
        });
        let slow = ctx.step("slow", || ctx.state().gated("slow"));
        let (ok, (), slow) = futures::try_join!(ok, fails, slow)?;
        Ok(ok + &slow)
    });
    let mut drive = Drive::begin(&table, &flow);
    drive.quiesce(&mut table);
    assert_eq!(drive.open("fails", &mut table).error().message, "no");
    assert_eq!(outcomes(&table), ["ok", "fails"]);
    let mut replay = Drive::begin(&table, &flow);
    assert_eq!(replay.advance().error().message, "no");
    assert_eq!(replay.world.notes(), [""; 0]);
}

#[test]
fn a_sibling_of_a_failing_step_keeps_its_success() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let ok = ctx.step("ok", || ctx.state().body("ok"));
        let fails = ctx.step("fails", async || Err::<(), _>(Error::fatal("no")));
        let (ok, failed) = futures::join!(ok, fails);
        Ok(format!("{} {}", ok?, failed.unwrap_err()))
    });
    assert_eq!(run_and_replay(&mut table, &flow).0.unwrap(), "<ok> step \"fails\": no");
}

#[test]
fn an_unordered_set_returns_its_values_in_the_recorded_order() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let steps = ["a", "b", "c"].map(|name| ctx.step(name, move || ctx.state().gated(name)));
        steps.into_iter().collect::<FuturesUnordered<_>>().try_collect().await
    });
    let mut drive = Drive::begin(&table, &flow);
    drive.quiesce(&mut table);
    drive.open("c", &mut table);
    drive.open("a", &mut table);
    assert_eq!(drive.open("b", &mut table).value(), "<c><a><b>");
    let mut replay = Drive::begin(&table, &flow);
    assert_eq!(replay.advance().value(), "<c><a><b>");
    assert_eq!(replay.events, ["deliver 2", "deliver 0", "deliver 1"]);
}

#[test]
fn join_all_of_a_hundred_steps_replays_for_any_order_of_their_ends() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let steps = (0..100).map(|number| {
            ctx.step("page", move || async move { Ok::<_, Error>(ctx.state().pass(format!("{number:02}")).await) })
        });
        let values = join_all(steps).await.into_iter().collect::<Result<Vec<_>>>()?;
        Ok(values.iter().map(u64::to_string).collect::<Vec<_>>().join(" "))
    });
    let mut drive = Drive::begin(&table, &flow);
    let mut stop = drive.quiesce(&mut table);
    let mut random = fastrand::Rng::with_seed(7);
    for value in 0..100 {
        let closed = drive.world.closed();
        drive.world.open(&closed[random.usize(..closed.len())], value);
        stop = drive.quiesce(&mut table);
    }
    let value = stop.value();
    let mut replay = Drive::begin(&table, &flow);
    assert_eq!(replay.advance().value(), value);
    assert_eq!(replay.polls, 101);
}

#[test]
fn a_buffered_stream_limits_its_bodies_and_keeps_its_order() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let steps = ["a", "b", "c", "d"].map(|name| ctx.step(name, move || ctx.state().gated(name)));
        stream::iter(steps).buffered(2).try_collect().await
    });
    let mut drive = Drive::begin(&table, &flow);
    drive.quiesce(&mut table);
    assert_eq!(drive.world.notes(), ["a", "b"]);
    drive.open("b", &mut table);
    assert_eq!(drive.world.notes(), ["a", "b"], "b has ended, but its value waits for the value of a");
    drive.open("a", &mut table);
    assert_eq!(drive.world.notes(), ["a", "b", "c", "d"]);
    drive.open("d", &mut table);
    assert_eq!(drive.open("c", &mut table).value(), "<a><b><c><d>");
    assert_eq!(Drive::begin(&table, &flow).advance().value(), "<a><b><c><d>");
}

#[test]
fn a_race_of_a_step_and_a_sleep_returns_the_faster() {
    let flow = flow!(|ctx| {
        let step = ctx.step("a", || ctx.state().gated("a"));
        let sleep = ctx.sleep(std::time::Duration::from_secs(60));
        Ok(match select(step, sleep).await {
            Either::Left((value, _)) => value?,
            Either::Right(_) => "too late".into(),
        })
    });
    let mut in_time = Table::default();
    let mut drive = Drive::begin(&in_time, &flow);
    drive.quiesce(&mut in_time);
    assert_eq!(drive.open("a", &mut in_time).value(), "<a>");
    assert_eq!(Drive::begin(&in_time, &flow).advance().value(), "<a>");

    let mut too_late = Table::default();
    let mut drive = Drive::begin(&too_late, &flow);
    assert_eq!(drive.run(&mut too_late).value(), "too late");
    let mut replay = Drive::begin(&too_late, &flow);
    assert_eq!(replay.advance().value(), "too late");
    assert_eq!(replay.world.notes(), [""; 0], "the replay runs no body");
}
