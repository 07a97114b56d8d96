use std::time::Duration;

use workflow_sdk::{CatchUp, Client, Occurrence, Overlap, RunFilter, Schedule};

use crate::database::Location;
use crate::report::{Report, Target};
use crate::samples::Samples;
use crate::worker::WorkerProcess;
use crate::workflows::one_step;
use crate::{BoxResult, Common};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Number of schedules that are due at the same second.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    schedules: u32,
    /// Number of such seconds.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Time between them, in seconds.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    interval: u64,
    /// Number of worker processes.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    workers: u32,
}

/// Measures the time from each occurrence to the commit that creates its run.
pub(crate) async fn run(args: Args) -> BoxResult<()> {
    let location = Location::parse(args.common.database.as_deref())?;
    let database = location.fresh();
    let client = database.client().await?;
    let mut workers = Vec::new();
    for _ in 0..args.workers {
        workers.push(WorkerProcess::start(&database, 100).await?);
    }
    let creates = (0..args.schedules).map(|number| create(&client, &args, number));
    futures::future::try_join_all(creates).await?;
    let expected = u64::from(args.schedules) * args.rounds;
    while started(&client).await? < expected {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let lateness = Samples::new(lateness(&client).await?)?;
    for worker in workers {
        worker.stop().await?;
    }
    drop(client);
    database.remove().await?;

    let mut report = Report::new("schedules", location.kind())
        .setting("schedules", args.schedules)
        .setting("rounds", args.rounds)
        .setting("workers", args.workers);
    report.figure("lateness, p50", lateness.p50_ms(), "ms");
    report.judged("lateness, p99", lateness.p99_ms(), "ms", Target::AtMost(100.0));
    report.figure("lateness, longest", lateness.quantile(1.0).as_secs_f64() * 1e3, "ms");
    report.print(args.common.json);
    Ok(())
}

async fn create(client: &Client, args: &Args, number: u32) -> BoxResult<()> {
    let schedule = Schedule::every(format!("schedule-{number}"), Duration::from_secs(args.interval))
        .start(one_step, 1)
        .overlap(Overlap::Allow)
        .catch_up(CatchUp::All { window: Duration::from_secs(3600), max: 1000 })
        .limit(args.rounds);
    client.create_schedule(schedule).await?;
    Ok(())
}

async fn started(client: &Client) -> BoxResult<u64> {
    Ok(client.schedules().await?.iter().map(|schedule| schedule.state.started).sum())
}

async fn lateness(client: &Client) -> BoxResult<Vec<Duration>> {
    let mut lateness = Vec::new();
    let mut filter = RunFilter::new().page_size(RunFilter::MAX_PAGE_SIZE);
    loop {
        let page = client.list(&filter).await?;
        let occurrences = page.iter().filter_map(|run| Some((run.created_at, Occurrence::of_tags(&run.tags)?.at)));
        lateness.extend(occurrences.map(|(created, at)| created.since(at)));
        match page.last() {
            Some(last) => filter.after = Some(last.id),
            None => return Ok(lateness),
        }
    }
}
