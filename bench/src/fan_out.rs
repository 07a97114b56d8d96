use std::time::{Duration, Instant};

use uuid::Uuid;
use workflow_sdk::Client;
use workflow_worker::Worker;

use crate::database::{Kind, Location};
use crate::report::{Report, Target};
use crate::samples::Samples;
use crate::worker::LocalWorker;
use crate::workflows::{STEP_BYTES, mapped, register, steps_at_once};
use crate::{BoxResult, Common, baseline};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Number of concurrent steps.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,
    /// Number of items of the map.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    items: u32,
    /// Number of items that the map handles at the same time.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Number of rounds. Each measures the bare program and the runs in turn; the medians are
    /// reported.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

pub(crate) async fn run(args: Args) -> BoxResult<()> {
    let location = Location::parse(args.common.database.as_deref())?;
    let (mut commit, mut steps) = (Vec::new(), Vec::new());
    let (mut items_commit, mut items) = (Vec::new(), Vec::new());
    for _ in 0..args.rounds {
        commit.push(bare_round(&location, args.steps).await?);
        steps.push(engine_round(&location, args.steps, async |client| at_once(client, args.steps).await).await?);
        items_commit.push(bare_round(&location, args.items).await?);
        items
            .push(engine_round(&location, args.items, async |client| map(client, args.items, args.limit).await).await?);
    }
    let mut report = Report::new("fan-out", location.kind())
        .setting("steps", args.steps)
        .setting("items", args.items)
        .setting("limit", args.limit)
        .setting("rounds", args.rounds);
    let most = match location.kind() {
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

async fn bare_round(location: &Location, steps: u32) -> BoxResult<Duration> {
    let database = location.fresh();
    drop(database.client().await?);
    let runs: Vec<_> = (0..steps).map(|_| Uuid::now_v7()).collect();
    let elapsed = baseline::one_commit(&database, &runs).await?;
    database.remove().await?;
    Ok(elapsed)
}

/// Measures how long `work` takes with an otherwise idle worker.
async fn engine_round(
    location: &Location,
    steps: u32,
    work: impl AsyncFn(&Client) -> BoxResult<u64>,
) -> BoxResult<Duration> {
    let database = location.fresh();
    let client = database.client().await?;
    let worker = LocalWorker::start(register(Worker::new(client.clone(), ())));
    at_once(&client, 1).await?;
    let started = Instant::now();
    let total = work(&client).await?;
    let elapsed = started.elapsed();
    if total != u64::from(steps) * STEP_BYTES {
        return Err(format!("{steps} steps returned {total}").into());
    }
    worker.stop().await?;
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
