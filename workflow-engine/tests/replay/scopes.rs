//! Scopes, maps, races and timeouts: their keys, limits and refusals.

use std::time::Duration;

use workflow_sdk::{Ctx, Either, Error, ErrorKind, Result};

use crate::delivery::outcomes;
use crate::harness::{Drive, Flow, START, Table, World, flow, flow_of, run_and_replay};

const MINUTE: Duration = Duration::from_secs(60);

async fn body(ctx: &Ctx<World>, name: &str) -> Result<String> {
    ctx.step(name, || ctx.state().body(name)).await
}

#[test]
fn calls_in_scopes_have_their_own_keys() {
    let flow = flow!(|ctx| {
        let (first, again) = (ctx.scope("a"), ctx.scope("a"));
        body(&first, "x").await?;
        body(&again, "x").await?;
        body(&first, "x").await?;
        body(&again.scope("b"), "x").await?;
        body(&ctx.scope("a").scope("b"), "x").await?;
        body(&again.scope("b"), "x").await?;
        again.sleep(Duration::ZERO).await?;
        body(ctx, "a/x").await
    });
    let mut table = Table::default();
    run_and_replay(&mut table, &flow).0.unwrap();
    assert_eq!(outcomes(&table), ["a/x", "a:1/x", "a/x:1", "a:1/b/x", "a:2/b/x", "a:1/b:1/x", "a:1/sleep", "a/x:2"]);
}

#[test]
fn a_scope_does_not_change_the_keys_of_other_scopes() {
    let flow = |steps: usize| {
        flow_of(move |ctx: &Ctx<World>| {
            Box::pin(async move {
                let scope = ctx.scope("part");
                for _ in 0..steps {
                    body(&scope, "page").await?;
                }
                body(ctx, "page").await
            })
        })
    };
    for steps in [0, 1, 3] {
        let mut table = Table::default();
        run_and_replay(&mut table, &flow(steps)).0.unwrap();
        assert_eq!(outcomes(&table).last(), Some(&"page"));
    }
}

#[test]
fn every_call_in_an_invalid_scope_is_refused_and_does_nothing() {
    for (name, reason) in [
        (String::new(), "scope name \"\" is empty"),
        ("a/b".into(), "scope name \"a/b\" has a `/`"),
        ("a\nb".into(), "control character"),
        ("x".repeat(256), "256 bytes long"),
    ] {
        let flow = flow_of(move |ctx: &Ctx<World>| {
            let name = name.clone();
            Box::pin(async move {
                let scope = ctx.scope(&name);
                let errors = [
                    body(&scope, "x").await.unwrap_err(),
                    scope.sleep(MINUTE).await.unwrap_err(),
                    body(&scope.scope("fine"), "x").await.unwrap_err(),
                    scope.timeout(MINUTE, body(ctx, "late")).await.unwrap_err(),
                    scope.map(["x"], 1, async |ctx, item| body(&ctx, item).await).name("m").await.unwrap_err(),
                ];
                assert!(errors.iter().all(|error| error.kind() == ErrorKind::Refused && error.is_fatal()));
                assert!(errors.windows(2).all(|two| two[0].message() == two[1].message()), "{errors:?}");
                Ok(errors[0].to_string())
            })
        });
        let mut table = Table::default();
        let (message, notes) = run_and_replay(&mut table, &flow);
        assert!(message.as_ref().unwrap().contains(reason), "{message:?}");
        assert_eq!((notes.len(), table.rows.len()), (0, 0));
    }
}

#[test]
fn a_key_that_is_too_long_is_refused() {
    let flow = flow!(|ctx| {
        let name = "n".repeat(255);
        let deep = ctx.scope(&name).scope(&name).scope(&name);
        body(&deep, &name).await?;
        let deeper = deep.scope("d");
        let refused = body(&deeper, &name).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Refused);
        // The key is refused, and the scope is not.
        body(&deeper, &name[..253]).await?;
        Ok(refused.to_string())
    });
    let mut table = Table::default();
    let message = run_and_replay(&mut table, &flow).0.unwrap();
    assert!(message.contains("is 1025 bytes long; use shorter names or fewer scopes"), "{message}");
    assert_eq!(table.rows.iter().map(|row| row.step_key.len()).collect::<Vec<_>>(), [1023, 1023]);
}

