//! Sleeps and deadlines. A sleeping run costs a row and no memory, whether it sleeps for a second
//! or for a year. A run with a deadline fails when the deadline passes.
//!
//! `cargo run --example sleep_and_deadline`

use std::time::{Duration, Instant};

use workflow_sdk::prelude::*;
use workflow_sdk::{ClientError, Timestamp};
use workflow_worker::Worker;

const HOUR: Duration = Duration::from_secs(3600);

#[workflow]
async fn remind(ctx: &Ctx, after: Duration) -> Result<String> {
    ctx.sleep(after).await?;
    ctx.step("mail", async || ok("do not forget the milk".to_owned())).await
}

async fn application(client: &Client) -> Result<()> {
    let began = Instant::now();
    let soon = client.start(remind, Duration::from_secs(2)).await?;
    let late = client.start(remind, HOUR).deadline(Duration::from_secs(1)).await?;

    while soon.status().await? != RunStatus::Parked {
        if began.elapsed() > Duration::from_secs(2) {
            return Err(Error::msg("the run did not park while it slept"));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let wakes_in = soon.run().await?.available_at.since(Timestamp::from(std::time::SystemTime::now()));
    println!("after {:.1?}: the first run is parked, it wakes in {wakes_in:.1?}", began.elapsed());

    match late.result().await {
        Err(ClientError::RunFailed { error, .. }) if error.kind == ErrorKind::Deadline => {
            println!("after {:.1?}: the second run failed: {error}", began.elapsed());
        }
        other => return Err(Error::msg(format!("the deadline did not end the run: {other:?}"))),
    }

    let reminder = soon.result().await?;
    println!("after {:.1?}: the first run returned {reminder:?}", began.elapsed());
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let client = Client::connect(format!("sqlite://{}/sleep.db", directory.path().display())).await?;

    // A wait shorter than the linger time keeps the run in memory. This worker lingers so briefly
    // that even a short sleep parks the run.
    let worker = Worker::new(client.clone(), ()).register(remind).linger(Duration::from_millis(100));
    let mut shown = Ok(());
    worker.run_until(async { shown = application(&client).await }).await?;
    shown
}
