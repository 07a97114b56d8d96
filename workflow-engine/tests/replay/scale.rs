//! The work of a replay grows linearly with its history, counted in polls and deliveries.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::StreamExt;
use futures::future::join_all;
use futures::stream::FuturesUnordered;
use workflow_sdk::{Ctx, Error, Result};

use crate::harness::{Drive, Flow, Table, World, flow_of};

fn sequential(steps: usize) -> Flow {
    flow_of(move |ctx: &Ctx<World>| {
        Box::pin(async move {
            let mut sum = 0;
            for number in 0..steps {
                sum += ctx.step("page", async || Ok::<_, Error>(number)).await?;
            }
            Ok(sum.to_string())
        })
    })
}

fn history(steps: usize) -> Table {
    let key = |number| if number == 0 { "page".to_owned() } else { format!("page:{number}") };
    let row = |number: usize| {
        let (position, output) = (i64::try_from(number).unwrap() + 1, number.to_string());
        crate::harness::row(&key(number), 1, workflow_sdk::AttemptStatus::Succeeded, Some(position), Some(&output))
    };
    Table { rows: (0..steps).map(row).collect(), ..Table::default() }
}

#[test]
fn a_replay_polls_once_per_recorded_step() {
    for steps in [1000, 10_000] {
        let mut drive = Drive::begin(&history(steps), &sequential(steps));
        assert_eq!(drive.advance().value(), (steps * (steps - 1) / 2).to_string());
        assert_eq!((drive.polls, drive.events.len()), (steps + 1, steps));
    }
}

#[test]
fn ten_thousand_parallel_steps_run_and_replay() {
    const STEPS: usize = 10_000;
    let flow = flow_of(move |ctx: &Ctx<World>| {
        Box::pin(async move {
            let steps = (0..STEPS).map(|number| ctx.step("page", move || async move { Ok::<_, Error>(number) }));
            let values = join_all(steps).await.into_iter().collect::<Result<Vec<_>>>()?;
            Ok(values.iter().sum::<usize>().to_string())
        })
    });
    let mut drive = Drive::begin(&Table::default(), &flow);
    drive.advance();
    // The check of the table, each row against all others, would take quadratic time.
    let table = Table { rows: drive.in_flight.drain(..).collect(), ..Table::default() };
    assert_eq!(table.rows.len(), STEPS);
    table.rows.iter().for_each(|_| drive.cell.committed());
    let value = drive.advance().value();
    let mut replay = Drive::begin(&table, &flow);
    assert_eq!(replay.advance().value(), value);
    assert_eq!((drive.polls, replay.polls), (STEPS + 1, STEPS + 1));
}

/// The losers of a race wait to start, and are dropped one by one.
#[test]
fn ten_thousand_losers_of_a_recorded_race_are_dropped() {
    const STEPS: usize = 10_000;
    let flow = flow_of(move |ctx: &Ctx<World>| {
        Box::pin(async move {
            let steps = (0..STEPS).map(|number| ctx.step("page", move || async move { Ok::<_, Error>(number) }));
            let mut steps = steps.collect::<FuturesUnordered<_>>();
            let winner = steps.next().await.transpose()?;
            Ok(format!("{winner:?}"))
        })
    });
    let table = Table::default().with_value("page:7777", 1, "7777");
    let mut drive = Drive::begin(&table, &flow);
    assert_eq!(drive.advance().value(), "Some(7777)");
    assert_eq!(drive.world.notes(), [""; 0]);
}

