use std::time::Duration;

use serde_json::{Value, json};
use workflow_flows::graph::Flow;
use workflow_flows::{FlowClient, FlowRuntime, FlowStart, ToolCall, flow};
use workflow_sdk::Client;
use workflow_worker::Worker;

use crate::database::Location;
use crate::report::{Report, Target};
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
    /// Number of rounds. Each measures the Rust workflow and the flow in turn; the medians are
    /// reported.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

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

pub(crate) async fn run(args: Args) -> BoxResult<()> {
    let location = Location::parse(args.common.database.as_deref())?;
    let definition = five_steps_of_a_flow()?;
    let (mut of_rust, mut of_flows) = (Vec::new(), Vec::new());
    for _ in 0..args.rounds {
        of_rust.push(round(&location, &args, None).await?);
        of_flows.push(round(&location, &args, Some(&definition)).await?);
    }
    let steps = f64::from(args.runs) * f64::from(STEPS);
    let per_second = |times| -> BoxResult<f64> { Ok(steps / Samples::new(times)?.median().as_secs_f64()) };
    let (of_rust, of_flows) = (per_second(of_rust)?, per_second(of_flows)?);
    let mut report = Report::new("flows", location.kind())
        .setting("runs", args.runs)
        .setting("steps", STEPS)
        .setting("concurrency", args.concurrency)
        .setting("rounds", args.rounds);
    report.figure("steps of a Rust workflow", of_rust, "steps/s");
    report.figure("steps of a flow", of_flows, "steps/s");
    report.judged("flow / Rust", of_flows / of_rust, "", Target::AtLeast(0.6));
    report.print(args.common.json);
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
    let small = |text: Value, _call: ToolCall| async move { Ok(text) };
    let runtime = FlowRuntime::builder().tool("small", small).build();
    let started = clock::now_micros();
    let worker = Worker::new(client, runtime).register(five_steps).register(flow).concurrency(args.concurrency);
    let worker = LocalWorker::start(worker);
    tables.until_all_ended().await?;
    let last_end = tables.number("SELECT max(completed_at) FROM {runs}").await?;
    worker.stop().await?;
    drop(tables);
    database.remove().await?;
    Ok(Duration::from_micros(u64::try_from(last_end - started)?))
}
