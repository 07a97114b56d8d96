use std::time::{Duration, Instant};

use metrics_exporter_prometheus::PrometheusBuilder;
use uuid::Uuid;
use workflow_sdk::metrics::Metrics;
use workflow_sdk::prelude::*;
use workflow_sdk::{DEFAULT_QUEUE, DEFAULT_VERSION, Lane};
use workflow_worker::Worker;

use crate::database::{Database, Location};
use crate::report::{Report, Target};
use crate::samples::Samples;
use crate::tables::Tables;
use crate::worker::LocalWorker;
use crate::workflows::{STEP_BYTES, STEPS, five_steps};
use crate::{BoxResult, Common, baseline, clock};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Number of runs per round.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Number of concurrent runs of the worker.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    concurrency: u32,
    /// Number of rounds. Each measures the bare program and the engine in turn; the medians are
    /// reported.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Measures the engine a second time per round, with encrypted payloads.
    #[arg(long)]
    encrypted: bool,
    /// Measures the engine twice more per round: with the observer of metrics and no recorder, and
    /// with the recorder of Prometheus.
    #[arg(long)]
    metrics: bool,
    /// Measures the statistics, too: the time to count the runs and to write the counts, as a share
    /// of the time in which the engine executes the runs.
    #[arg(long)]
    statistics: bool,
}

/// How the engine is set up.
#[derive(Clone, Copy)]
enum Setup {
    Plain,
    /// Payloads are encrypted.
    Encrypted,
    /// The observer of metrics counts, and no recorder takes the values.
    Unrecorded,
    /// The recorder of Prometheus takes the values.
    Recorded,
}

pub(crate) async fn run(args: Args) -> BoxResult<()> {
    let location = Location::parse(args.common.database.as_deref())?;
    let (mut bare, mut engine, mut encrypted) = (Vec::new(), Vec::new(), Vec::new());
    let (mut unrecorded, mut recorded) = (Vec::new(), Vec::new());
    for _ in 0..args.rounds {
        bare.push(bare_round(&location, &args).await?);
        engine.push(engine_round(&location, &args, Setup::Plain).await?);
        if args.encrypted {
            encrypted.push(engine_round(&location, &args, Setup::Encrypted).await?);
        }
        if args.metrics {
            unrecorded.push(engine_round(&location, &args, Setup::Unrecorded).await?);
            recorded.push(engine_round(&location, &args, Setup::Recorded).await?);
        }
    }
    let limit = steps_per_second(&args, &Samples::new(bare)?);
    let steps = steps_per_second(&args, &Samples::new(engine)?);
    let mut report = Report::new("throughput", location.kind())
        .setting("runs", args.runs)
        .setting("steps", STEPS)
        .setting("concurrency", args.concurrency)
        .setting("rounds", args.rounds);
    report.figure("runs", steps / f64::from(STEPS), "runs/s");
    report.figure("steps", steps, "steps/s");
    report.figure("limit: the bare program", limit, "steps/s");
    report.judged("throughput / limit", steps / limit, "", Target::AtLeast(0.5));
    if args.encrypted {
        let encrypted = steps_per_second(&args, &Samples::new(encrypted)?);
        report.figure("steps with encrypted payloads", encrypted, "steps/s");
        report.figure("encrypted / plain", encrypted / steps, "");
    }
    if args.metrics {
        let unrecorded = steps_per_second(&args, &Samples::new(unrecorded)?);
        let recorded = steps_per_second(&args, &Samples::new(recorded)?);
        report.judged("metrics without a recorder / plain", unrecorded / steps, "", Target::AtLeast(0.99));
        report.judged("metrics with a recorder / plain", recorded / steps, "", Target::AtLeast(0.97));
    }
    if args.statistics {
        let Counting { counted, written } = measure_statistics(&location, args.runs).await?;
        let runs_per_second = steps / f64::from(STEPS);
        let share = counted.as_secs_f64() / f64::from(args.runs) * runs_per_second
            + written.p50_ms() / STATISTICS_INTERVAL.as_secs_f64() / 1e3;
        report.figure("write of statistics, p50", written.p50_ms(), "ms");
        report.judged("time of statistics / time of the runs", share, "", Target::AtMost(0.01));
    }
    report.print(args.common.json);
    Ok(())
}

