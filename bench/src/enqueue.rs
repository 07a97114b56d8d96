use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use workflow_sdk::{Client, ClientError};

use crate::database::{Database, Place};
use crate::report::{Report, Target};
use crate::rounds::Rounds;
use crate::tables::Tables;
use crate::workflows::one_step;
use crate::{BoxResult, Common, limit};

/// Starts in flight, and rows in a batch of the bare program, that the target is about.
const IN_FLIGHT: u32 = 32;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Starts of each kind in each round.
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u32).range(1..))]
    starts: u32,
    /// Rounds, each of the bare program and every kind of start in turn; the medians count.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

pub(crate) async fn run(args: Args) -> BoxResult<()> {
    let place = Place::parse(args.common.database.as_deref())?;
    let [mut bare, mut one, mut some, mut many, mut together] = std::array::from_fn(|_| Rounds::default());
    let rate = |elapsed: Duration| f64::from(args.starts) / elapsed.as_secs_f64();
    for _ in 0..args.rounds {
        bare.push(rate(bare_round(&place, args.starts).await?));
        one.push(rate(in_flight(&place, args.starts, 1).await?));
        some.push(rate(in_flight(&place, args.starts, IN_FLIGHT).await?));
        many.push(rate(in_flight(&place, args.starts, 256).await?));
        together.push(rate(start_many(&place, args.starts).await?));
    }
    let mut report = Report::new("enqueue", place.kind()).setting("starts", args.starts).setting("rounds", args.rounds);
    report.figure("1 in flight", one.median(), "starts/s");
    report.figure("32 in flight", some.median(), "starts/s");
    report.figure("256 in flight", many.median(), "starts/s");
    report.figure("start_many", together.median(), "starts/s");
    report.figure("limit: the bare program, batches of 32", bare.median(), "starts/s");
    report.judged("32 in flight / limit", some.median() / bare.median(), "", Target::AtLeast(0.5));
    report.print(args.common.json);
    Ok(())
}

async fn bare_round(place: &Place, starts: u32) -> BoxResult<Duration> {
    let database = place.fresh();
    // Makes the tables.
    drop(database.client().await?);
    let elapsed = limit::starts(&database, starts, IN_FLIGHT).await?;
    finish(database, starts).await?;
    Ok(elapsed)
}

/// So many tasks, each of which starts a run as soon as its last start was answered.
async fn in_flight(place: &Place, starts: u32, in_flight: u32) -> BoxResult<Duration> {
    let database = place.fresh();
    let client = database.client().await?;
    let seeds = Arc::new(AtomicU32::new(0));
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..in_flight {
        tasks.spawn(start_next(client.clone(), Arc::clone(&seeds), starts));
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    let elapsed = begun.elapsed();
    drop(client);
    finish(database, starts).await?;
    Ok(elapsed)
}

async fn start_next(client: Client, seeds: Arc<AtomicU32>, starts: u32) -> Result<(), ClientError> {
    loop {
        let seed = seeds.fetch_add(1, Ordering::Relaxed);
        if seed >= starts {
            return Ok(());
        }
        client.start(one_step, u64::from(seed)).await?;
    }
}

async fn start_many(place: &Place, starts: u32) -> BoxResult<Duration> {
    let database = place.fresh();
    let client = database.client().await?;
    let begun = Instant::now();
    client.start_many(one_step, 0..u64::from(starts)).await?;
    let elapsed = begun.elapsed();
    drop(client);
    finish(database, starts).await?;
    Ok(elapsed)
}

async fn finish(database: Database, starts: u32) -> BoxResult<()> {
    let mut tables = Tables::open(&database).await?;
    let pending = tables.number("SELECT count(*) FROM {runs} WHERE status = 'pending'").await?;
    drop(tables);
    if pending != i64::from(starts) {
        return Err(format!("{pending} runs are pending, of {starts} that were started").into());
    }
    database.remove().await
}
