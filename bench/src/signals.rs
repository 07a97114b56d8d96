use std::time::Duration;

use workflow_sdk::{Client, RunHandle, SignalOutcome};
use workflow_worker::{Worker, WorkerOptions};

use crate::database::{Database, Location};
use crate::report::Report;
use crate::rounds::Rounds;
use crate::samples::Samples;
use crate::tables::Tables;
use crate::worker::{LocalWorker, WorkerProcess};
use crate::workflows::{GO, register, signaled};
use crate::{BoxResult, Common, clock};

type Handle = RunHandle<(i64, u64)>;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Number of runs per round, signaled one after the other.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Number of rounds. Each measures both workers in turn; the medians are reported.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

pub(crate) async fn run(args: Args) -> BoxResult<()> {
    let location = Location::parse(args.common.database.as_deref())?;
    let [mut same_p50, mut same_p99, mut other_p50, mut other_p99] = std::array::from_fn(|_| Rounds::default());
    for _ in 0..args.rounds {
        let same = Samples::new(same_process(&location, args.runs).await?)?;
        same_p50.push(same.p50_ms());
        same_p99.push(same.p99_ms());
        let other = Samples::new(other_process(&location, args.runs).await?)?;
        other_p50.push(other.p50_ms());
        other_p99.push(other.p99_ms());
    }
    let mut report = Report::new("signals", location.kind()).setting("runs", args.runs).setting("rounds", args.rounds);
    report.figure("same process, signal to step, p50", same_p50.median(), "ms");
    report.figure("same process, signal to step, p99", same_p99.median(), "ms");
    report.figure("another process, signal to step, p50", other_p50.median(), "ms");
    report.figure("another process, signal to step, p99", other_p99.median(), "ms");
    report.print(args.common.json);
    Ok(())
}

async fn same_process(location: &Location, runs: u32) -> BoxResult<Vec<Duration>> {
    let database = location.fresh();
    let client = database.client().await?;
    let worker = LocalWorker::start(register(Worker::new(client.clone(), ())));
    let handles = parked(&database, &client, runs).await?;
    let times = tokio::spawn(signal_each(client.clone(), handles)).await??;
    worker.stop().await?;
    drop(client);
    database.remove().await?;
    Ok(times)
}

async fn other_process(location: &Location, runs: u32) -> BoxResult<Vec<Duration>> {
    let database = location.fresh();
    let client = database.client().await?;
    let worker = WorkerProcess::start(&database, WorkerOptions::DEFAULT_CONCURRENCY).await?;
    let handles = parked(&database, &client, runs).await?;
    let times = tokio::spawn(signal_each(client.clone(), handles)).await??;
    worker.stop().await?;
    drop(client);
    database.remove().await?;
    Ok(times)
}

/// Measures the time from just before each signal is sent until the step after it ran.
///
/// Both times come from the clock of this machine. The next signal is sent when the run has ended.
/// The caller spawns this as a task, because an application also serves its requests in tasks.
async fn signal_each(client: Client, runs: Vec<Handle>) -> BoxResult<Vec<Duration>> {
    let mut times = Vec::new();
    for (number, run) in (0_u64..).zip(&runs) {
        times.push(signal_one(&client, run, number).await?);
    }
    Ok(times)
}

async fn signal_one(client: &Client, run: &Handle, number: u64) -> BoxResult<Duration> {
    let sent_at = clock::now_micros();
    let answer = client.signal(run.id(), GO, &number).await?;
    let (ran_at, got) = run.result().await?;
    if answer != SignalOutcome::Accepted || got != number {
        return Err(format!("signal {number} was answered with {answer:?}, and the run received {got}").into());
    }
    let elapsed = u64::try_from(ran_at - sent_at);
    Ok(Duration::from_micros(elapsed.map_err(|_| "the clock of this machine was set back; measure again")?))
}

/// Starts `runs` runs and waits until all of them are parked.
async fn parked(database: &Database, client: &Client, runs: u32) -> BoxResult<Vec<Handle>> {
    let handles = client.start_many(signaled, (0..runs).map(|_| ())).await?;
    let mut tables = Tables::open(database).await?;
    tables.until("SELECT count(*) FROM {runs} WHERE status = 'parked'", runs).await?;
    Ok(handles)
}
