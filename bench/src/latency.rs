use std::time::{Duration, Instant};

use workflow_sdk::Client;
use workflow_worker::{Worker, WorkerOptions};

use crate::database::{Kind, Place};
use crate::report::{Report, Target};
use crate::rounds::Rounds;
use crate::samples::Samples;
use crate::workflows::{STEP_BYTES, one_step, register};
use crate::working::{WorkerProcess, Working};
use crate::{BoxResult, Common, limit};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Runs in each round, started one after the other.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    starts: u32,
    /// Rounds, each of the bare program and of both workers in turn; the medians count.
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
    let place = Place::parse(args.common.database.as_deref())?;
    let (mut bare, mut same, mut other) = (Percentiles::default(), Percentiles::default(), Percentiles::default());
    for _ in 0..args.rounds {
        bare.push(bare_round(&place, args.starts).await?)?;
        same.push(same_process(&place, args.starts).await?)?;
        other.push(other_process(&place, args.starts).await?)?;
    }
    let mut report = Report::new("latency", place.kind()).setting("starts", args.starts).setting("rounds", args.rounds);
    report.figure("same process, p50", same.p50.median(), "ms");
    report.figure("same process, p99", same.p99.median(), "ms");
    report.figure("limit: one durable commit, p50", bare.p50.median(), "ms");
    report.figure("limit: one durable commit, p99", bare.p99.median(), "ms");
    let ratio = same.p50.median() / bare.p50.median();
    report.judged("same process, p50 / one durable commit", ratio, "", Target::AtMost(4.5));
    let bound = match place.kind() {
        Kind::Sqlite => 10.0,
        Kind::Postgres => 5.0,
    };
    report.judged("another process, p50", other.p50.median(), "ms", Target::AtMost(bound));
    report.figure("another process, p99", other.p99.median(), "ms");
    report.print(args.common.json);
    Ok(())
}

/// One step's row a commit.
async fn bare_round(place: &Place, commits: u32) -> BoxResult<Vec<Duration>> {
    let database = place.fresh();
    let client = database.client().await?;
    let run = client.start(one_step, 0).await?.id().as_uuid();
    drop(client);
    let times = limit::single_commits(&database, run, commits).await?;
    database.remove().await?;
    Ok(times)
}

async fn same_process(place: &Place, starts: u32) -> BoxResult<Vec<Duration>> {
    let database = place.fresh();
    let client = database.client().await?;
    let working = Working::start(register(Worker::new(client.clone(), ())));
    let times = tokio::spawn(results(client.clone(), starts)).await??;
    working.stop().await?;
    drop(client);
    database.remove().await?;
    Ok(times)
}

async fn other_process(place: &Place, starts: u32) -> BoxResult<Vec<Duration>> {
    let database = place.fresh();
    let client = database.client().await?;
    let worker = WorkerProcess::start(&database, WorkerOptions::DEFAULT_CONCURRENCY).await?;
    let times = tokio::spawn(results(client.clone(), starts)).await??;
    worker.stop().await?;
    drop(client);
    database.remove().await?;
    Ok(times)
}

/// From each start to its result. The first run shows that the worker is there, and does not count. Spawned, as what serves
/// a request in an application: the main thread is none of the runtime's own.
async fn results(client: Client, starts: u32) -> BoxResult<Vec<Duration>> {
    let mut times = Vec::new();
    for seed in 0..=u64::from(starts) {
        let begun = Instant::now();
        let total = client.start(one_step, seed).await?.result().await?;
        times.push(begun.elapsed());
        if total != seed + STEP_BYTES {
            return Err(format!("the run of seed {seed} gave {total}").into());
        }
    }
    Ok(times.split_off(1))
}
