use std::time::Duration;

use workflow_sdk::{Client, RunStatus};
use workflow_worker::Worker;

use crate::database::Location;
use crate::report::{Report, Target};
use crate::samples::Samples;
use crate::worker::LocalWorker;
use crate::workflows::{five_steps, moment, register};
use crate::{BoxResult, Common, clock};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Number of due runs of one workflow.
    #[arg(long, default_value_t = 40_000, value_parser = clap::value_parser!(u32).range(1..))]
    flood: u32,
    /// Number of concurrent runs of the worker.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    concurrency: u32,
    /// Number of floods.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

pub(crate) async fn run(args: Args) -> BoxResult<()> {
    let location = Location::parse(args.common.database.as_deref())?;
    let (mut idle, mut flooded) = (Vec::new(), Vec::new());
    for _ in 0..args.rounds {
        round(&location, &args, &mut idle, &mut flooded).await?;
    }
    let mut report = Report::new("fairness", location.kind())
        .setting("flood", args.flood)
        .setting("concurrency", args.concurrency)
        .setting("rounds", args.rounds);
    report.figure("starts beside the floods", flooded.len() as f64, "");
    let (idle, flooded) = (Samples::new(idle)?, Samples::new(flooded)?);
    report.figure("start to first step, after the flood, p50", idle.p50_ms(), "ms");
    report.figure("start to first step, beside the flood, p50", flooded.p50_ms(), "ms");
    report.figure("start to first step, beside the flood, worst", flooded.quantile(1.0).as_secs_f64() * 1e3, "ms");
    report.judged("delay by the flood, p99", flooded.p99_ms() - idle.p50_ms(), "ms", Target::AtMost(100.0));
    report.print(args.common.json);
    Ok(())
}

/// Starts runs of another workflow, one after the other, until the last run of the flood has been
/// claimed, and then a few more.
async fn round(
    location: &Location,
    args: &Args,
    idle: &mut Vec<Duration>,
    flooded: &mut Vec<Duration>,
) -> BoxResult<()> {
    let database = location.fresh();
    let client = database.client().await?;
    let flood = client.start_many(five_steps, (0..args.flood).map(u64::from)).await?;
    let last = flood.last().ok_or("the flood has at least one run")?;
    let worker = register(Worker::new(client.clone(), ())).concurrency(args.concurrency);
    let worker = LocalWorker::start(worker);
    flood[0].result().await?;
    while last.status().await? == RunStatus::Pending {
        flooded.push(delay(&client).await?);
    }
    for run in &flood {
        run.result().await?;
    }
    for _ in 0..20 {
        idle.push(delay(&client).await?);
    }
    worker.stop().await?;
    drop((client, flood));
    database.remove().await
}

/// Returns the time from just before the start of a run until its first step begins. Both times
/// come from the clock of this machine.
///
/// Spawned as a task, because an application also serves its requests in tasks.
async fn delay(client: &Client) -> BoxResult<Duration> {
    let client = client.clone();
    let measured = tokio::spawn(async move {
        let started_at = clock::now_micros();
        let began_at = client.start(moment, ()).await?.result().await?;
        let elapsed = u64::try_from(began_at - started_at);
        BoxResult::Ok(Duration::from_micros(elapsed.map_err(|_| "the clock of this machine was set back")?))
    });
    measured.await?
}
