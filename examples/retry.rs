//! Retries failed steps: by the step's policy, after the delay that a service asks for, or not at
//! all. The final error is returned to the workflow, which can handle it.
//!
//! `cargo run --example retry`

use std::time::Duration;

use workflow_sdk::prelude::*;
use workflow_worker::Worker;

#[workflow]
async fn checkout(ctx: &Ctx, cents: u32) -> Result<String> {
    let patient = Retry::exponential().initial_delay(Duration::from_millis(50)).max_attempts(5);

    let stock =
        ctx.step("reserve", || reserve(ctx.attempt())).retry(patient).timeout(Duration::from_millis(200)).await?;

    let paid = match ctx.step("charge card", || charge_card(cents)).retry(patient).await {
        Ok(paid) => paid,
        Err(error) if error.is_fatal() => ctx.step("send invoice", || send_invoice(cents)).await?,
        Err(error) => return Err(error),
    };

    let parcel = ctx.step("ship", || ship(ctx.attempt())).retry(patient).await?;
    Ok(format!("{stock}, {paid}, {parcel}"))
}

/// Fails the first call, hangs in the second, and succeeds in the third.
async fn reserve(attempt: u32) -> Result<String> {
    match attempt {
        1 => Err(Error::msg("the stock keeper is busy")),
        2 => std::future::pending().await,
        _ => Ok("reserved".into()),
    }
}

/// Fails for good: another attempt would not help.
async fn charge_card(cents: u32) -> Result<String> {
    Err(format!("the card has less than {cents} cents")).fatal()
}

async fn send_invoice(cents: u32) -> Result<String> {
    Ok(format!("invoiced {cents} cents"))
}

/// Stands for a carrier that tells its clients when to try again.
async fn ship(attempt: u32) -> Result<String> {
    if attempt == 1 {
        return Err("429 too many requests").retry_after(Duration::from_millis(300));
    }
    Ok("shipped".into())
}

#[tokio::main]
async fn main() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let client = Client::connect(format!("sqlite://{}/retry.db", directory.path().display())).await?;

    let run = client.start(checkout, 4200).await?;
    let worker = Worker::new(client, ()).register(checkout);
    worker.run_until(async { _ = run.result().await }).await?;
    println!("result: {}", run.result().await?);

    println!("history:");
    let mut history = run.history().await?;
    history.sort_by_key(|attempt| attempt.started_at);
    for attempt in &history {
        let error = attempt.error.as_ref().map(|error| format!(": {}", error.message)).unwrap_or_default();
        println!("  {:<12} attempt {} {}{error}", attempt.step_key, attempt.attempt, attempt.status);
    }
    let attempts = |key: &str| history.iter().filter(|attempt| attempt.step_key == key).count();
    let counts = ["reserve", "charge card", "send invoice", "ship"].map(attempts);
    if counts == [3, 1, 1, 2] { Ok(()) } else { Err(Error::msg(format!("unexpected numbers of attempts: {counts:?}"))) }
}