#[test]
fn a_scope_inside_the_body_of_a_step_is_refused() {
    let flow = flow!(|ctx| {
        let body = async || Ok::<_, Error>(body(&ctx.scope("inner"), "x").await.unwrap_err().to_string());
        let message = ctx.step("outer", body).await?;
        self::body(&ctx.scope("inner"), "x").await?;
        Ok(message)
    });
    let mut table = Table::default();
    let message = run_and_replay(&mut table, &flow).0.unwrap();
    assert!(message.contains("the scope \"inner\" was opened at"), "{message}");
    assert!(message.contains("inside the body of step \"outer\""), "{message}");
    assert_eq!(outcomes(&table), ["outer", "inner/x"]);
}

fn gated_map(limit: usize) -> Flow {
    flow_of(move |ctx: &Ctx<World>| {
        Box::pin(async move {
            let map = ctx.map(["a", "b", "c", "d"], limit, |ctx, item| async move {
                ctx.step("x", || ctx.state().gated(item)).await
            });
            Ok(map.await?.concat())
        })
    })
}

#[test]
fn a_map_limits_its_running_items_and_begins_the_next_when_one_ends() {
    let mut table = Table::default();
    let mut drive = Drive::begin(&table, &gated_map(2));
    drive.quiesce(&mut table);
    assert_eq!(drive.world.notes(), ["a", "b"]);
    drive.open("b", &mut table);
    assert_eq!(drive.world.notes(), ["a", "b", "c"]);
    drive.open("c", &mut table);
    drive.open("d", &mut table);
    assert_eq!(drive.open("a", &mut table).value(), "<a><b><c><d>");
    assert_eq!(outcomes(&table), ["map/1/x", "map/2/x", "map/3/x", "map/0/x"]);
    let mut replay = Drive::begin(&table, &gated_map(2));
    assert_eq!(replay.advance().value(), "<a><b><c><d>");
    assert_eq!(replay.world.notes(), [""; 0]);
}

/// The keys of items do not depend on the limit, so the limit may change while the run is under
/// way.
#[test]
fn a_map_continues_with_another_limit_after_a_crash() {
    let table = Table::default().with_value("map/1/x", 1, "\"1\"").with_value("map/2/x", 2, "\"2\"");
    for limit in [1, 3, 4, 100] {
        let mut table = table.clone();
        let mut drive = Drive::begin(&table, &gated_map(limit));
        drive.quiesce(&mut table);
        drive.open("a", &mut table);
        assert_eq!(drive.open("d", &mut table).value(), "<a>12<d>");
        assert_eq!(drive.world.notes().len(), 2, "limit {limit}");
        assert_eq!(outcomes(&table), ["map/1/x", "map/2/x", "map/0/x", "map/3/x"]);
        let mut replay = Drive::begin(&table, &gated_map(limit));
        assert_eq!(replay.advance().value(), "<a>12<d>");
        let delivered: Vec<_> = replay.events.iter().filter(|event| event.starts_with("deliver")).collect();
        assert_eq!(delivered.len(), 4);
        assert_eq!(replay.world.notes(), [""; 0]);
    }
}

#[test]
fn an_empty_map_returns_nothing() {
    let flow = flow!(|ctx| {
        let values = ctx.map([(); 0], 1, async |_, ()| Ok::<_, Error>(1)).await?;
        let results = ctx.map([(); 0], 1, async |_, ()| Ok::<_, Error>(1)).collect_results().await?;
        Ok(format!("{} {}", values.len(), results.len()))
    });
    assert_eq!(run_and_replay(&mut Table::default(), &flow).0.unwrap(), "0 0");
}

#[test]
fn a_limit_of_0_is_refused_and_begins_nothing() {
    let flow = flow!(|ctx| {
        let count = std::sync::atomic::AtomicUsize::new(0);
        let begin = |_: workflow_sdk::Scope<'_, World>, (): ()| {
            count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            std::future::ready(Ok::<_, Error>(()))
        };
        let error = ctx.map([(); 3], 0, begin).await.unwrap_err();
        let same = ctx.map([(); 0], 0, begin).name("pages").collect_results().await.unwrap_err();
        assert_eq!((error.kind(), same.kind()), (ErrorKind::Refused, ErrorKind::Refused));
        assert_eq!(count.load(std::sync::atomic::Ordering::SeqCst), 0);
        Ok(format!("{error}\n{same}"))
    });
    let message = run_and_replay(&mut Table::default(), &flow).0.unwrap();
    assert!(
        message.starts_with("the map \"map\" has a limit of 0, so no item could ever begin; give ctx.map"),
        "{message}"
    );
    assert!(message.contains("the map \"pages\" has a limit of 0"), "{message}");
}

