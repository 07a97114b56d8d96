use std::cell::Cell;
use std::error::Error;
use std::time::{Duration, Instant};

use futures::future::try_join;
use tokio::sync::watch;
use workflow_worker::{Retain, Worker};

use crate::database::{Database, Kind, Location};
use crate::load::{Load, Times, Work};
use crate::report::{Report, Target};
use crate::system::{OLD, OLD_WORKFLOW, OldRuns};
use crate::tables::Tables;
use crate::worker::LocalWorker;
use crate::workflows::{STEPS, moment};
use crate::{BoxResult, Common};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Number of old runs of five steps each.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(100..))]
    runs: u32,
    #[command(flatten)]
    load: Load,
}

/// The pause between two looks until the first run is deleted.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// The pause between two looks after that.
const PAUSE: Duration = Duration::from_millis(100);

/// How long the deletion of one half may take before the benchmark fails.
const TIMEOUT: Duration = Duration::from_secs(3600);

/// The pause between two attempts to take SQLite's write lock while another connection holds it.
const RETRY: Duration = Duration::from_millis(1);

/// The pause between two looks at SQLite's write lock. Each takes the lock for a moment.
const PROBE: Duration = Duration::from_millis(20);

/// The longest time for which SQLite's write lock was not free, beside the load alone and beside
/// the deletion.
#[derive(Debug, Default)]
struct Held {
    alone: Cell<Duration>,
    beside: Cell<Duration>,
}

pub(crate) async fn run(args: Args) -> BoxResult<()> {
    let location = Location::parse(args.common.database.as_deref())?;
    let database = location.fresh();
    let filling = Instant::now();
    let old = OldRuns::fill(&database, args.runs).await?;
    let filled = filling.elapsed();

    let (mut times, held) = (Times::default(), Held::default());
    let took = measure(&database, &args, old, &mut times, &held).await?;
    check(&database).await?;

    let report = Report::new("retention", location.kind()).setting("runs", args.runs).setting("steps", STEPS);
    let mut report = args.load.describe(report);
    report.figure("time to fill the tables", filled.as_secs_f64(), "s");
    report.judged("deletion under load", took.as_secs_f64(), "s", Target::AtMost(600.0));
    report.figure("runs deleted", f64::from(args.runs) / took.as_secs_f64(), "runs/s");
    let share = args.load.report(&mut report, times)?;
    report.judged("load beside / alone", share, "", Target::AtLeast(0.95));
    if location.kind() == Kind::Sqlite {
        let millis = |held: &Cell<Duration>| held.get().as_secs_f64() * 1e3;
        report.figure("writer held, load alone, longest", millis(&held.alone), "ms");
        report.figure("writer held, load beside, longest", millis(&held.beside), "ms");
    }
    database.remove().await?;
    report.print(args.common.json);
    Ok(())
}

/// Measures the load alone, beside the deletion of the first half, alone, and beside the deletion
/// of the second half. Returns the time of both deletions.
async fn measure(
    database: &Database,
    args: &Args,
    old: OldRuns,
    times: &mut Times,
    held: &Held,
) -> BoxResult<Duration> {
    let client = database.client().await?;
    let mut took = Duration::ZERO;
    for goal in [args.runs / 2, args.runs] {
        tokio::select! {
            result = args.load.alone(database, &client, times) => result?,
            error = watch_writer(database, &held.alone) => return Err(error),
        }
        let (work, working) = watch::channel(Work::Paused);
        let beside = args.load.beside(database, &client, working, times);
        tokio::select! {
            result = try_join(beside, delete(database, old, goal, &work)) => took += result?.1,
            error = watch_writer(database, &held.beside) => return Err(error),
        }
    }
    Ok(took)
}

/// Runs a worker that deletes old runs, with a client of its own, until so many of them are gone.
/// Returns the time from the start of the worker.
async fn delete(database: &Database, old: OldRuns, goal: u32, work: &watch::Sender<Work>) -> BoxResult<Duration> {
    let mut tables = Tables::open(database).await?;
    let before = old.deleted(&mut tables).await?;
    let client = database.client().await?;
    let begun = Instant::now();
    let worker = Worker::new(client, ()).register(moment).retain_workflow(OLD_WORKFLOW, Retain::all(OLD));
    let worker = LocalWorker::start(worker);
    let mut pause = FIRST_PAUSE;
    loop {
        let deleted = old.deleted(&mut tables).await?;
        if deleted > before && pause == FIRST_PAUSE {
            pause = PAUSE;
            work.send(Work::Running)?;
        }
        if deleted >= i64::from(goal) {
            break;
        }
        if begun.elapsed() > TIMEOUT {
            return Err(format!("waited {TIMEOUT:?} for the deletion of {goal} runs, but {deleted} are deleted").into());
        }
        tokio::time::sleep(pause).await;
    }
    let took = begun.elapsed();
    work.send(Work::Done)?;
    worker.stop().await?;
    Ok(took)
}

/// Watches for how long at a time SQLite's write lock is held. Returns only if it fails.
///
/// If one connection takes the lock right after another, both times may count as one. A third
/// writer waits for as long.
async fn watch_writer(database: &Database, longest: &Cell<Duration>) -> Box<dyn Error + Send + Sync> {
    if database.kind() == Kind::Postgres {
        return std::future::pending().await;
    }
    match probe_writer(database, longest).await {
        Ok(()) => "the probe of the write lock has ended".into(),
        Err(error) => error,
    }
}

async fn probe_writer(database: &Database, longest: &Cell<Duration>) -> BoxResult<()> {
    let mut tables = Tables::open(database).await?;
    // SQLite's own waiting doubles its pauses, so it would measure them.
    tables.execute("PRAGMA busy_timeout = 0").await?;
    loop {
        let begun = Instant::now();
        while let Err(error) = tables.execute("BEGIN IMMEDIATE").await {
            if begun.elapsed() > TIMEOUT {
                return Err(error);
            }
            tokio::time::sleep(RETRY).await;
        }
        longest.set(longest.get().max(begun.elapsed()));
        tables.execute("ROLLBACK").await?;
        tokio::time::sleep(PROBE).await;
    }
}

/// Checks that no old run is left, and no step of one.
async fn check(database: &Database) -> BoxResult<()> {
    let mut tables = Tables::open(database).await?;
    let runs = format!("SELECT count(*) FROM {{runs}} WHERE workflow_name = '{OLD_WORKFLOW}'");
    let steps = "SELECT count(*) FROM {steps} AS s WHERE NOT EXISTS (SELECT 1 FROM {runs} AS r WHERE r.id = s.run_id)";
    for left in [runs.as_str(), steps] {
        let number = tables.number(left).await?;
        if number != 0 {
            return Err(format!("expected 0, got {number}: {left}").into());
        }
    }
    Ok(())
}
