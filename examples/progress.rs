//! Shows the progress of a run: its last published values, and a stream that the application
//! follows.
//!
//! `cargo run --example progress`

use std::time::Duration;

use futures::StreamExt;
use workflow_sdk::prelude::*;
use workflow_worker::Worker;

#[workflow]
async fn import(ctx: &Ctx, files: Vec<String>) -> Result<u64> {
    let mut rows = 0;
    for (done, file) in files.iter().enumerate() {
        ctx.publish("files", &format!("{done} of {}", files.len()))?;
        rows += ctx.step(file, || read(ctx, file)).await?;
        ctx.emit("log", &format!("{file} is imported"))?;
    }
    ctx.publish("files", &format!("{0} of {0}", files.len()))?;
    Ok(rows)
}

/// Stands for a slow import. A step's body may also publish, to show its progress.
async fn read(ctx: &Ctx, file: &str) -> Result<u64> {
    for percent in [0, 50, 100] {
        ctx.publish("file", &(file, percent))?;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(1000)
}

async fn application(client: &Client) -> Result<()> {
    let files = ["customers.csv", "orders.csv", "parcels.csv"].map(String::from);
    let run = client.start(import, files.into()).await?;
    let mut log = run.stream::<String>("log");
    let mut lines = 0;
    while let Some(line) = log.next().await {
        let (files, file) = (run.state::<String>("files").await?, run.state::<(String, u8)>("file").await?);
        println!("{:<28} files: {files:?}, file: {file:?}", line?);
        lines += 1;
    }
    println!("{} rows", run.result().await?);
    let files = run.state::<String>("files").await?;
    if (lines, files.as_deref()) == (3, Some("3 of 3")) { Ok(()) } else { Err(Error::msg("some progress is missing")) }
}

#[tokio::main]
async fn main() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let client = Client::connect(format!("sqlite://{}/import.db", directory.path().display())).await?;
    let worker = Worker::new(client.clone(), ()).register(import);
    let mut shown = Ok(());
    worker.run_until(async { shown = application(&client).await }).await?;
    shown
}
