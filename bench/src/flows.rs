use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use workflow_flows::graph::Flow;
use workflow_flows::{FlowClient, FlowDocument, FlowRuntime, FlowStart, FlowStore, Flows, ToolCall, flow};
use workflow_sdk::Client;
use workflow_worker::Worker;

use crate::database::{Database, Kind, Location};
use crate::report::{Report, Target};
use crate::rounds::Rounds;
use crate::samples::Samples;
use crate::tables::Tables;
use crate::worker::LocalWorker;
use crate::workflows::{STEP_BYTES, STEPS, five_steps};
use crate::{BoxResult, Common, clock};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Number of runs per round.
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Number of concurrent runs of the worker.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    concurrency: u32,
    /// Number of runs per round that are started one after the other.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    starts: u32,
    /// Number of checks of a document of 200 steps.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    checks: u32,
    /// Number of versions that are deployed and started one after the other.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    deploys: u32,
    /// Number of rounds. Each measures the Rust workflow and the flow in turn; the medians are
    /// reported.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

/// Steps of the document that is checked.
const CHECKED_STEPS: u32 = 200;

/// A flow that does what [`five_steps`] does: two steps set a variable, and three call a tool.
fn five_steps_of_a_flow() -> BoxResult<Flow> {
    let text = "x".repeat(usize::try_from(STEP_BYTES)?);
    let set = |id: &str| json!({ "id": id, "kind": { "set": { "text": text } } });
    let tool = |id: &str| json!({ "id": id, "kind": { "tool": { "tool": "small", "args": "{{vars.text}}" } } });
    Ok(serde_json::from_value(json!({
        "language": 1, "name": "bench", "input": true, "timeout": 86_400_000, "on_timeout": "fail",
        "body": { "do": [set("a"), tool("b"), set("c"), tool("d"), tool("e")] },
    }))?)
}

/// A worker that runs [`five_steps`] and flows. Its tool `small` gives its arguments back, `moment`
/// the present time in microseconds since 1970.
fn worker(client: Client, args: &Args) -> Worker<FlowRuntime> {
    let runtime = FlowRuntime::builder()
        .tool("small", |text: Value, _call: ToolCall| async move { Ok(text) })
        .tool("moment", |_args: Value, _call: ToolCall| async move { Ok(clock::now_micros()) })
        .build();
    Worker::new(client, runtime).register(five_steps).register(flow).concurrency(args.concurrency)
}

pub(crate) async fn run(args: Args) -> BoxResult<()> {
    let location = Location::parse(args.common.database.as_deref())?;
    let mut report = Report::new("flows", location.kind())
        .setting("runs", args.runs)
        .setting("steps", STEPS)
        .setting("concurrency", args.concurrency)
        .setting("starts", args.starts)
        .setting("checks", args.checks)
        .setting("deploys", args.deploys)
        .setting("rounds", args.rounds);
    let definition = five_steps_of_a_flow()?;
    measure_throughput(&mut report, &location, &args, &definition).await?;
    measure_latency(&mut report, &location, &args, &definition).await?;
    let checked = Samples::new(checks(args.checks)?)?;
    report.judged("check of 200 steps, p50", checked.p50_ms(), "ms", Target::AtMost(20.0));
    let deployed = Samples::new(deploys(&location, &args).await?)?;
    report.judged("deploy to first step, p50", deployed.p50_ms(), "ms", Target::AtMost(10.0));
    report.figure("deploy to first step, p99", deployed.p99_ms(), "ms");
    report.print(args.common.json);
    Ok(())
}

async fn measure_throughput(report: &mut Report, location: &Location, args: &Args, definition: &Flow) -> BoxResult<()> {
    let (mut of_rust, mut of_flows) = (Vec::new(), Vec::new());
    for _ in 0..args.rounds {
        of_rust.push(round(location, args, None).await?);
        of_flows.push(round(location, args, Some(definition)).await?);
    }
    let steps = f64::from(args.runs) * f64::from(STEPS);
    let per_second = |times| -> BoxResult<f64> { Ok(steps / Samples::new(times)?.median().as_secs_f64()) };
    let (of_rust, of_flows) = (per_second(of_rust)?, per_second(of_flows)?);
    report.figure("steps of a Rust workflow", of_rust, "steps/s");
    report.figure("steps of a flow", of_flows, "steps/s");
    report.judged("flow / Rust", of_flows / of_rust, "", Target::AtLeast(0.6));
    Ok(())
}

async fn start(client: &Client, args: &Args, definition: Option<&Flow>) -> BoxResult<()> {
    for seed in 0..u64::from(args.runs) {
        match definition {
            None => drop(client.start(five_steps, seed).await?),
            Some(definition) => {
                let start = FlowStart::new(definition.clone()).input(seed);
                drop(client.start_definition(start).await?);
            }
        }
    }
    Ok(())
}

/// Measures the time from the start of the worker to the end of the last run.
async fn round(location: &Location, args: &Args, definition: Option<&Flow>) -> BoxResult<Duration> {
    let database = location.fresh();
    let client = database.client().await?;
    start(&client, args, definition).await?;
    let mut tables = Tables::open(&database).await?;
    let started = clock::now_micros();
    let worker = LocalWorker::start(worker(client, args));
    tables.until_all_ended().await?;
    let last_end = tables.number("SELECT max(completed_at) FROM {runs}").await?;
    worker.stop().await?;
    drop(tables);
    database.remove().await?;
    Ok(Duration::from_micros(u64::try_from(last_end - started)?))
}

