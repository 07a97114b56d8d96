//! Runs forever: a run continues as new before its history grows large. Its handle, its stream and
//! its result stay the same for all generations.
//!
//! `cargo run --example continue_as_new`

use std::time::Duration;

use futures::StreamExt;
use workflow_sdk::prelude::*;
use workflow_worker::Worker;

/// The input of a generation: the number of readings so far, and their sum.
type Meter = (u64, u64);

/// Reads a meter 12 times, 4 times per generation. A real workflow would read it a thousand times
/// per generation, forever.
#[workflow]
async fn watch_meter(ctx: &Ctx, (mut readings, mut sum): Meter) -> Result<Meter> {
    for _ in 0..4 {
        let value = ctx.step("read", async || ok(100 + readings)).await?;
        (readings, sum) = (readings + 1, sum + value);
        ctx.emit("readings", &format!("generation {}: reading {readings} is {value}", ctx.generation()))?;
        ctx.sleep(Duration::from_millis(50)).await?;
    }
    if readings < 12 {
        return ctx.continue_as_new((readings, sum));
    }
    Ok((readings, sum))
}

async fn application(client: &Client) -> Result<()> {
    let run = client.start(watch_meter, (0, 0)).await?;
    let mut readings = run.stream::<String>("readings");
    while let Some(reading) = readings.next().await {
        println!("{}", reading?);
    }
    let (count, sum) = run.result().await?;
    let row = run.run().await?;
    let steps = run.history().await?.iter().filter(|step| step.step_key.starts_with("read")).count();
    println!("{count} readings, {sum} in all, in {} generations; the history has {steps} of them", row.generation + 1);
    if (count, row.generation, steps) == (12, 2, 4) {
        Ok(())
    } else {
        Err(Error::msg("expected 12 readings, 4 stored"))
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let client = Client::connect(format!("sqlite://{}/meter.db", directory.path().display())).await?;
    let worker = Worker::new(client.clone(), ()).register(watch_meter);
    let mut shown = Ok(());
    worker.run_until(async { shown = application(&client).await }).await?;
    shown
}
