use std::time::{Duration, Instant};

use uuid::Uuid;
use workflow_sdk::Client;
use workflow_worker::Worker;

use crate::database::{Kind, Place};
use crate::report::{Report, Target};
use crate::samples::Samples;
use crate::workflows::{STEP_BYTES, mapped, register, steps_at_once};
use crate::working::Working;
use crate::{BoxResult, Common, limit};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Steps side by side.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,
    /// Items of the map.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    items: u32,
    /// Items of the map at a time.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Rounds, each of the bare program and the runs in turn; the medians count.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

pub(crate) async fn run(args: Args) -> BoxResult<()> {
    let place = Place::parse(args.common.database.as_deref())?;
    let (mut commit, mut steps) = (Vec::new(), Vec::new());
    let (mut items_commit, mut items) = (Vec::new(), Vec::new());
    for _ in 0..args.rounds {
        commit.push(bare_round(&place, args.steps).await?);
        steps.push(engine_round(&place, args.steps, async |client| at_once(client, args.steps).await).await?);
        items_commit.push(bare_round(&place, args.items).await?);
        items.push(engine_round(&place, args.items, async |client| map(client, args.items, args.limit).await).await?);
    }
    let mut report = Report::new("fan-out", place.kind())
        .setting("steps", args.steps)
        .setting("items", args.items)
        .setting("limit", args.limit)
        .setting("rounds", args.rounds);
    let most = match place.kind() {
        Kind::Sqlite => 60.0,
        Kind::Postgres => 100.0,
    };
    let (commit, steps) = (Samples::new(commit)?.p50_ms(), Samples::new(steps)?.p50_ms());
    report.figure(format!("limit: one commit of {} steps", args.steps), commit, "ms");
    report.figure(format!("{} steps at once", args.steps), steps, "ms");
    report.judged("over one commit", steps - commit, "ms", Target::AtMost(most));
    let (commit, items) = (Samples::new(items_commit)?.p50_ms(), Samples::new(items)?.p50_ms());
    report.figure(format!("limit: one commit of {} steps", args.items), commit, "ms");
    report.figure(format!("a map over {} items", args.items), items, "ms");
    report.figure("items of the map", f64::from(args.items) / items * 1e3, "items/s");
    report.print(args.common.json);
    Ok(())
}

async fn bare_round(place: &Place, steps: u32) -> BoxResult<Duration> {
    let database = place.fresh();
    drop(database.client().await?);
    let runs: Vec<_> = (0..steps).map(|_| Uuid::now_v7()).collect();
    let elapsed = limit::one_commit(&database, &runs).await?;
    database.remove().await?;
    Ok(elapsed)
}

/// The time of this work in an idle worker.
async fn engine_round(place: &Place, steps: u32, work: impl AsyncFn(&Client) -> BoxResult<u64>) -> BoxResult<Duration> {
    let database = place.fresh();
    let client = database.client().await?;
    let working = Working::start(register(Worker::new(client.clone(), ())));
    at_once(&client, 1).await?;
    let begun = Instant::now();
    let total = work(&client).await?;
    let elapsed = begun.elapsed();
    if total != u64::from(steps) * STEP_BYTES {
        return Err(format!("{steps} steps gave {total}").into());
    }
    working.stop().await?;
    drop(client);
    database.remove().await?;
    Ok(elapsed)
}

async fn at_once(client: &Client, steps: u32) -> BoxResult<u64> {
    Ok(client.start(steps_at_once, steps).await?.result().await?)
}

async fn map(client: &Client, items: u32, limit: u32) -> BoxResult<u64> {
    Ok(client.start(mapped, (items, limit)).await?.result().await?)
}