#[test]
fn maps_of_one_name_and_numbered_names_have_separate_keys() {
    let flow =
        flow!(|ctx| {
            ctx.map([()], 1, |ctx, ()| async move { body(&ctx, "x").await }).name("pages").await?;
            ctx.map([()], 1, |ctx, ()| async move { body(&ctx, "x").await }).await?;
            ctx.map([()], 1, |ctx, ()| async move { body(&ctx, "x").await }).name("pages").await?;
            ctx.map([()], 1, |ctx, ()| async move { body(&ctx, "x").await }).await?;
            ctx.map([()], 1, |ctx, ()| async move {
                ctx.map([()], 1, |ctx, ()| async move { body(&ctx, "x").await }).await
            })
            .await?;
            Ok(String::new())
        });
    let mut table = Table::default();
    run_and_replay(&mut table, &flow).0.unwrap();
    assert_eq!(outcomes(&table), ["pages/0/x", "map/0/x", "pages:1/0/x", "map:1/0/x", "map:2/0/map/0/x"]);
}

#[test]
fn the_policies_of_a_map_differ_after_a_failure() {
    let flow = flow!(|ctx| {
        let item = |name: &'static str| {
            ctx.map(["a", "b", "c"], 2, move |ctx, item| async move {
                let failing =
                    async || if item == "c" { Ok(item.to_owned()) } else { Err(Error::fatal(format!("no {item}"))) };
                ctx.step("x", failing).await
            })
            .name(name)
        };
        let first = item("first").await.unwrap_err();
        let all = item("all").finish_all().await.unwrap_err();
        let each = item("each").collect_results().await?;
        let each: Vec<_> = each.into_iter().map(|result| result.unwrap_or_else(|error| error.to_string())).collect();
        Ok(format!("{first}; {all}; {}", each.join(", ")))
    });
    let mut table = Table::default();
    let value = run_and_replay(&mut table, &flow).0.unwrap();
    assert_eq!(
        value,
        "step \"first/0/x\": no a; step \"all/0/x\": no a; step \"each/0/x\": no a, step \"each/1/x\": no b, c"
    );
    let began_third = |map: &str| table.rows.iter().any(|row| row.step_key == format!("{map}/2/x"));
    assert_eq!(["first", "all", "each"].map(began_third), [false, true, true]);
}

#[test]
fn the_first_of_two_ready_branches_wins() {
    let flow = flow!(|ctx| {
        use std::future::ready;
        let left = ctx.select(ready("a"), ready("b")).await;
        let (first, value) = ctx.race(["c", "d"].map(ready)).await?;
        let late = ctx.timeout(Duration::ZERO, ready(Ok::<_, Error>("e"))).await?;
        Ok(format!("{left:?} {first} {value} {late}"))
    });
    let mut table = Table::default();
    assert_eq!(run_and_replay(&mut table, &flow).0.unwrap(), "Left(\"a\") 0 c e");
    assert_eq!(table.rows.len(), 0, "a timeout that never waited leaves no row");
}

/// Two futures that end with the same outcome are ready in the same poll, in any order of wakes.
#[test]
fn branches_that_are_woken_together_are_polled_in_their_order() {
    let flow = flow!(|ctx| {
        let shared = futures::FutureExt::shared(async { body(ctx, "x").await.map_err(|error| error.to_string()) });
        let late = shared.clone();
        // The second future is polled first, so it is the first waker of the step.
        let mut second = Box::pin(late);
        assert!(futures::poll!(&mut second).is_pending());
        let first: futures::future::BoxFuture<'_, _> = Box::pin(shared);
        let (winner, value) = ctx.race([first, second]).await?;
        Ok(format!("{winner} {}", value.map_err(Error::msg)?))
    });
    assert_eq!(run_and_replay(&mut Table::default(), &flow).0.unwrap(), "0 <x>");
}

