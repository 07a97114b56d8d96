//! A saga: each booking registers a compensation that undoes it. When a later step fails for good,
//! the compensations run in reverse order. Each is a durable step with its own retries.
//!
//! `cargo run --example saga`

use std::time::Duration;

use workflow_sdk::prelude::*;
use workflow_sdk::{ClientError, StepKind};
use workflow_worker::Worker;

/// The travel agency of the bookings.
struct Agency;

impl Agency {
    async fn book(&self, what: &str) -> Result<String> {
        match what {
            "car" => Err("no car is left").fatal(),
            _ => Ok(format!("{what} 17")),
        }
    }

    /// Cancels a booking. A second call with the same key has no effect.
    async fn cancel(&self, booking: &str, key: &str) -> Result<()> {
        println!("  canceled: {booking} ({})", key.rsplit('/').next().unwrap_or_default());
        Ok(())
    }
}

#[workflow]
async fn trip(ctx: &Ctx<Agency>) -> Result<String> {
    let agency = ctx.state();
    let mut bookings = Vec::new();
    for what in ["flight", "hotel", "car"] {
        let booking = ctx.step(format!("book {what}"), || agency.book(what)).await?;
        bookings.push(booking.clone());
        // The body runs after the workflow function has returned, so it gets what it needs.
        let to_undo = (booking, format!("{}/cancel-{what}", ctx.run_id()));
        let _cancel = ctx
            .compensate(format!("cancel {what}"), to_undo, async |agency, (booking, key)| {
                agency.cancel(&booking, &key).await
            })?
            .undoes(&format!("book {what}"))?
            .retry(Retry::exponential().max_delay(Duration::from_secs(60)).max_attempts(50));
    }
    Ok(bookings.join(", "))
}

#[tokio::main]
async fn main() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let client = Client::connect(format!("sqlite://{}/saga.db", directory.path().display())).await?;
    let run = client.start(trip, ()).await?;
    let worker = Worker::new(client, Agency).register(trip);
    worker.run_until(async { _ = run.result().await }).await?;

    match run.result().await {
        Err(ClientError::RunFailed { error, .. }) => println!("the run failed: {error}"),
        other => return Err(Error::msg(format!("expected a failure, got {other:?}"))),
    }
    let history = run.history().await?;
    let undone: Vec<_> = history.iter().filter(|row| row.kind == StepKind::Compensation).collect();
    for row in &undone {
        println!("  {} {} {}", row.kind, row.step_key, row.status);
    }
    let keys: Vec<_> = undone.iter().map(|row| row.step_key.as_str()).collect();
    if keys == ["cancel hotel", "cancel flight"] { Ok(()) } else { Err(Error::msg(format!("undone: {keys:?}"))) }
}
