use std::time::{Duration, Instant};

use serde_json::json;
use workflow_sdk::prelude::*;
use workflow_worker::Worker;

type BoxResult<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const STEPS: u32 = 5;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Database; a fresh SQLite file if none is given. On PostgreSQL a fresh schema is made.
    #[arg(long)]
    database: Option<String>,
    /// Runs in each round.
    #[arg(long, default_value_t = 5000)]
    runs: u32,
    /// Runs at once.
    #[arg(long, default_value_t = 500)]
    concurrency: u32,
    /// Rounds; the median is what counts.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// One line of JSON instead of a table.
    #[arg(long)]
    json: bool,
}

#[workflow]
async fn five_steps(ctx: &Ctx, seed: u64) -> Result<u64> {
    let mut total = seed;
    for step in 0..u64::from(STEPS) {
        // About 100 bytes of JSON.
        let text = ctx.step("step", || async move { Ok::<_, Error>(format!("{step:0>96}")) }).await?;
        total += text.len() as u64;
    }
    Ok(total)
}

pub(crate) async fn run(args: Args) -> BoxResult<()> {
    let directory = tempfile::tempdir()?;
    let file = format!("sqlite://{}", directory.path().join("bench.db").display());
    let url = args.database.clone().unwrap_or(file);
    let schema = format!("bench_{}", &uuid::Uuid::new_v4().simple().to_string()[..12]);
    let client = Client::connect(&url).schema(schema).await?;
    let mut rounds = Vec::new();
    for _ in 0..args.rounds {
        rounds.push(round(&client, &args).await?);
    }
    rounds.sort_unstable();
    report(&args, rounds[rounds.len() / 2], &rounds);
    Ok(())
}

async fn round(client: &Client, args: &Args) -> BoxResult<Duration> {
    let handles = client.start_many(five_steps, 0..u64::from(args.runs)).await?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let begun = Instant::now();
    let worker = Worker::new(client.clone(), ()).register(five_steps).concurrency(args.concurrency);
    let worker = tokio::spawn(worker.run_until(async {
        let _ = stopped.await;
    }));
    let totals = futures::future::try_join_all(handles.iter().map(RunHandle::result)).await?;
    for (seed, total) in (0_u64..).zip(totals) {
        if total != seed + 96 * u64::from(STEPS) {
            return Err(format!("the run of seed {seed} gave {total}").into());
        }
    }
    let elapsed = begun.elapsed();
    let _ = stop.send(());
    worker.await??;
    Ok(elapsed)
}

fn report(args: &Args, median: Duration, rounds: &[Duration]) {
    let runs_per_second = f64::from(args.runs) / median.as_secs_f64();
    let steps_per_second = runs_per_second * f64::from(STEPS);
    if args.json {
        let seconds: Vec<f64> = rounds.iter().map(Duration::as_secs_f64).collect();
        println!(
            "{}",
            json!({
                "bench": "throughput", "runs": args.runs, "steps_per_run": STEPS, "concurrency": args.concurrency,
                "runs_per_second": runs_per_second, "steps_per_second": steps_per_second, "seconds": seconds,
            })
        );
        return;
    }
    println!(
        "throughput: {} runs of {STEPS} steps, {} at once, median of {}",
        args.runs,
        args.concurrency,
        rounds.len()
    );
    println!("  {runs_per_second:>10.0} runs/s");
    println!("  {steps_per_second:>10.0} steps/s");
}
