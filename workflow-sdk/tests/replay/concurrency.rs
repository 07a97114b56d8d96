//! Plain combinators: what the futures crate has works as it does anywhere, and replays exactly.

use futures::future::{Either, join_all, select};
use futures::stream::{self, FuturesUnordered};
use futures::{StreamExt, TryStreamExt};
use workflow_sdk::{Ctx, Error, Result};

use crate::harness::{Flow, Life, Table, World, flow, run_and_replay};
use crate::table::outcomes;

/// Two races of the same steps that poll their branches in opposite orders.
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
fn the_recorded_winner_wins_again_whatever_the_order_of_polls_and_the_loser_does_not_run() {
    for race in races() {
        let table = Table::default().with_value("b", 1, "\"b won\"");
        let mut life = Life::begin(&table, &race);
        assert_eq!(life.settle().value(), "b won");
        assert_eq!(life.events, ["deliver 1"]);
        assert_eq!(life.world.notes(), [""; 0]);
    }
}

#[test]
fn the_lower_position_wins_where_both_branches_are_recorded() {
    for race in races() {
        let table = Table::default().with_value("a", 2, "\"a\"").with_value("b", 1, "\"b\"");
        assert_eq!(Life::begin(&table, &race).settle().value(), "b");
    }
}

#[test]
fn the_body_that_ends_first_wins_and_the_other_one_is_dropped() {
    for race in races() {
        let mut table = Table::default();
        let mut life = Life::begin(&table, &race);
        life.quiesce(&mut table);
        assert_eq!(life.open("b", &mut table).value(), "<b>");
        assert_eq!(life.world.closed(), [""; 0], "the loser's body still waits");
        assert_eq!(Life::begin(&table, &race).settle().value(), "<b>");
    }
}

#[test]
fn where_both_bodies_end_before_a_commit_both_are_recorded_and_the_first_wins_for_ever() {
    for race in races() {
        let mut table = Table::default();
        let mut life = Life::begin(&table, &race);
        life.quiesce(&mut table);
        life.world.open("b", 0);
        life.look();
        life.settle();
        life.world.open("a", 0);
        life.look();
        life.settle();
        assert!(life.commit(&mut table).unwrap());
        assert!(life.commit(&mut table).unwrap());
        assert_eq!(life.settle().value(), "<b>");
        assert_eq!(outcomes(&table), ["b", "a"]);
        assert_eq!(Life::begin(&table, &race).settle().value(), "<b>");
    }
}

#[test]
fn the_recorded_outcome_of_a_call_that_was_dropped_is_passed_over() {
    let flow = flow!(|ctx| {
        let (a, b) = (ctx.step("a", || ctx.state().body("a")), ctx.step("b", || ctx.state().body("b")));
        select(a, b).await;
        ctx.step("c", || ctx.state().body("c")).await
    });
    let table = Table::default().with_value("a", 1, "\"a\"").with_value("b", 2, "\"b\"").with_value("c", 3, "\"c\"");
    let mut life = Life::begin(&table, &flow);
    assert_eq!(life.settle().value(), "c");
    assert_eq!(life.events, ["deliver 0", "deliver 2"]);
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
    let mut life = Life::begin(&table, &flow);
    life.settle();
    assert!(life.commit(&mut table).unwrap());
    assert!(life.commit(&mut table).unwrap());
    assert_eq!(life.settle().value(), "<b>");
    assert_eq!(life.world.notes(), ["a", "b"]);
}

#[test]
fn a_body_is_polled_when_it_was_woken_and_not_when_another_branch_moves() {
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
    let mut life = Life::begin(&table, &flow);
    life.quiesce(&mut table);
    life.open("other", &mut table);
    assert_eq!(life.world.notes(), ["polled", "other"]);
    assert_eq!(life.open("watched", &mut table).value(), "<other>");
    assert_eq!(life.world.notes(), ["polled", "other", "polled"]);
}

/// `select!` polls its branches in an order that it draws anew each time.
#[test]
fn a_race_by_an_unbiased_select_macro_replays_exactly() {
    let race = flow!(|ctx| {
        let mut a = Box::pin(futures::FutureExt::fuse(ctx.step("a", || ctx.state().gated("a"))));
        let mut b = Box::pin(futures::FutureExt::fuse(ctx.step("b", || ctx.state().gated("b"))));
        futures::select! { value = a => value, value = b => value }
    });
    let table = Table::default().with_value("b", 1, "\"b won\"").with_value("a", 2, "\"a\"");
    for _ in 0..64 {
        assert_eq!(Life::begin(&table, &race).settle().value(), "b won");
    }
}

