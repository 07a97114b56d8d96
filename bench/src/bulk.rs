use std::time::{Duration, Instant};

use futures::future::try_join;
use tokio::sync::watch;
use workflow_engine::model::WorkerId;
use workflow_sdk::Client;
use workflow_sdk::operate::{Action, BulkAction, BulkId, BulkStatus, BulkView, Order, OrderOutcome, StartBulk};

use crate::database::{Database, Location};
use crate::load::{Load, Times, Work};
use crate::report::{Report, Target};
use crate::system::{self, WAITING_WORKFLOW};
use crate::tables::Tables;
use crate::worker::WorkerProcess;
use crate::{BoxResult, Common};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Number of waiting runs, which one operation cancels. With too few, it ends before its worker
    /// is killed.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(3_000..))]
    runs: u32,
    #[command(flatten)]
    load: Load,
}

/// The pause between two looks at the operation.
const PAUSE: Duration = Duration::from_millis(20);

/// How long a benchmark waits for the operation to go on.
const TIMEOUT: Duration = Duration::from_secs(600);

/// A worker process that executes bulk operations, and nothing else: it serves no queue of the load
/// and no workflow of the waiting runs.
#[derive(Debug)]
struct Executing {
    id: WorkerId,
    process: WorkerProcess,
}

/// An operation that has ended.
#[derive(Debug)]
struct Ended {
    view: BulkView,
    /// From the SIGKILL of its worker until another one claimed it.
    took_over: Duration,
    heir: WorkerProcess,
}

pub(crate) async fn run(args: Args) -> BoxResult<()> {
    let location = Location::parse(args.common.database.as_deref())?;
    let database = location.fresh();
    system::fill_with_waiting(&database, args.runs).await?;
    let client = database.client().await?;
    let workers = start_workers(&database, &client).await?;

    let mut times = Times::default();
    args.load.alone(&database, &client, &mut times).await?;
    let (work, working) = watch::channel(Work::Paused);
    let beside = args.load.beside(&database, &client, working, &mut times);
    let ((), Ended { view, took_over, heir }) = try_join(beside, cancel(&client, workers, args.runs, &work)).await?;
    args.load.alone(&database, &client, &mut times).await?;
    check(&database, args.runs, &view).await?;

    let report = Report::new("bulk", location.kind()).setting("runs", args.runs);
    let mut report = args.load.describe(report);
    let ended_at = view.ended_at.ok_or("the operation has no end")?;
    let took = ended_at.since(view.created_at).as_secs_f64();
    report.judged("order to end", took, "s", Target::AtMost(120.0));
    report.figure("runs canceled", f64::from(args.runs) / took, "runs/s");
    report.figure("SIGKILL until another worker goes on", took_over.as_secs_f64(), "s");
    let share = args.load.report(&mut report, times)?;
    report.judged("load beside / alone", share, "", Target::AtLeast(0.9));
    heir.stop().await?;
    drop(client);
    database.remove().await?;
    report.print(args.common.json);
    Ok(())
}

/// Starts two worker processes, and learns their ids from the order of their starts.
async fn start_workers(database: &Database, client: &Client) -> BoxResult<[Executing; 2]> {
    let mut tables = Tables::open(database).await?;
    let first = WorkerProcess::start(database, 1).await?;
    tables.until_workers(1).await?;
    let second = WorkerProcess::start(database, 1).await?;
    tables.until_workers(2).await?;
    let mut workers = client.operate().workers().await?;
    workers.sort_by_key(|worker| worker.started_at);
    let [former, later] = workers.as_slice() else {
        return Err(format!("expected two workers, got {workers:?}").into());
    };
    Ok([Executing { id: former.id, process: first }, Executing { id: later.id, process: second }])
}

/// Cancels all waiting runs by one operation. In the middle, the worker that executes it gets
/// SIGKILL.
///
/// The load pauses while no worker executes the operation, because its worker could claim the
/// operation, too.
async fn cancel(
    client: &Client,
    [first, second]: [Executing; 2],
    runs: u32,
    work: &watch::Sender<Work>,
) -> BoxResult<Ended> {
    let query = format!("status:pending workflow:{WAITING_WORKFLOW}").parse()?;
    let start = Action::StartBulk(Box::new(StartBulk::new(query, BulkAction::CancelRun)));
    let done = client.operate().perform(Order::new(start)).await?;
    let OrderOutcome::BulkStarted { bulk } = done.outcome else {
        return Err(format!("expected the start of an operation, got {done:?}").into());
    };
    let claimed = until(client, bulk, |view| view.worker.is_some()).await?;
    let (victim, heir) = if claimed.worker == Some(first.id) { (first, second) } else { (second, first) };
    if claimed.worker != Some(victim.id) {
        return Err(format!("a worker other than the two processes claimed the operation: {claimed:?}").into());
    }
    work.send(Work::Running)?;
    until(client, bulk, |view| view.done >= u64::from(runs / 2) || view.status != BulkStatus::Running).await?;
    work.send(Work::Paused)?;
    victim.process.kill().await?;
    let killed = Instant::now();
    let left = client.operate().bulk(bulk).await?;
    if left.status != BulkStatus::Running {
        return Err(format!("the worker was killed too late: use more --runs than {runs}: {left:?}").into());
    }
    let taken = until(client, bulk, |view| view.worker != Some(victim.id)).await?;
    let took_over = killed.elapsed();
    if taken.worker != Some(heir.id) {
        return Err(format!("the worker of the load took the operation over: use a smaller --load: {taken:?}").into());
    }
    work.send(Work::Running)?;
    let view = until(client, bulk, |view| view.status != BulkStatus::Running).await?;
    work.send(Work::Done)?;
    Ok(Ended { view, took_over, heir: heir.process })
}

/// Waits until the operation is as `is_so` says.
async fn until(client: &Client, bulk: BulkId, is_so: impl Fn(&BulkView) -> bool) -> BoxResult<BulkView> {
    let begun = Instant::now();
    loop {
        let view = client.operate().bulk(bulk).await?;
        if is_so(&view) {
            return Ok(view);
        }
        if begun.elapsed() > TIMEOUT {
            return Err(format!("waited {TIMEOUT:?} for the operation to go on: {view:?}").into());
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Checks that each run was canceled, counted and audited once.
async fn check(database: &Database, runs: u32, view: &BulkView) -> BoxResult<()> {
    let all = u64::from(runs);
    if (view.status, view.done, view.skipped, view.failed) != (BulkStatus::Done, all, 0, 0) {
        return Err(format!("expected {runs} canceled runs, got {view:?}").into());
    }
    let mut tables = Tables::open(database).await?;
    for counted in [
        "SELECT count(*) FROM {runs} WHERE status = 'canceled'",
        "SELECT count(*) FROM {audit} WHERE verb = 'run.cancel'",
        "SELECT count(DISTINCT target) FROM {audit} WHERE verb = 'run.cancel'",
    ] {
        let number = tables.number(counted).await?;
        if number != i64::from(runs) {
            return Err(format!("expected {runs}, got {number}: {counted}").into());
        }
    }
    Ok(())
}
