use std::time::{Duration, Instant};

use workflow_sdk::Client;
use workflow_worker::{Worker, WorkerOptions};

use crate::database::{Kind, Location};
use crate::report::{Report, Target};
use crate::rounds::Rounds;
use crate::samples::Samples;
use crate::worker::{LocalWorker, WorkerProcess};
use crate::workflows::{STEP_BYTES, one_step, register};
use crate::{BoxResult, Common, baseline};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Number of runs per round, started one after the other.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    starts: u32,
    /// Number of rounds. Each measures the bare program and both workers in turn; the medians are
    /// reported.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

#[derive(Debug, Default)]
struct Percentiles {
    p50: Rounds,
    p99: Rounds,
}

impl Percentiles {
    fn push(&mut self, times: Vec<Duration>) -> BoxResult<()> {
        let times = Samples::new(times)?;
        self.p50.push(times.p50_ms());
        self.p99.push(times.p99_ms());
        Ok(())
    }
}

pub(crate) async fn run(args: Args) -> BoxResult<()> {
    let location = Location::parse(args.common.database.as_deref())?;
    let (mut bare, mut same, mut other) = (Percentiles::default(), Percentiles::default(), Percentiles::default());
    for _ in 0..args.rounds {
        bare.push(bare_round(&location, args.starts).await?)?;
        same.push(same_process(&location, args.starts).await?)?;
        other.push(other_process(&location, args.starts).await?)?;
    }
    let mut report =
        Report::new("latency", location.kind()).setting("starts", args.starts).setting("rounds", args.rounds);
    report.figure("same process, p50", same.p50.median(), "ms");
    report.figure("same process, p99", same.p99.median(), "ms");
    report.figure("limit: one durable commit, p50", bare.p50.median(), "ms");
    report.figure("limit: one durable commit, p99", bare.p99.median(), "ms");
    let ratio = same.p50.median() / bare.p50.median();
    report.judged("same process, p50 / one durable commit", ratio, "", Target::AtMost(4.5));
    let bound = match location.kind() {
        Kind::Sqlite => 10.0,
        Kind::Postgres => 5.0,
    };
    report.judged("another process, p50", other.p50.median(), "ms", Target::AtMost(bound));
    report.figure("another process, p99", other.p99.median(), "ms");
    let beyond = other.p50.median() - same.p50.median();
    report.judged("another process, p50 beyond the same process", beyond, "ms", Target::AtMost(1.0));
    report.print(args.common.json);
    Ok(())
}

/// Measures commits that write the row of one step each.
async fn bare_round(location: &Location, commits: u32) -> BoxResult<Vec<Duration>> {
    let database = location.fresh();
    let client = database.client().await?;
    let run = client.start(one_step, 0).await?.id().as_uuid();
    drop(client);
    let times = baseline::single_commits(&database, run, commits).await?;
    database.remove().await?;
    Ok(times)
}

async fn same_process(location: &Location, starts: u32) -> BoxResult<Vec<Duration>> {
    let database = location.fresh();
    let client = database.client().await?;
    let worker = LocalWorker::start(register(Worker::new(client.clone(), ())));
    let times = tokio::spawn(results(client.clone(), starts)).await??;
    worker.stop().await?;
    drop(client);
    database.remove().await?;
    Ok(times)
}

async fn other_process(location: &Location, starts: u32) -> BoxResult<Vec<Duration>> {
    let database = location.fresh();
    let client = database.client().await?;
    let worker = WorkerProcess::start(&database, WorkerOptions::DEFAULT_CONCURRENCY).await?;
    let times = tokio::spawn(results(client.clone(), starts)).await??;
    worker.stop().await?;
    drop(client);
    database.remove().await?;
    Ok(times)
}

/// Measures the time from each start to its result. The first run only waits for the worker and is
/// not counted.
///
/// The caller spawns this as a task, because an application also serves its requests in tasks. The
/// main thread is not one of the runtime's worker threads.
async fn results(client: Client, starts: u32) -> BoxResult<Vec<Duration>> {
    let mut times = Vec::new();
    for seed in 0..=u64::from(starts) {
        let started = Instant::now();
        let total = client.start(one_step, seed).await?.result().await?;
        times.push(started.elapsed());
        if total != seed + STEP_BYTES {
            return Err(format!("the run with seed {seed} returned {total}").into());
        }
    }
    Ok(times.split_off(1))
}
