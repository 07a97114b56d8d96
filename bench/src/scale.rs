use futures::future::try_join_all;

use crate::database::{Database, Kind, Location};
use crate::proxy::{Counted, CountingProxy};
use crate::report::{Report, Target};
use crate::rounds::Rounds;
use crate::server::{Counters, Work, outcome};
use crate::tables::Tables;
use crate::worker::WorkerProcess;
use crate::workflows::{STEP_BYTES, STEPS, five_steps};
use crate::{BoxResult, Common};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Number of runs per round.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Number of concurrent runs per worker.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    concurrency: u32,
    /// Numbers of workers to measure, separated by commas.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4], value_parser = clap::value_parser!(u32).range(1..))]
    workers: Vec<u32>,
    /// Number of rounds. Each measures every number of workers in turn; the medians are reported.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

/// The measurements for one number of workers.
#[derive(Debug, Default)]
struct Scale {
    rate: Rounds,
    transactions: Rounds,
    wal_bytes: Rounds,
    wal_without_images: Rounds,
    statements: Rounds,
    statements_per_commit: Rounds,
    longest: Rounds,
}

pub(crate) async fn run(args: Args) -> BoxResult<()> {
    let location = Location::parse(args.common.database.as_deref())?;
    if location.kind() == Kind::Sqlite {
        return Err("scale needs PostgreSQL: pass --database postgres://user@host/database".into());
    }
    let mut scales: Vec<Scale> = args.workers.iter().map(|_| Scale::default()).collect();
    for _ in 0..args.rounds {
        for (workers, scale) in args.workers.iter().zip(&mut scales) {
            scale.measure(&location, &args, *workers).await?;
        }
    }
    let mut report = Report::new("scale", location.kind())
        .setting("runs", args.runs)
        .setting("steps", STEPS)
        .setting("concurrency", args.concurrency)
        .setting("rounds", args.rounds);
    for (workers, scale) in args.workers.iter().zip(&scales) {
        scale.report(*workers, &mut report);
    }
    report.print(args.common.json);
    Ok(())
}

impl Scale {
    /// Measures one round twice: first the time and the server's counters, then the statements.
    async fn measure(&mut self, location: &Location, args: &Args, workers: u32) -> BoxResult<()> {
        let runs = f64::from(args.runs);
        let (seconds, work) = direct(location, args, workers).await?;
        self.rate.push(runs / seconds);
        self.transactions.push(work.transactions / runs);
        self.wal_bytes.push(work.wal_bytes / runs);
        if let Some(images) = work.image_bytes {
            self.wal_without_images.push((work.wal_bytes - images) / runs);
        }
        let counted = through_proxy(location, args, workers).await?;
        self.statements.push(counted.statements as f64 / runs);
        self.statements_per_commit.push(counted.statements as f64 / counted.transactions.max(1) as f64);
        self.longest.push(counted.longest as f64);
        Ok(())
    }

    /// Adds the figures to the report. Only the figures of one worker have targets.
    fn report(&self, workers: u32, report: &mut Report) {
        let of = |what: &str| format!("{workers} worker{}: {what}", if workers == 1 { "" } else { "s" });
        report.figure(of("runs"), self.rate.median(), "runs/s");
        let mut cost = |what: &str, rounds: &Rounds, unit: &'static str, target: f64| {
            if workers == 1 {
                report.judged(of(what), rounds.median(), unit, Target::AtMost(target));
            } else {
                report.figure(of(what), rounds.median(), unit);
            }
        };
        cost("commits per run, reads included", &self.transactions, "", 0.1);
        cost("statements per commit, reads included", &self.statements_per_commit, "", 8.0);
        cost("statements of the longest commit", &self.longest, "", 8.0);
        cost("WAL per run", &self.wal_bytes, "bytes", 3072.0);
        if !self.wal_without_images.is_empty() {
            report.figure(of("WAL per run without page images"), self.wal_without_images.median(), "bytes");
        }
        report.figure(of("statements per run"), self.statements.median(), "");
    }
}

/// Measures the workers directly on the server.
///
/// Returns the time in seconds, and the server's work after the last start of a run. The work
/// includes the start and the shutdown of the workers.
async fn direct(location: &Location, args: &Args, workers: u32) -> BoxResult<(f64, Work)> {
    let database = enqueued(location, args).await?;
    let before = Counters::read(&database, true).await?;
    let workers = start(&database, args, workers).await?;
    let looks = Tables::open(&database).await?.until_all_ended().await?;
    try_join_all(workers.into_iter().map(WorkerProcess::stop)).await?;
    let after = Counters::read(&database, false).await?;
    let mut work = before.until(&after, &database).await?;
    work.transactions -= f64::from(looks);
    let seconds = finish(database, args).await?;
    Ok((seconds, work))
}

/// Counts the workers' statements with a proxy, including those of their start.
async fn through_proxy(location: &Location, args: &Args, workers: u32) -> BoxResult<Counted> {
    let database = enqueued(location, args).await?;
    let proxy = CountingProxy::open(&database.url).await?;
    let workers = start(&database.through(&proxy.url), args, workers).await?;
    Tables::open(&database).await?.until_all_ended().await?;
    let counted = proxy.counted();
    try_join_all(workers.into_iter().map(WorkerProcess::stop)).await?;
    finish(database, args).await?;
    Ok(counted)
}

async fn enqueued(location: &Location, args: &Args) -> BoxResult<Database> {
    let database = location.fresh();
    let client = database.client().await?;
    client.start_many(five_steps, 0..u64::from(args.runs)).await?;
    Ok(database)
}

async fn start(database: &Database, args: &Args, workers: u32) -> BoxResult<Vec<WorkerProcess>> {
    try_join_all((0..workers).map(|_| WorkerProcess::start(database, args.concurrency))).await
}

/// Checks that every run has returned the right value, and removes the database. Returns the
/// seconds from the first claim to the last end.
async fn finish(database: Database, args: &Args) -> BoxResult<f64> {
    let (done, sum, seconds) = outcome(&database).await?;
    let runs = i64::from(args.runs);
    let expected = runs * (runs - 1) / 2 + runs * i64::from(STEPS) * STEP_BYTES as i64;
    if (done, sum) != (runs, expected) {
        return Err(format!("{done} of {runs} runs succeeded; their sum is {sum}, not {expected}").into());
    }
    database.remove().await?;
    Ok(seconds)
}