#[test]
fn an_empty_race_is_refused() {
    let flow = flow!(|ctx| {
        let error = ctx.race(Vec::<std::future::Ready<()>>::new()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused);
        Ok(error.to_string())
    });
    let message = run_and_replay(&mut Table::default(), &flow).0.unwrap();
    assert!(message.starts_with("a race of no futures would never end"), "{message}");
}

#[test]
fn the_losers_are_dropped_even_if_the_race_is_kept() {
    let flow = flow!(|ctx| {
        let step = |name: &'static str| ctx.step(name, move || ctx.state().gated(name));
        let mut race = ctx.race([step("a"), step("b")]);
        let (winner, _) = (&mut race).await?;
        let mut select = ctx.select(step("c"), step("d"));
        let side = matches!((&mut select).await, Either::Left(_));
        let mut timeout = ctx.timeout(MINUTE, step("e"));
        let late = (&mut timeout).await.unwrap_err();
        let mut map = ctx.map(["f", "g"], 2, |ctx, name| async move {
            ctx.step(name, || ctx.state().gated(name)).await?;
            Err::<(), _>(Error::msg("no"))
        });
        let failed = (&mut map).await.unwrap_err();
        ctx.step("kept", || ctx.state().gated("kept")).await?;
        Ok(format!("{winner} {side} {} {failed}", late.kind()))
    });
    let mut table = Table::default();
    let mut drive = Drive::begin(&table, &flow);
    drive.quiesce(&mut table);
    drive.open("b", &mut table);
    assert_eq!(drive.world.closed(), ["c", "d"]);
    drive.open("c", &mut table);
    assert_eq!(drive.world.closed(), ["e"]);
    drive.set_now(START + MINUTE);
    drive.quiesce(&mut table);
    assert_eq!(drive.world.closed(), ["f", "g"]);
    drive.open("g", &mut table);
    assert_eq!(drive.world.closed(), ["kept"]);
    assert_eq!(drive.open("kept", &mut table).value(), "1 true timeout no");
    assert_eq!(Drive::begin(&table, &flow).advance().value(), "1 true timeout no");
}

#[test]
fn a_timeout_counts_from_its_first_poll_and_its_end_survives_a_crash() {
    let flow = flow!(|ctx| {
        let work = async {
            body(ctx, "before").await?;
            ctx.step("slow", || ctx.state().gated("slow")).await
        };
        Ok(match ctx.timeout(MINUTE, work).await {
            Ok(value) => value,
            Err(error) => format!("{}: {error}", error.kind()),
        })
    });
    let mut table = Table::default();
    let mut drive = Drive::begin(&table, &flow);
    drive.quiesce(&mut table);
    assert_eq!(outcomes(&table), ["before"]);
    drop(drive);
    // The next drive waits only for the rest of the minute.
    let mut drive = Drive::begin_at(&table, &flow, START + MINUTE / 2, World::default());
    assert_eq!(
        drive.quiesce(&mut table).timer(),
        Some(START + MINUTE / 2 + Duration::from_millis(20)),
        "the running row is due first"
    );
    drive.set_now(START + (MINUTE - Duration::from_micros(1)));
    assert_eq!(drive.quiesce(&mut table).timer(), Some(START + MINUTE));
    drive.set_now(START + MINUTE);
    let text = "timeout: step \"timeout\": the future of ctx.timeout had not ended after 60s; \
                give it more time, or handle this error";
    assert_eq!(drive.quiesce(&mut table).value(), text);
    assert_eq!(outcomes(&table), ["before", "timeout"]);
    let mut replay = Drive::begin(&table, &flow);
    assert_eq!(replay.advance().value(), text);
    assert_eq!(replay.world.notes(), [""; 0]);
}

#[test]
fn a_run_that_only_waits_within_a_timeout_may_be_parked() {
    let flow = flow!(|ctx| {
        let slept = ctx.timeout(MINUTE, ctx.sleep(2 * MINUTE)).await;
        Ok(slept.unwrap_err().kind().to_string())
    });
    let mut table = Table::default();
    let mut drive = Drive::begin(&table, &flow);
    assert_eq!(drive.quiesce(&mut table).park_until(), Some(START + MINUTE));
    let mut later = Drive::begin_at(&table, &flow, START + MINUTE, World::default());
    assert_eq!(later.quiesce(&mut table).value(), "timeout");
}
