use std::time::{Duration, Instant};

use workflow_worker::WorkerOptions;

use crate::database::{Kind, Location};
use crate::proxy::CountingProxy;
use crate::report::{Report, Target};
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
}

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

    let mut report = Report::new("idle", location.kind()).setting("seconds", args.seconds);
    if let Some(queries) = queries {
        report.judged("queries", queries as f64 / elapsed, "1/s", Target::AtMost(4.0));
    }
    report.judged("resident memory", resident, "MB", Target::AtMost(30.0));
    report.judged("CPU, of one core", cpu / elapsed * 100.0, "%", Target::AtMost(1.0));
    report.print(args.common.json);
    Ok(())
}
