//! Work that grows with the history, and no faster. Counted in polls and deliveries, not in time.

use futures::StreamExt;
use futures::future::join_all;
use futures::stream::FuturesUnordered;
use workflow_sdk::{Ctx, Error, Result};

use crate::harness::{Flow, Life, Table, World, flow_of};

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
    Table { rows: (0..steps).map(row).collect(), generation: 0 }
}

#[test]
fn a_replay_polls_once_for_each_recorded_step_however_many_there_are() {
    for steps in [1000, 10_000] {
        let mut life = Life::begin(&history(steps), &sequential(steps));
        assert_eq!(life.settle().value(), (steps * (steps - 1) / 2).to_string());
        assert_eq!((life.polls, life.events.len()), (steps + 1, steps));
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
    let mut life = Life::begin(&Table::default(), &flow);
    life.settle();
    // The table's own check of each row against all others would take quadratic time.
    let table = Table { rows: life.in_flight.drain(..).collect(), generation: 0 };
    assert_eq!(table.rows.len(), STEPS);
    table.rows.iter().for_each(|_| life.cell.committed());
    let value = life.settle().value();
    let mut replay = Life::begin(&table, &flow);
    assert_eq!(replay.settle().value(), value);
    assert_eq!((life.polls, replay.polls), (STEPS + 1, STEPS + 1));
}

/// The losers of a race wait for leave to start, and are dropped one by one.
#[test]
fn ten_thousand_losers_of_a_recorded_race_are_dropped_without_ado() {
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
    let mut life = Life::begin(&table, &flow);
    assert_eq!(life.settle().value(), "Some(7777)");
    assert_eq!(life.world.notes(), [""; 0]);
}
