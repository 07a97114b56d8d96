use std::time::Instant;

use futures::future::try_join_all;
use futures::stream::{self, StreamExt, TryStreamExt};
use serde_json::json;
use workflow_flows::{FlowStart, flow};
use workflow_sdk::{Client, RunId, SignalOutcome};

use crate::database::Location;
use crate::process::{open_files, resident_mb};
use crate::report::{Report, Target};
use crate::tables::Tables;
use crate::worker::WorkerProcess;
use crate::{BoxResult, Common};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Number of runs of a flow that wait at an approval.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Number of concurrent runs of the worker.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    concurrency: u32,
    /// Number of decisions that are sent to each run at once.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    clicks: u32,
}

/// The step that waits.
const GATE: &str = "gate";

/// How many runs are decided at once.
const AT_ONCE: usize = 100;

/// Counts the runs that have succeeded.
const ENDED: &str = "SELECT count(*) FROM {runs} WHERE status = 'succeeded'";

pub(crate) async fn run(args: Args) -> BoxResult<()> {
    let location = Location::parse(args.common.database.as_deref())?;
    let mut report = Report::new("approvals", location.kind())
        .setting("runs", args.runs)
        .setting("concurrency", args.concurrency)
        .setting("clicks", args.clicks);
    let database = location.fresh();
    // Two clients, as of two servers: the database alone decides which click was the first.
    let clients = [database.client().await?, database.client().await?];
    let mut tables = Tables::open(&database).await?;
    let worker = WorkerProcess::start_with_flows(&database, args.concurrency).await?;
    let process = worker.id()?;
    let start = start()?;

    // The worker drives one run, so that it is connected and its statements are prepared.
    for run in wait(&clients[0], &mut tables, &start, 1).await? {
        decide(&clients, run, args.clicks).await?;
    }
    tables.until(ENDED, 1).await?;
    let idle_mb = resident_mb(process)?;

    let began = Instant::now();
    let runs = wait(&clients[0], &mut tables, &start, args.runs).await?;
    let waiting = began.elapsed();
    let (waiting_mb, waiting_files) = (resident_mb(process)?, open_files(process)?);
    let began = Instant::now();
    let decisions = stream::iter(runs).map(|run| decide(&clients, run, args.clicks)).buffer_unordered(AT_ONCE);
    decisions.try_collect::<()>().await?;
    let decided = began.elapsed();
    tables.until(ENDED, args.runs + 1).await?;
    let idle_files = open_files(process)?;

    report.figure("starts, to the last wait", f64::from(args.runs) / waiting.as_secs_f64(), "runs/s");
    report.figure("resident memory, idle worker", idle_mb, "MB");
    report.figure("resident memory, all wait", waiting_mb, "MB");
    report.judged("over an idle worker", waiting_mb - idle_mb, "MB", Target::AtMost(20.0));
    report.figure("connections and files, all wait", waiting_files, "");
    report.judged("beyond those after the last end", waiting_files - idle_files, "", Target::AtMost(0.0));
    let clicks = f64::from(args.runs) * f64::from(args.clicks);
    report.figure("decisions, one accepted per run", clicks / decided.as_secs_f64(), "1/s");
    worker.stop().await?;
    drop((clients, tables));
    database.remove().await?;
    report.print(args.common.json);
    Ok(())
}

/// A flow that asks for an approval.
fn start() -> BoxResult<FlowStart> {
    let definition = serde_json::from_value(json!({
        "language": 1, "name": "bench", "input": true, "timeout": 86_400_000, "on_timeout": "fail",
        "body": { "do": [{ "id": GATE, "kind": { "approval": { "to": ["ops"], "title": "Ship {{input}}?" } } }] },
    }))?;
    Ok(FlowStart::new(definition))
}

/// Starts runs and waits until all of them wait for their approvals.
async fn wait(client: &Client, tables: &mut Tables<'_>, start: &FlowStart, runs: u32) -> BoxResult<Vec<RunId>> {
    let handles = client.start_many(flow, (0..runs).map(|number| start.clone().input(number))).await?;
    tables.until("SELECT count(*) FROM {runs} WHERE status = 'parked'", runs).await?;
    Ok(handles.iter().map(|handle| handle.id()).collect())
}

/// Sends decisions to the approval of a run at once.
///
/// # Errors
/// An error message unless one of them is accepted and the others are told so.
async fn decide(clients: &[Client; 2], run: RunId, clicks: u32) -> BoxResult<()> {
    let numbered = (0..clicks).zip(clients.iter().cycle());
    let sent = numbered.map(|(number, client)| client.approve(run, GATE, format!("person {number}")).into_future());
    let outcomes = try_join_all(sent).await?;
    let accepted = outcomes.iter().filter(|outcome| matches!(outcome, SignalOutcome::Accepted)).count();
    let repeated = outcomes.iter().filter(|outcome| matches!(outcome, SignalOutcome::Repeated(_))).count();
    if (accepted, accepted + repeated) != (1, outcomes.len()) {
        return Err(format!("of {clicks} decisions, {accepted} were accepted and {repeated} repeated").into());
    }
    Ok(())
}
