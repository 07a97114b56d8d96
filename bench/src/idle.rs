use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt, TryStreamExt};
use workflow_sdk::{Client, DEFAULT_QUEUE, GateLimits, QueueLimits, Schedule};
use workflow_worker::WorkerOptions;

use crate::database::{Database, Kind, Location};
use crate::proxy::CountingProxy;
use crate::report::{Report, Target};
use crate::tables::Tables;
use crate::worker::WorkerProcess;
use crate::workflows::{STEP_BYTES, one_step};
use crate::{BoxResult, Common, process};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// How long the worker is observed, in seconds.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// Number of gates that sleep, each with a run that waits behind it.
    #[arg(long, default_value_t = 0)]
    gates: u32,
    /// Number of schedules that are not due.
    #[arg(long, default_value_t = 0)]
    schedules: u32,
}

/// How many starts and schedules are under way at once while they are created.
const AT_ONCE: usize = 1000;

/// How far away the next occurrence of a schedule is.
const FAR: Duration = Duration::from_secs(24 * 3600);

/// Observes an idle worker.
///
/// The worker has executed one run, so that its connections and statements are ready. Queries are
/// counted only on PostgreSQL, by a proxy. On SQLite only the worker itself could count them.
pub(crate) async fn run(args: Args) -> BoxResult<()> {
    let location = Location::parse(args.common.database.as_deref())?;
    let database = location.fresh();
    let client = database.client().await?;
    let proxy = match location.kind() {
        Kind::Sqlite => None,
        Kind::Postgres => Some(CountingProxy::open(&database.url).await?),
    };
    let of_worker = proxy.as_ref().map(|proxy| database.through(&proxy.url));
    let worker =
        WorkerProcess::start(of_worker.as_ref().unwrap_or(&database), WorkerOptions::DEFAULT_CONCURRENCY).await?;
    let total = client.start(one_step, 1).await?.result().await?;
    if total != STEP_BYTES + 1 {
        return Err(format!("the run returned {total}").into());
    }
    fall_asleep(&database, &client, &args).await?;
    drop(client);

    let id = worker.id()?;
    let (started, cpu) = (Instant::now(), process::cpu_time(id)?);
    let counted = proxy.as_ref().map(CountingProxy::counted);
    tokio::time::sleep(Duration::from_secs(args.seconds.into())).await;
    let queries = proxy.as_ref().zip(counted).map(|(proxy, before)| proxy.counted().statements - before.statements);
    let elapsed = started.elapsed().as_secs_f64();
    let cpu = process::cpu_time(id)?.saturating_sub(cpu).as_secs_f64();
    let resident = process::resident_mb(id)?;
    worker.stop().await?;
    drop(proxy);
    database.remove().await?;

    let mut report = Report::new("idle", location.kind())
        .setting("seconds", args.seconds)
        .setting("gates", args.gates)
        .setting("schedules", args.schedules);
    if let Some(queries) = queries {
        // A full gate may have room as soon as a run of another worker ends.
        let most_queries = if args.gates > 0 { 5.0 } else { 4.0 };
        report.judged("queries", queries as f64 / elapsed, "1/s", Target::AtMost(most_queries));
    }
    report.judged("resident memory", resident, "MB", Target::AtMost(30.0));
    report.judged("CPU, of one core", cpu / elapsed * 100.0, "%", Target::AtMost(1.0));
    report.print(args.common.json);
    Ok(())
}

/// Creates gates through which no run may go, and schedules. Returns when the worker has looked at
/// each of the gates, and does not look again.
async fn fall_asleep(database: &Database, client: &Client, args: &Args) -> BoxResult<()> {
    client.queue(DEFAULT_QUEUE).set_limits(QueueLimits::none().per_gate(GateLimits::none().concurrency(0))).await?;
    let behind = |gate: u32| client.start(one_step, 1).gate(format!("gate-{gate}")).into_future();
    let starts: Vec<BoxResult<_>> =
        stream::iter(0..args.gates).map(behind).buffer_unordered(AT_ONCE).map_err(Into::into).collect().await;
    starts.into_iter().collect::<BoxResult<Vec<_>>>()?;
    let daily =
        |number: u32| client.create_schedule(Schedule::every(format!("daily-{number}"), FAR).start(one_step, 1));
    for number in 0..args.schedules {
        daily(number).await?;
    }
    let asleep = "SELECT count(*) FROM {turns} WHERE full_until IS NOT NULL";
    Tables::open(database).await?.until(asleep, args.gates).await.map(drop)
}
