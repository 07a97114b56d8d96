use std::time::{Duration, Instant};

use workflow_sdk::{DEFAULT_QUEUE, QueueLimits};
use workflow_worker::WorkerOptions;

use crate::database::Location;
use crate::report::{Report, Target};
use crate::samples::Samples;
use crate::tables::Tables;
use crate::worker::WorkerProcess;
use crate::workflows::{moment, slow_steps};
use crate::{BoxResult, Common, clock};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Number of runs of the killed worker.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Number of steps per run.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(2..))]
    steps: u32,
    /// Duration of a step, in milliseconds.
    #[arg(long, default_value_t = 20)]
    step_millis: u64,
    /// Limits the queue to `--runs` runs at a time, so that the killed worker holds every slot, and
    /// lets as many runs of one step wait for one.
    #[arg(long)]
    limit: bool,
    /// Number of rounds; the medians are reported.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

/// Times since the SIGKILL, one of each kind per round.
#[derive(Debug, Default)]
struct Times {
    first_claim: Vec<Duration>,
    last_claim: Vec<Duration>,
    last_end: Vec<Duration>,
    results: Vec<Duration>,
    /// Until the first step of a run that waited for a slot. Empty without `--limit`.
    first_slot: Vec<Duration>,
}

pub(crate) async fn run(args: Args) -> BoxResult<()> {
    let location = Location::parse(args.common.database.as_deref())?;
    let mut times = Times::default();
    for _ in 0..args.rounds {
        round(&location, &args, &mut times).await?;
    }
    let mut report = Report::new("takeover", location.kind())
        .setting("runs", args.runs)
        .setting("steps", args.steps)
        .setting("step_millis", args.step_millis)
        .setting("limit", args.limit)
        .setting("lease_seconds", WorkerOptions::DEFAULT_LEASE.as_secs())
        .setting("rounds", args.rounds);
    let first_claim = Samples::new(times.first_claim)?;
    report.judged("SIGKILL to the first claim, p50", first_claim.p50_ms(), "ms", Target::AtMost(150.0));
    report.figure("SIGKILL to the first claim, worst", first_claim.quantile(1.0).as_secs_f64() * 1e3, "ms");
    report.figure("SIGKILL to the last claim, p50", Samples::new(times.last_claim)?.p50_ms(), "ms");
    let last_end = Samples::new(times.last_end)?;
    report.judged("SIGKILL to the last end, p50", last_end.p50_ms(), "ms", Target::AtMost(1500.0));
    report.figure("SIGKILL to the last end, worst", last_end.quantile(1.0).as_secs_f64() * 1e3, "ms");
    report.figure("SIGKILL to all results at a client, p50", Samples::new(times.results)?.p50_ms(), "ms");
    if args.limit {
        let first_slot = Samples::new(times.first_slot)?;
        let name = "SIGKILL to the first step in a freed slot";
        report.judged(format!("{name}, p50"), first_slot.p50_ms(), "ms", Target::AtMost(1500.0));
        report.figure(format!("{name}, worst"), first_slot.quantile(1.0).as_secs_f64() * 1e3, "ms");
    }
    report.print(args.common.json);
    Ok(())
}

async fn round(location: &Location, args: &Args, times: &mut Times) -> BoxResult<()> {
    let database = location.fresh();
    let client = database.client().await?;
    let mut tables = Tables::open(&database).await?;
    if args.limit {
        // Before any worker starts, because workers read the limits once per second.
        client.queue(DEFAULT_QUEUE).set_limits(QueueLimits::none().concurrency(args.runs)).await?;
    }

    // In the victim's process no run gets past its middle, so that the worker is killed there on a
    // machine of any speed.
    let victim = WorkerProcess::start(&database, args.runs).await?;
    let holder = victim.id()?;
    let inputs = (0..args.runs).map(|_| (args.steps, args.step_millis, holder));
    let handles = client.start_many(slow_steps, inputs).await?;
    tables.until("SELECT count(*) FROM {runs} WHERE status = 'running'", args.runs).await?;
    let waiting = if args.limit { args.runs } else { 0 };
    let others = client.start_many(moment, std::iter::repeat_n((), waiting as usize)).await?;
    // The heir has room for the waiting runs, too, so that only the limit of the queue holds them.
    let heir = WorkerProcess::start(&database, args.runs + waiting).await?;
    tables.until_workers(2).await?;

    tables.until("SELECT count(*) FROM {steps} WHERE status = 'succeeded'", args.runs * (args.steps / 2)).await?;
    if tables.number("SELECT count(*) FROM {runs} WHERE status = 'pending'").await? != i64::from(waiting) {
        return Err("a run began although the killed worker held every slot of the queue".into());
    }
    let (killed, killed_at) = (Instant::now(), clock::now_micros());
    victim.kill().await?;
    let totals = futures::future::try_join_all(handles.iter().map(|handle| handle.result())).await?;
    times.results.push(killed.elapsed());
    if let Some(total) = totals.iter().find(|total| **total != u64::from(args.steps) * args.step_millis) {
        return Err(format!("a run of {} steps of {} ms returned {total}", args.steps, args.step_millis).into());
    }
    if tables.number("SELECT count(*) FROM {runs} WHERE epoch = 2").await? != i64::from(args.runs) {
        return Err("the killed worker had not claimed every run, or a run was claimed more than twice".into());
    }
    let first_steps = futures::future::try_join_all(others.iter().map(|other| other.result())).await?;
    // A run that has ended keeps the end of its last lease, and a lease counts from its claim. Only
    // the runs that were taken over were claimed twice.
    let lease = i64::try_from(WorkerOptions::DEFAULT_LEASE.as_micros())?;
    let since = |at: i64| Duration::from_micros(u64::try_from(at - killed_at).unwrap_or(0));
    times.first_claim.push(since(tables.number("SELECT min(available_at) FROM {runs} WHERE epoch = 2").await? - lease));
    times.last_claim.push(since(tables.number("SELECT max(available_at) FROM {runs} WHERE epoch = 2").await? - lease));
    times.last_end.push(since(tables.number("SELECT max(completed_at) FROM {runs} WHERE epoch = 2").await?));
    times.first_slot.extend(first_steps.into_iter().min().map(since));

    heir.stop().await?;
    drop((client, handles, others, tables));
    database.remove().await
}
