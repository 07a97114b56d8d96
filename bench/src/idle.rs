use std::time::{Duration, Instant};

use workflow_worker::WorkerOptions;

use crate::database::{Kind, Place};
use crate::report::{Report, Target};
use crate::wire::Wire;
use crate::workflows::{STEP_BYTES, one_step};
use crate::working::WorkerProcess;
use crate::{BoxResult, Common, process};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// How long the worker is looked at, in seconds.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
}

/// A worker that has done one run, and so has opened what it needs, and has none left. Of queries there is no figure on
/// SQLite: nobody but the worker itself could count them.
pub(crate) async fn run(args: Args) -> BoxResult<()> {
    let place = Place::parse(args.common.database.as_deref())?;
    let database = place.fresh();
    let client = database.client().await?;
    let wire = match place.kind() {
        Kind::Sqlite => None,
        Kind::Postgres => Some(Wire::open(&database.url).await?),
    };
    let of_worker = wire.as_ref().map(|wire| database.through(&wire.url));
    let worker =
        WorkerProcess::start(of_worker.as_ref().unwrap_or(&database), WorkerOptions::DEFAULT_CONCURRENCY).await?;
    let total = client.start(one_step, 1).await?.result().await?;
    if total != STEP_BYTES + 1 {
        return Err(format!("the run gave {total}").into());
    }
    drop(client);

    let id = worker.id()?;
    let (begun, cpu) = (Instant::now(), process::cpu_time(id)?);
    let counted = wire.as_ref().map(Wire::counted);
    tokio::time::sleep(Duration::from_secs(args.seconds.into())).await;
    let queries = wire.as_ref().zip(counted).map(|(wire, before)| wire.counted().statements - before.statements);
    let elapsed = begun.elapsed().as_secs_f64();
    let cpu = process::cpu_time(id)?.saturating_sub(cpu).as_secs_f64();
    let resident = process::resident_mb(id)?;
    worker.stop().await?;
    drop(wire);
    database.remove().await?;

    let mut report = Report::new("idle", place.kind()).setting("seconds", args.seconds);
    if let Some(queries) = queries {
        report.judged("queries", queries as f64 / elapsed, "1/s", Target::AtMost(4.0));
    }
    report.judged("resident memory", resident, "MB", Target::AtMost(30.0));
    report.judged("CPU, of one core", cpu / elapsed * 100.0, "%", Target::AtMost(1.0));
    report.print(args.common.json);
    Ok(())
}