/// Returns a map whose items have two steps each, and counts of the items that began and of their
/// polls.
fn map_of(items: usize) -> (Flow, Arc<[AtomicUsize; 2]>) {
    let counts: Arc<[AtomicUsize; 2]> = Arc::default();
    let counted = Arc::clone(&counts);
    let flow = flow_of(move |ctx: &Ctx<World>| {
        let counts = Arc::clone(&counted);
        Box::pin(async move {
            let counts = &counts;
            let pages = ctx.map(0..items, 100, |ctx, number| {
                counts[0].fetch_add(1, Ordering::SeqCst);
                async move {
                    let mut page = pin!(async {
                        let fetched = ctx.step("fetch", async || Ok::<_, Error>(number)).await?;
                        ctx.step("store", async || Ok::<_, Error>(fetched)).await
                    });
                    std::future::poll_fn(|cx| {
                        counts[1].fetch_add(1, Ordering::SeqCst);
                        page.as_mut().poll(cx)
                    })
                    .await
                }
            });
            Ok(pages.await?.iter().sum::<usize>().to_string())
        })
    });
    (flow, counts)
}

/// A hundred items are in flight at all times, and only the item whose outcome is delivered is
/// polled.
#[test]
fn a_map_polls_each_item_once_per_outcome() {
    for items in [1000, 10_000] {
        let (flow, _) = map_of(items);
        let mut drive = Drive::begin(&Table::default(), &flow);
        let mut rows = Vec::new();
        let value = loop {
            match drive.advance() {
                crate::harness::Stop::Ended(result) => break result.unwrap(),
                crate::harness::Stop::Diverged(divergence) => panic!("{divergence}"),
                crate::harness::Stop::Continued(input) => panic!("continued with {input}"),
                crate::harness::Stop::Waits { .. } => {
                    // The check of the table, each row against all others, would take quadratic
                    // time.
                    let batch: Vec<_> = drive.in_flight.drain(..).collect();
                    assert!((1..=100).contains(&batch.len()), "{} bodies ended at once", batch.len());
                    batch.iter().for_each(|_| drive.cell.committed());
                    rows.extend(batch);
                }
            }
        };
        assert_eq!(value, (items * (items - 1) / 2).to_string());
        assert_eq!(rows.len(), 2 * items);

        let (flow, counts) = map_of(items);
        let mut replay = Drive::begin(&Table { rows, ..Table::default() }, &flow);
        assert_eq!(replay.advance().value(), value);
        assert_eq!((replay.polls, replay.events.len()), (2 * items + 1, 2 * items));
        let counts = [&counts[0], &counts[1]].map(|count| count.load(Ordering::SeqCst));
        assert_eq!(counts, [items, 3 * items], "the items that began, and their polls");
    }
}

#[test]
fn ten_thousand_branches_of_a_race_are_polled_once_and_then_when_woken() {
    const STEPS: usize = 10_000;
    let polls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&polls);
    let flow = flow_of(move |ctx: &Ctx<World>| {
        let polls = Arc::clone(&counted);
        Box::pin(async move {
            let racers = (0..STEPS).map(|number| {
                let (scope, polls) = (ctx.scope("racer"), &polls);
                async move {
                    let mut steps = pin!(async {
                        for _ in 0..2 {
                            scope.step("page", async || Ok::<_, Error>(number)).await?;
                        }
                        Ok::<_, Error>(number)
                    });
                    std::future::poll_fn(|cx| {
                        polls.fetch_add(1, Ordering::SeqCst);
                        steps.as_mut().poll(cx)
                    })
                    .await
                }
            });
            let (winner, number) = ctx.race(racers).await?;
            assert_eq!(winner, number?);
            Ok(winner.to_string())
        })
    });
    let row = |number: usize, key: &str, position: usize| {
        let position = Some(i64::try_from(position).unwrap());
        let key = if number == 0 { format!("racer/{key}") } else { format!("racer:{number}/{key}") };
        crate::harness::row(&key, 1, workflow_sdk::AttemptStatus::Succeeded, position, Some(&number.to_string()))
    };
    let mut rows: Vec<_> = (0..STEPS).map(|number| row(number, "page", number + 1)).collect();
    rows.push(row(7777, "page:1", STEPS + 1));
    let mut drive = Drive::begin(&Table { rows, ..Table::default() }, &flow);
    assert_eq!(drive.advance().value(), "7777");
    assert_eq!(polls.load(Ordering::SeqCst), 2 * STEPS + 1);
    assert_eq!(drive.world.notes(), [""; 0]);
}