async fn measure_latency(report: &mut Report, location: &Location, args: &Args, definition: &Flow) -> BoxResult<()> {
    let (mut of_rust, mut of_flows) = (Rounds::default(), Rounds::default());
    for _ in 0..args.rounds {
        of_rust.push(Samples::new(latencies(location, args, None).await?)?.p50_ms());
        of_flows.push(Samples::new(latencies(location, args, Some(definition)).await?)?.p50_ms());
    }
    let (of_rust, of_flows) = (of_rust.median(), of_flows.median());
    report.figure("start to result of a Rust workflow, p50", of_rust, "ms");
    report.figure("start to result of a flow, p50", of_flows, "ms");
    report.judged("start to result, flow / Rust, p50", of_flows / of_rust, "", Target::AtMost(1.5));
    Ok(())
}

async fn latencies(location: &Location, args: &Args, definition: Option<&Flow>) -> BoxResult<Vec<Duration>> {
    let database = location.fresh();
    let client = database.client().await?;
    let worker = LocalWorker::start(worker(client.clone(), args));
    let start = definition.cloned().map(FlowStart::new);
    let times = tokio::spawn(results(client.clone(), args.starts, start)).await??;
    worker.stop().await?;
    drop(client);
    database.remove().await?;
    Ok(times)
}

/// Measures the time from each start to its result. The first run only waits for the worker and is
/// not counted.
async fn results(client: Client, starts: u32, start: Option<FlowStart>) -> BoxResult<Vec<Duration>> {
    let mut times = Vec::new();
    for seed in 0..=u64::from(starts) {
        let started = Instant::now();
        match &start {
            None => {
                client.start(five_steps, seed).await?.result().await?;
            }
            Some(start) => {
                client.start_definition(start.clone().input(seed)).await?.result().await?;
            }
        }
        times.push(started.elapsed());
    }
    Ok(times.split_off(1))
}

/// Measures checks of a document of [`CHECKED_STEPS`] steps, which hold CEL and templates.
fn checks(checks: u32) -> BoxResult<Vec<Duration>> {
    let mut text = String::from("flow: 1\nname: long\ndo:\n  - { id: s0, set: { n: \"{{input.n}}\" } }\n");
    for number in 1..CHECKED_STEPS {
        let before = number - 1;
        if number % 2 == 0 {
            writeln!(text, "  - {{ id: s{number}, set: {{ n: \"{{{{input.n + {number}}}}}\" }} }}")?;
        } else {
            writeln!(text, "  - {{ id: s{number}, tool: small, args: {{ text: \"{{{{steps.s{before}}}}}\" }} }}")?;
        }
    }
    let document = FlowDocument::new(text);
    let mut times = Vec::new();
    for _ in 0..checks {
        let started = Instant::now();
        let checked = document.check();
        times.push(started.elapsed());
        if !checked.is_valid() {
            return Err(format!("the document of the benchmark is refused: {:?}", checked.findings).into());
        }
    }
    Ok(times)
}

async fn deploys(location: &Location, args: &Args) -> BoxResult<Vec<Duration>> {
    let database = location.fresh();
    let client = database.client().await?;
    let flows = Flows::new(client.clone(), FlowStore::connect(&url_of_tables(&database)).await?);
    let worker = LocalWorker::start(worker(client.clone(), args));
    let times = tokio::spawn(first_steps(client.clone(), flows, args.deploys)).await??;
    worker.stop().await?;
    drop(client);
    database.remove().await?;
    Ok(times)
}

/// Returns the URL of a database for a store that finds its table by the search path.
fn url_of_tables(database: &Database) -> String {
    match database.kind() {
        Kind::Sqlite => database.url.clone(),
        Kind::Postgres => {
            let separator = if database.url.contains('?') { '&' } else { '?' };
            format!("{}{separator}options[search_path]={}", database.url, database.schema)
        }
    }
}

/// Measures the time from just before a document is checked and deployed as a further version until
/// the first step of its run begins. The first one only waits for the worker and is not counted.
async fn first_steps(client: Client, flows: Flows, deploys: u32) -> BoxResult<Vec<Duration>> {
    let mut times = Vec::new();
    for number in 0..=deploys {
        let text = format!(
            "flow: 1\nname: bench\ndo:\n  - {{ id: first, tool: moment, args: {{ number: {number} }} }}\n  \
             - {{ id: second, tool: small, args: {{ at: \"{{{{steps.first}}}}\" }} }}\n"
        );
        let document = FlowDocument::new(text);
        let handed_in = clock::now_micros();
        let checked = document.check();
        let flow = checked.flow.ok_or_else(|| format!("the flow is refused: {:?}", checked.findings))?;
        if !flows.deploy(&flow, "bench", None).await?.is_new {
            return Err(format!("the version with the number {number} is not new").into());
        }
        let start = flows.find("bench", None).await?.into_start().actor("bench");
        let result = client.start_definition(start).await?.result().await?;
        let begun = result["at"].as_i64().ok_or_else(|| format!("the run returned {result}"))?;
        let elapsed = u64::try_from(begun - handed_in);
        times.push(Duration::from_micros(elapsed.map_err(|_| "the clock of this machine was set back")?));
    }
    Ok(times.split_off(1))
}
