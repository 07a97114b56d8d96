use std::time::{Duration, Instant};

use workflow_sdk::RunId;
use workflow_sdk::operate::{ListFailures, ListHistory, ListRuns, ListStats, ListTimeline, Operate, StatsBy};

use crate::database::Location;
use crate::report::{Report, Target};
use crate::samples::Samples;
use crate::system::{self, RARE_TAG, RARE_WORKFLOW, Size};
use crate::{BoxResult, Common};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    size: Size,
    /// Number of measured reads of each kind.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    reads: u32,
}

/// The targets, in milliseconds: of a page of runs, of counted things, and of the first window of
/// the longest run.
const PAGE: Target = Target::AtMost(50.0);
const COUNTED: Target = Target::AtMost(60.0);
const WINDOW: Target = Target::AtMost(200.0);

pub(crate) async fn run(args: Args) -> BoxResult<()> {
    let location = Location::parse(args.common.database.as_deref())?;
    let report = Report::new("operate", location.kind()).setting("reads", args.reads);
    let (database, long, mut report) = system::create(&location, args.size, report).await?;
    let client = database.client().await?;
    measure_lists(&mut report, &client, args.reads).await?;
    measure_counts(&mut report, &client, args.reads).await?;
    measure_run(&mut report, &client, args.reads, long).await?;
    drop(client);
    database.remove().await?;
    report.print(args.common.json);
    Ok(())
}

async fn measure_lists(report: &mut Report, operate: &dyn Operate, reads: u32) -> BoxResult<()> {
    let lists = [
        ("first page of runs", ""),
        ("first page, status and workflow", "status:failed workflow:checkout"),
        ("first page, running", "status:running"),
        ("first page, parked", "status:parked"),
        ("first page, rare tag", RARE_TAG),
        ("first page, rare workflow", RARE_WORKFLOW),
        ("first page, no such run", "key:none-*"),
    ];
    for (name, query) in lists {
        let list = ListRuns::new(query.parse()?);
        let samples = measure(reads, async || operate.runs(list.clone()).await.map(drop)).await?;
        judge(report, name, &samples, PAGE);
    }
    let mut place = None;
    let mut times = Vec::new();
    for _ in 0..reads {
        let list = ListRuns::new("status:succeeded workflow:checkout".parse()?);
        let list = place.map_or(list.clone(), |place| list.cursor(place));
        let begun = Instant::now();
        let page = operate.runs(list).await?;
        times.push(begun.elapsed());
        place = page.next;
    }
    judge(report, "page after page", &Samples::new(times)?, PAGE);
    Ok(())
}

async fn measure_counts(report: &mut Report, operate: &dyn Operate, reads: u32) -> BoxResult<()> {
    let counts = measure(reads, async || operate.counts().await.map(drop)).await?;
    judge(report, "counts", &counts, COUNTED);
    for (name, since) in [("statistics of an hour", "-1h"), ("statistics of a month", "-30d")] {
        let list = ListStats::new().since(since.parse()?).by(StatsBy::Workflow);
        let stats = measure(reads, async || operate.stats(list.clone()).await.map(drop)).await?;
        judge(report, name, &stats, COUNTED);
    }
    let failures = measure(reads, async || operate.failures(ListFailures::new()).await.map(drop)).await?;
    judge(report, "failures", &failures, COUNTED);
    let queues = measure(reads, async || operate.queues().await.map(drop)).await?;
    judge(report, "queues", &queues, COUNTED);
    let workflows = measure(reads, async || operate.workflows().await.map(drop)).await?;
    judge(report, "workflows", &workflows, COUNTED);
    Ok(())
}

async fn measure_run(report: &mut Report, operate: &dyn Operate, reads: u32, long: RunId) -> BoxResult<()> {
    let run = measure(reads, async || operate.run(long).await.map(drop)).await?;
    judge(report, "longest run", &run, PAGE);
    let history = measure(reads, async || operate.history(ListHistory::new(long)).await.map(drop)).await?;
    judge(report, "longest run, first page of its history", &history, PAGE);
    let window = measure(reads, async || operate.timeline_window(ListTimeline::new(long)).await.map(drop)).await?;
    judge(report, "longest run, first window", &window, WINDOW);
    Ok(())
}

/// Measures a read `reads` times, after one that is not counted.
pub(crate) async fn measure<E>(reads: u32, mut read: impl AsyncFnMut() -> Result<(), E>) -> BoxResult<Samples>
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    read().await.map_err(Into::into)?;
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..reads {
        let begun = Instant::now();
        read().await.map_err(Into::into)?;
        times.push(begun.elapsed());
    }
    Ok(Samples::new(times)?)
}

pub(crate) fn judge(report: &mut Report, name: &str, samples: &Samples, target: Target) {
    report.figure(format!("{name}, p50"), samples.p50_ms(), "ms");
    report.judged(format!("{name}, p95"), samples.p95_ms(), "ms", target);
}