/// How often a process that has counted something writes its counts.
const STATISTICS_INTERVAL: Duration = Duration::from_secs(1);

/// Number of measured writes of statistics.
const STATISTICS_WRITES: u32 = 100;

/// The work for the statistics of one process. It cannot be switched off, so it is measured by
/// itself. Both times count in full, although other threads and the next batch go on meanwhile.
struct Counting {
    /// To count every run at its start, first claim and end.
    counted: Duration,
    /// To write the counts once.
    written: Samples,
}

async fn measure_statistics(location: &Location, runs: u32) -> BoxResult<Counting> {
    let database = location.fresh();
    let client = database.client().await?;
    let lane = Lane { queue: DEFAULT_QUEUE.into(), workflow: "five_steps".into(), version: DEFAULT_VERSION.into() };
    let moment = Duration::from_millis(1);
    let statistics = client.executor().statistics();
    let begun = Instant::now();
    for _ in 0..runs {
        statistics.started(&lane);
        statistics.begun(&lane, moment);
        statistics.ended(&lane, RunStatus::Succeeded, moment);
    }
    let counted = begun.elapsed();
    let mut writes = Vec::new();
    for _ in 0..STATISTICS_WRITES {
        statistics.started(&lane);
        let begun = Instant::now();
        client.executor().write_statistics().await;
        writes.push(begun.elapsed());
    }
    drop(client);
    database.remove().await?;
    Ok(Counting { counted, written: Samples::new(writes)? })
}

fn steps_per_second(args: &Args, times: &Samples) -> f64 {
    f64::from(args.runs) * f64::from(STEPS) / times.median().as_secs_f64()
}

async fn bare_round(location: &Location, args: &Args) -> BoxResult<Duration> {
    let (database, _, runs) = enqueued(location, args, Setup::Plain).await?;
    let runs: Vec<Uuid> = runs.iter().map(|run| run.id().as_uuid()).collect();
    let elapsed = baseline::steps_and_ends(&database, &runs, args.concurrency as usize).await?;
    database.remove().await?;
    Ok(elapsed)
}

/// Measures the time from the start of the worker to the end of the last run. The client does not
/// wait for results meanwhile, because only the worker is measured.
async fn engine_round(location: &Location, args: &Args, setup: Setup) -> BoxResult<Duration> {
    let (database, client, handles) = enqueued(location, args, setup).await?;
    let mut tables = Tables::open(&database).await?;
    let started = clock::now_micros();
    let worker = LocalWorker::start(Worker::new(client, ()).register(five_steps).concurrency(args.concurrency));
    tables.until_all_ended().await?;
    let last_end = tables.number("SELECT max(completed_at) FROM {runs}").await?;
    let totals = futures::future::try_join_all(handles.iter().map(RunHandle::result)).await?;
    for (seed, total) in (0_u64..).zip(totals) {
        if total != seed + STEP_BYTES * u64::from(STEPS) {
            return Err(format!("the run with seed {seed} returned {total}").into());
        }
    }
    worker.stop().await?;
    drop(handles);
    drop(tables);
    database.remove().await?;
    Ok(Duration::from_micros(u64::try_from(last_end - started)?))
}

async fn enqueued(
    location: &Location,
    args: &Args,
    setup: Setup,
) -> BoxResult<(Database, Client, Vec<RunHandle<u64>>)> {
    let database = location.fresh();
    let client = match setup {
        Setup::Plain => database.client().await?,
        Setup::Encrypted => database.encrypted_client().await?,
        Setup::Unrecorded => database.observed_client(Metrics::new()).await?,
        Setup::Recorded => {
            let recorder = PrometheusBuilder::new().build_recorder();
            database.observed_client(Metrics::with_recorder(recorder)).await?
        }
    };
    let handles = client.start_many(five_steps, 0..u64::from(args.runs)).await?;
    Ok((database, client, handles))
}