#[test]
fn join_runs_its_branches_beside_each_other() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let a = ctx.step("a", || ctx.state().gated("a"));
        let b = ctx.step("b", || ctx.state().gated("b"));
        let (a, b) = futures::join!(a, b);
        Ok(a? + &b?)
    });
    let mut life = Life::begin(&table, &flow);
    life.quiesce(&mut table);
    assert_eq!(life.world.notes(), ["a", "b"]);
    life.open("b", &mut table);
    assert_eq!(life.open("a", &mut table).value(), "<a><b>");
    assert_eq!(outcomes(&table), ["b", "a"]);
    let mut replay = Life::begin(&table, &flow);
    assert_eq!(replay.settle().value(), "<a><b>");
    assert_eq!(replay.events, ["deliver 1", "deliver 0"]);
}

#[test]
fn try_join_ends_at_the_first_failure_and_keeps_what_had_succeeded() {
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
    let mut life = Life::begin(&table, &flow);
    life.quiesce(&mut table);
    assert_eq!(life.open("fails", &mut table).error().message, "no");
    assert_eq!(outcomes(&table), ["ok", "fails"]);
    let mut replay = Life::begin(&table, &flow);
    assert_eq!(replay.settle().error().message, "no");
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
fn an_unordered_set_gives_its_values_in_the_recorded_order() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let steps = ["a", "b", "c"].map(|name| ctx.step(name, move || ctx.state().gated(name)));
        steps.into_iter().collect::<FuturesUnordered<_>>().try_collect().await
    });
    let mut life = Life::begin(&table, &flow);
    life.quiesce(&mut table);
    life.open("c", &mut table);
    life.open("a", &mut table);
    assert_eq!(life.open("b", &mut table).value(), "<c><a><b>");
    let mut replay = Life::begin(&table, &flow);
    assert_eq!(replay.settle().value(), "<c><a><b>");
    assert_eq!(replay.events, ["deliver 2", "deliver 0", "deliver 1"]);
}

#[test]
fn join_all_over_a_hundred_steps_replays_in_whatever_order_they_ended() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let steps = (0..100).map(|number| {
            ctx.step("page", move || async move { Ok::<_, Error>(ctx.state().pass(format!("{number:02}")).await) })
        });
        let values = join_all(steps).await.into_iter().collect::<Result<Vec<_>>>()?;
        Ok(values.iter().map(u64::to_string).collect::<Vec<_>>().join(" "))
    });
    let mut life = Life::begin(&table, &flow);
    let mut stop = life.quiesce(&mut table);
    let mut random = fastrand::Rng::with_seed(7);
    for value in 0..100 {
        let closed = life.world.closed();
        life.world.open(&closed[random.usize(..closed.len())], value);
        stop = life.quiesce(&mut table);
    }
    let value = stop.value();
    let mut replay = Life::begin(&table, &flow);
    assert_eq!(replay.settle().value(), value);
    assert_eq!(replay.polls, 101);
}

#[test]
fn a_buffered_stream_has_so_many_bodies_at_a_time_and_keeps_its_order() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let steps = ["a", "b", "c", "d"].map(|name| ctx.step(name, move || ctx.state().gated(name)));
        stream::iter(steps).buffered(2).try_collect().await
    });
    let mut life = Life::begin(&table, &flow);
    life.quiesce(&mut table);
    assert_eq!(life.world.notes(), ["a", "b"]);
    life.open("b", &mut table);
    assert_eq!(life.world.notes(), ["a", "b"], "b is done, but stands behind a");
    life.open("a", &mut table);
    assert_eq!(life.world.notes(), ["a", "b", "c", "d"]);
    life.open("d", &mut table);
    assert_eq!(life.open("c", &mut table).value(), "<a><b><c><d>");
    assert_eq!(Life::begin(&table, &flow).settle().value(), "<a><b><c><d>");
}

#[test]
fn a_race_of_a_step_and_a_sleep_gives_the_faster() {
    let flow = flow!(|ctx| {
        let step = ctx.step("a", || ctx.state().gated("a"));
        let sleep = ctx.sleep(std::time::Duration::from_secs(60));
        Ok(match select(step, sleep).await {
            Either::Left((value, _)) => value?,
            Either::Right(_) => "too late".into(),
        })
    });
    let mut in_time = Table::default();
    let mut life = Life::begin(&in_time, &flow);
    life.quiesce(&mut in_time);
    assert_eq!(life.open("a", &mut in_time).value(), "<a>");
    assert_eq!(Life::begin(&in_time, &flow).settle().value(), "<a>");

    let mut too_late = Table::default();
    let mut life = Life::begin(&too_late, &flow);
    assert_eq!(life.run(&mut too_late).value(), "too late");
    let mut replay = Life::begin(&too_late, &flow);
    assert_eq!(replay.settle().value(), "too late");
    assert_eq!(replay.world.notes(), [""; 0], "the loser's body ran");
}
