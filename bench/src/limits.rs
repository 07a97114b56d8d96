use std::time::Duration;

use workflow_worker::{GateLimits, Queue, Worker};

use crate::database::Location;
use crate::report::{Report, Target};
use crate::samples::Samples;
use crate::tables::Tables;
use crate::worker::LocalWorker;
use crate::workflows::{STEPS, five_steps};
use crate::{BoxResult, Common, clock};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Number of runs per round.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Number of concurrent runs of the worker.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    concurrency: u32,
    /// The limit of the queue.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// The number of gates, over which the runs are spread.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    gates: u32,
    /// The limit of each gate.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    per_gate: u32,
    /// Number of rounds. Each measures a queue without a limit, a limited one, and one with gates
    /// in turn; the medians are reported.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

pub(crate) async fn run(args: Args) -> BoxResult<()> {
    let location = Location::parse(args.common.database.as_deref())?;
    let (mut plain, mut limited, mut gated) = (Vec::new(), Vec::new(), Vec::new());
    let of_gate = GateLimits::none().concurrency(args.per_gate);
    for _ in 0..args.rounds {
        plain.push(round(&location, &args, Queue::new("bench"), 0).await?);
        limited.push(round(&location, &args, Queue::new("bench").concurrency(args.limit), 0).await?);
        gated.push(round(&location, &args, Queue::new("bench").per_gate(of_gate), args.gates).await?);
    }
    let per_second =
        |times| -> BoxResult<f64> { Ok(f64::from(args.runs) / Samples::new(times)?.median().as_secs_f64()) };
    let (plain, limited, gated) = (per_second(plain)?, per_second(limited)?, per_second(gated)?);
    let mut report = Report::new("limits", location.kind())
        .setting("runs", args.runs)
        .setting("steps", STEPS)
        .setting("concurrency", args.concurrency)
        .setting("limit", args.limit)
        .setting("gates", args.gates)
        .setting("per_gate", args.per_gate)
        .setting("rounds", args.rounds);
    report.figure("runs without a limit", plain, "runs/s");
    report.figure("runs with a limit of the queue", limited, "runs/s");
    report.figure("runs behind gates", gated, "runs/s");
    report.judged("limited / plain", limited / plain, "", Target::AtLeast(0.8));
    report.judged("gated / plain", gated / plain, "", Target::AtLeast(0.5));
    report.print(args.common.json);
    Ok(())
}

/// Measures the time from the start of the worker to the end of the last run. `gates` is the number
/// of gates over which the runs are spread; 0 for none.
async fn round(location: &Location, args: &Args, queue: Queue, gates: u32) -> BoxResult<Duration> {
    let database = location.fresh();
    let client = database.client().await?;
    let start = |seed: u64| {
        let start = client.start(five_steps, seed).queue("bench");
        match seed.checked_rem(u64::from(gates)) {
            Some(gate) => start.gate(format!("gate-{gate}")),
            None => start,
        }
    };
    let starts = (0..u64::from(args.runs)).map(start);
    let handles = futures::future::try_join_all(starts.map(std::future::IntoFuture::into_future)).await?;
    let mut tables = Tables::open(&database).await?;
    let started = clock::now_micros();
    let worker = Worker::new(client, ()).register(five_steps).queue(queue).concurrency(args.concurrency);
    let worker = LocalWorker::start(worker);
    tables.until_all_ended().await?;
    let last_end = tables.number("SELECT max(completed_at) FROM {runs}").await?;
    worker.stop().await?;
    drop(handles);
    drop(tables);
    database.remove().await?;
    Ok(Duration::from_micros(u64::try_from(last_end - started)?))
}
