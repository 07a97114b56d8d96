use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use workflow_worker::{Worker, WorkerOptions};

use crate::database::Location;
use crate::report::{Report, Target};
use crate::samples::Samples;
use crate::tables::Tables;
use crate::worker::{LocalWorker, WorkerProcess};
use crate::workflows::{REPLAYED, STARTED, STEP_BYTES, blocked_run, register, steps_in_a_row};
use crate::{BoxResult, Common, baseline};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Number of steps of a short run.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    short: u32,
    /// Number of steps of a long run.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    long: u32,
    /// Number of rounds. Each measures the bare program, the runs and their replays in turn; the
    /// medians are reported.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

#[derive(Debug, Default)]
struct Times {
    whole: Vec<Duration>,
    replay: Vec<Duration>,
    in_body: Vec<Duration>,
}

pub(crate) async fn run(args: Args) -> BoxResult<()> {
    let location = Location::parse(args.common.database.as_deref())?;
    let (mut bare, mut short, mut long) = (Vec::new(), Times::default(), Times::default());
    for _ in 0..args.rounds {
        bare.push(bare_round(&location, args.short).await?);
        for (steps, times) in [(args.short, &mut short), (args.long, &mut long)] {
            times.whole.push(whole_run(&location, steps).await?);
            let replay = replay(&location, steps).await?;
            times.replay.push(replay.from_claim);
            times.in_body.push(replay.in_body);
        }
    }
    let mut report = Report::new("history", location.kind())
        .setting("short", args.short)
        .setting("long", args.long)
        .setting("rounds", args.rounds);
    let bare = Samples::new(bare)?.p50_ms();
    let (short_ms, long_ms) = (Samples::new(short.whole)?.p50_ms(), Samples::new(long.whole)?.p50_ms());
    report.figure(format!("limit: {} single commits", args.short), bare, "ms");
    report.figure(format!("{} steps in a row", args.short), short_ms, "ms");
    report.judged("steps in a row / limit", short_ms / bare, "", Target::AtMost(1.5));
    report.figure(format!("{} steps in a row", args.long), long_ms, "ms");
    report.figure("a step of the long run / of the short one", per_step(long_ms, short_ms, &args), "");
    let (short_ms, long_ms) = (Samples::new(short.replay)?.p50_ms(), Samples::new(long.replay)?.p50_ms());
    report.figure(format!("claim to end of replay, {} steps", args.short), short_ms, "ms");
    report.judged(format!("claim to end of replay, {} steps", args.long), long_ms, "ms", Target::AtMost(1000.0));
    report.judged("replay of a step, long / short", per_step(long_ms, short_ms, &args), "", Target::AtMost(1.5));
    report.figure(format!("of it in the body, {} steps", args.short), Samples::new(short.in_body)?.p50_ms(), "ms");
    report.figure(format!("of it in the body, {} steps", args.long), Samples::new(long.in_body)?.p50_ms(), "ms");
    report.print(args.common.json);
    Ok(())
}

fn per_step(long: f64, short: f64, args: &Args) -> f64 {
    (long / f64::from(args.long)) / (short / f64::from(args.short))
}

async fn bare_round(location: &Location, steps: u32) -> BoxResult<Duration> {
    let database = location.fresh();
    let run = database.client().await?.start(steps_in_a_row, steps).await?;
    let times = baseline::single_commits(&database, run.id().as_uuid(), steps).await?;
    drop(run);
    database.remove().await?;
    Ok(times.iter().sum())
}

/// Measures the time from the start of a run to its result, with an otherwise idle worker.
async fn whole_run(location: &Location, steps: u32) -> BoxResult<Duration> {
    let database = location.fresh();
    let client = database.client().await?;
    let worker = LocalWorker::start(register(Worker::new(client.clone(), ())));
    check(1, client.start(steps_in_a_row, 1).await?.result().await?)?;
    let started = Instant::now();
    let total = client.start(steps_in_a_row, steps).await?.result().await?;
    let elapsed = started.elapsed();
    check(steps, total)?;
    worker.stop().await?;
    drop(client);
    database.remove().await?;
    Ok(elapsed)
}

fn check(steps: u32, total: u64) -> BoxResult<()> {
    let expected = u64::from(steps) * STEP_BYTES;
    if total == expected {
        Ok(())
    } else {
        Err(format!("the run of {steps} steps returned {total}, not {expected}").into())
    }
}

struct Replay {
    /// The time from the claim, taken from the database, to the first step body that is not
    /// replayed.
    from_claim: Duration,
    /// The part of `from_claim` since the beginning of the workflow function.
    in_body: Duration,
}

/// Kills a worker in the step after the first `steps` steps, and measures their replay by another
/// worker.
async fn replay(location: &Location, steps: u32) -> BoxResult<Replay> {
    let database = location.fresh();
    let client = database.client().await?;
    let mut tables = Tables::open(&database).await?;
    let process = WorkerProcess::start(&database, 1).await?;
    let run = client.start(blocked_run, (steps, process.id()?)).await?;
    tables.until("SELECT count(*) FROM {steps} WHERE status = 'succeeded'", steps).await?;
    process.kill().await?;

    let worker = LocalWorker::start(register(Worker::new(client.clone(), ())));
    check(steps, run.result().await?)?;
    worker.stop().await?;
    let claimed = claimed_at(&mut tables).await?;
    let (started, replayed) = (STARTED.load(Ordering::SeqCst), REPLAYED.load(Ordering::SeqCst));
    if !(claimed <= started && started <= replayed) {
        return Err(format!(
            "claimed at {claimed}, started at {started}, replayed at {replayed}: these times are out of order"
        )
        .into());
    }
    drop((client, run, tables));
    database.remove().await?;
    let micros = |from: i64| Duration::from_micros(replayed.abs_diff(from));
    Ok(Replay { from_claim: micros(claimed), in_body: micros(started) })
}

/// Returns when the run was claimed, in microseconds since 1970.
///
/// A run that has ended keeps the end of its last lease. A lease counts from its claim, and is not
/// renewed within its first third.
async fn claimed_at(tables: &mut Tables<'_>) -> BoxResult<i64> {
    let lease = i64::try_from(WorkerOptions::DEFAULT_LEASE.as_micros())?;
    Ok(tables.number("SELECT max(available_at) FROM {runs}").await? - lease)
}
