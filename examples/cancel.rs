//! Cancels a run: its pending call fails once, so that the workflow can clean up. A shielded part
//! finishes first.
//!
//! `cargo run --example cancel`

use std::time::Duration;

use workflow_sdk::prelude::*;
use workflow_sdk::{CancelOutcome, ClientError};
use workflow_worker::Worker;

#[workflow]
async fn export(ctx: &Ctx, pages: u32) -> Result<u32> {
    for page in 0..pages {
        let page_and_index = async {
            ctx.step("write page", async || ok(page)).await?;
            ctx.step("write index", async || ok(page)).await
        };
        // The shield prevents a page without its index.
        ctx.shield(page_and_index).await?;
        if let Err(error) = ctx.sleep(Duration::from_secs(60)).await {
            if error.kind() == ErrorKind::Canceled {
                ctx.step("remove temporary files", async || ok(())).await?;
            }
            return Err(error);
        }
    }
    Ok(pages)
}

#[tokio::main]
async fn main() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let client = Client::connect(format!("sqlite://{}/cancel.db", directory.path().display())).await?;

    let never = client.start(export, 1).delay(Duration::from_secs(3600)).await?;
    // No worker has claimed this run, so it is canceled at once and has nothing to clean up.
    let outcome = never.cancel().await?;
    println!("canceling a run that was never claimed: {outcome:?}");
    if outcome != CancelOutcome::Canceled {
        return Err(Error::msg("expected the run to be canceled"));
    }

    let run = client.start(export, 10).await?;
    let worker = Worker::new(client, ()).register(export).cancel_grace(Duration::from_secs(30));
    let cancel = async {
        while !matches!(run.status().await, Ok(RunStatus::Parked)) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        println!("canceling a parked run: {:?}", run.cancel().await);
        println!("its result: {:?}", run.result().await.map_err(|error| error.to_string()));
    };
    worker.run_until(cancel).await?;

    for row in run.history().await? {
        println!("  {} {} {}", row.kind, row.step_key, row.status);
    }
    let cleaned_up = run.history().await?.iter().any(|row| row.step_key == "remove temporary files");
    match run.result().await {
        Err(ClientError::RunCanceled { .. }) if cleaned_up => Ok(()),
        other => Err(Error::msg(format!("expected a canceled run, got {other:?}"))),
    }
}
