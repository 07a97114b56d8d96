//! Stops calling a service that is down: after a few failures all runs wait, and a single probe
//! finds out when the service works again.
//!
//! `cargo run --example breaker`

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use workflow_sdk::prelude::*;
use workflow_worker::Worker;

/// A bank that fails its first three calls.
#[derive(Default)]
struct Bank {
    calls: AtomicU32,
}

const BANK: Breaker = Breaker::new("bank").failures(3).open_for(Duration::from_millis(300));

impl Bank {
    async fn charge(&self, order: u32) -> Result<u32> {
        match self.calls.fetch_add(1, Relaxed) {
            0..3 => Err(Error::msg("the bank is down")),
            _ => Ok(order),
        }
    }
}

#[workflow]
async fn checkout(ctx: &Ctx<Bank>, order: u32) -> Result<u32> {
    let often = Retry::fixed(Duration::from_millis(5)).max_attempts(1000);
    ctx.step("charge", || ctx.state().charge(order)).retry(often).breaker(BANK).await
}

#[tokio::main]
async fn main() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let client = Client::connect(format!("sqlite://{}/shop.db", directory.path().display())).await?;
    let runs = client.start_many(checkout, 0..50).await?;

    let worker = Worker::new(client, Bank::default()).register(checkout);
    let mut attempts = Ok(0);
    worker.run_until(async { attempts = count_attempts(&runs).await }).await?;
    println!("50 orders were charged in {} attempts; the bank was down for at least three of them", attempts?);
    Ok(())
}

/// Waits for every run, and counts the attempts of its step.
async fn count_attempts(runs: &[RunHandle<u32>]) -> Result<usize> {
    let mut attempts = 0;
    for run in runs {
        run.result().await?;
        attempts += run.history().await?.len();
    }
    Ok(attempts)
}
