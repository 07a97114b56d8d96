use std::time::{Duration, Instant};

use futures::future::try_join_all;
use workflow_worker::Worker;

use crate::database::Location;
use crate::report::Report;
use crate::rounds::Rounds;
use crate::tables::Tables;
use crate::worker::LocalWorker;
use crate::workflows::{GO, awaiting, register};
use crate::{BoxResult, Common};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Number of runs that wait for the event.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    waits: u32,
    /// Number of concurrent runs of the worker.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    concurrency: u32,
    /// Number of rounds. The medians are reported.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

pub(crate) async fn run(args: Args) -> BoxResult<()> {
    let location = Location::parse(args.common.database.as_deref())?;
    let [mut emission, mut all, mut nothing] = std::array::from_fn(|_| Rounds::default());
    for _ in 0..args.rounds {
        let [emitted, ended, missed] = round(&location, &args).await?;
        emission.push(emitted.as_secs_f64() * 1e3);
        all.push(ended.as_secs_f64() * 1e3);
        nothing.push(missed.as_secs_f64() * 1e3);
    }
    let mut report = Report::new("events", location.kind())
        .setting("waits", args.waits)
        .setting("concurrency", args.concurrency)
        .setting("rounds", args.rounds);
    report.figure("emission without a wait", nothing.median(), "ms");
    report.figure("emission to all waits", emission.median(), "ms");
    report.figure("emission until all runs have ended", all.median(), "ms");
    report.print(args.common.json);
    Ok(())
}

/// Returns how long the emission took, how long it took until all runs had ended, and how long an
/// emission took for which no run waits.
async fn round(location: &Location, args: &Args) -> BoxResult<[Duration; 3]> {
    let database = location.fresh();
    let client = database.client().await?;
    let worker = register(Worker::new(client.clone(), ())).concurrency(args.concurrency).linger(Duration::ZERO);
    let worker = LocalWorker::start(worker);
    let handles = client.start_many(awaiting, vec!["all".to_owned(); args.waits as usize]).await?;
    let mut tables = Tables::open(&database).await?;
    tables.until("SELECT count(*) FROM {runs} WHERE status = 'parked'", args.waits).await?;
    let begun = Instant::now();
    client.emit(GO, "other", &1_u64).await?;
    let missed = begun.elapsed();
    let begun = Instant::now();
    let reached = client.emit(GO, "all", &1_u64).await?;
    let emitted = begun.elapsed();
    if reached != u64::from(args.waits) {
        return Err(format!("the event reached {reached} of {} runs", args.waits).into());
    }
    if try_join_all(handles.iter().map(|handle| handle.result())).await?.contains(&0) {
        return Err("a run did not receive the event".into());
    }
    let ended = begun.elapsed();
    worker.stop().await?;
    drop((client, handles));
    database.remove().await?;
    Ok([emitted, ended, missed])
}
