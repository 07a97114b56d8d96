use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use workflow_sdk::{Client, ClientError};

use crate::database::{Database, Location};
use crate::report::{Report, Target};
use crate::rounds::Rounds;
use crate::tables::Tables;
use crate::workflows::one_step;
use crate::{BoxResult, Common, baseline};

/// The number of starts in flight for which there is a target; also the rows per batch of the bare
/// program.
const IN_FLIGHT: u32 = 32;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Number of starts of each kind per round.
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u32).range(1..))]
    starts: u32,
    /// Number of rounds. Each measures the bare program and every kind of start in turn; the
    /// medians are reported.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

pub(crate) async fn run(args: Args) -> BoxResult<()> {
    let location = Location::parse(args.common.database.as_deref())?;
    let [mut bare, mut one, mut some, mut many, mut together] = std::array::from_fn(|_| Rounds::default());
    let rate = |elapsed: Duration| f64::from(args.starts) / elapsed.as_secs_f64();
    for _ in 0..args.rounds {
        bare.push(rate(bare_round(&location, args.starts).await?));
        one.push(rate(in_flight(&location, args.starts, 1).await?));
        some.push(rate(in_flight(&location, args.starts, IN_FLIGHT).await?));
        many.push(rate(in_flight(&location, args.starts, 256).await?));
        together.push(rate(start_many(&location, args.starts).await?));
    }
    let mut report =
        Report::new("enqueue", location.kind()).setting("starts", args.starts).setting("rounds", args.rounds);
    report.figure("1 in flight", one.median(), "starts/s");
    report.figure("32 in flight", some.median(), "starts/s");
    report.figure("256 in flight", many.median(), "starts/s");
    report.figure("start_many", together.median(), "starts/s");
    report.figure("limit: the bare program, batches of 32", bare.median(), "starts/s");
    report.judged("32 in flight / limit", some.median() / bare.median(), "", Target::AtLeast(0.5));
    report.print(args.common.json);
    Ok(())
}

async fn bare_round(location: &Location, starts: u32) -> BoxResult<Duration> {
    let database = location.fresh();
    // The client creates the tables.
    drop(database.client().await?);
    let elapsed = baseline::starts(&database, starts, IN_FLIGHT).await?;
    finish(database, starts).await?;
    Ok(elapsed)
}

/// Measures `in_flight` tasks, each of which starts a run as soon as its last start is
/// acknowledged.
async fn in_flight(location: &Location, starts: u32, in_flight: u32) -> BoxResult<Duration> {
    let database = location.fresh();
    let client = database.client().await?;
    let seeds = Arc::new(AtomicU32::new(0));
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..in_flight {
        tasks.spawn(start_next(client.clone(), Arc::clone(&seeds), starts));
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    let elapsed = started.elapsed();
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

async fn start_many(location: &Location, starts: u32) -> BoxResult<Duration> {
    let database = location.fresh();
    let client = database.client().await?;
    let started = Instant::now();
    client.start_many(one_step, 0..u64::from(starts)).await?;
    let elapsed = started.elapsed();
    drop(client);
    finish(database, starts).await?;
    Ok(elapsed)
}

async fn finish(database: Database, starts: u32) -> BoxResult<()> {
    let mut tables = Tables::open(&database).await?;
    let pending = tables.number("SELECT count(*) FROM {runs} WHERE status = 'pending'").await?;
    drop(tables);
    if pending != i64::from(starts) {
        return Err(format!("{pending} runs are pending, but {starts} were started").into());
    }
    database.remove().await
}
