use std::time::{Duration, Instant};

use crate::database::{Database, Location};
use crate::process::{cpu_time, resident_mb};
use crate::report::{Report, Target};
use crate::tables::Tables;
use crate::worker::WorkerProcess;
use crate::workflows::{STEP_BYTES, STEPS, asleep, five_steps};
use crate::{BoxResult, Common, clock};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Number of sleeping runs.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Number of concurrent runs of the worker.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    concurrency: u32,
    /// How long the worker's processor time is measured, in seconds.
    #[arg(long, default_value_t = 10.0)]
    watch_seconds: f64,
}

pub(crate) async fn run(args: Args) -> BoxResult<()> {
    let location = Location::parse(args.common.database.as_deref())?;
    let mut report = Report::new("sleepers", location.kind())
        .setting("runs", args.runs)
        .setting("concurrency", args.concurrency)
        .setting("watch_seconds", args.watch_seconds);
    let watched = Duration::try_from_secs_f64(args.watch_seconds)?;
    let database = location.fresh();
    let mut tables = prepare(&database).await?;
    let worker = WorkerProcess::start(&database, args.concurrency).await?;
    let process = worker.id()?;
    work_once(&database).await?;

    let idle_share = processor_share(process, watched).await?;
    let idle_mb = resident_mb(process)?;
    let fell_asleep = fall_asleep(&database, &mut tables, args.runs).await?;
    let asleep_share = processor_share(process, watched).await?;
    let asleep_mb = resident_mb(process)?;
    let awake = wake(&database, &mut tables, args.runs).await?;

    report.figure("starts and first halves of runs", f64::from(args.runs) / fell_asleep.as_secs_f64(), "runs/s");
    report.figure("resident memory, idle worker", idle_mb, "MB");
    report.figure("resident memory, all asleep", asleep_mb, "MB");
    report.judged("over an idle worker", asleep_mb - idle_mb, "MB", Target::AtMost(20.0));
    report.figure("processor, idle worker", idle_share * 100.0, "%");
    report.judged("processor, all asleep", asleep_share * 100.0, "%", Target::AtMost(1.0));
    report.figure("resident memory, after all were woken", resident_mb(process)?, "MB");
    report.figure("woken, to the last end", awake.as_secs_f64(), "s");
    report.figure("woken", f64::from(args.runs) / awake.as_secs_f64(), "runs/s");
    worker.stop().await?;
    drop(tables);
    database.remove().await?;
    report.print(args.common.json);
    Ok(())
}

async fn prepare(database: &Database) -> BoxResult<Tables<'_>> {
    drop(database.client().await?);
    Tables::open(database).await
}

/// Lets the worker drive one run, so that it is connected and its statements are prepared.
async fn work_once(database: &Database) -> BoxResult<()> {
    let client = database.client().await?;
    let total = client.start(five_steps, 0).await?.result().await?;
    if total == STEP_BYTES * u64::from(STEPS) { Ok(()) } else { Err(format!("the first run returned {total}").into()) }
}

/// Measures the share of one processor that the process uses during `watched`.
async fn processor_share(process: u32, watched: Duration) -> BoxResult<f64> {
    let (started, before) = (Instant::now(), cpu_time(process)?);
    tokio::time::sleep(watched).await;
    let used = cpu_time(process)?.saturating_sub(before);
    Ok(used.as_secs_f64() / started.elapsed().as_secs_f64())
}

async fn fall_asleep(database: &Database, tables: &mut Tables<'_>, runs: u32) -> BoxResult<Duration> {
    let client = database.client().await?;
    let started = Instant::now();
    client.start_many(asleep, 0..u64::from(runs)).await?;
    tables.until("SELECT count(*) FROM {runs} WHERE status = 'parked'", runs).await?;
    Ok(started.elapsed())
}

/// Ends every sleep in one commit. Returns the time from this commit to the end of the last run.
async fn wake(database: &Database, tables: &mut Tables<'_>, runs: u32) -> BoxResult<Duration> {
    tables.execute("BEGIN").await?;
    let now = clock::now_micros();
    tables.execute(&format!("UPDATE {{steps}} SET output = '{now}' WHERE kind = 'sleep'")).await?;
    tables.execute(&format!("UPDATE {{runs}} SET available_at = {now} WHERE status = 'parked'")).await?;
    tables.execute("COMMIT").await?;
    let woken = clock::now_micros();
    // The sleeping runs, and the one run that `work_once` started.
    tables.until("SELECT count(*) FROM {runs} WHERE status = 'succeeded'", runs + 1).await?;
    let last_end = tables.number("SELECT max(completed_at) FROM {runs}").await?;
    let expected = (1..=i64::from(runs)).sum::<i64>();
    let total = "SELECT CAST(sum(CAST(output AS bigint)) AS bigint) FROM {runs} WHERE workflow_name = 'asleep'";
    let total = tables.number(total).await?;
    if total != expected {
        return Err(format!("the sum of the runs in {} is {total}, not {expected}", database.url).into());
    }
    Ok(Duration::from_micros(u64::try_from(last_end - woken).unwrap_or(0)))
}
