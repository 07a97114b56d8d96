//! Runs one workflow with one step, in one process.
//!
//! `cargo run --example hello`

use workflow_sdk::prelude::*;
use workflow_worker::Worker;

#[workflow]
async fn hello(ctx: &Ctx, name: String) -> Result<String> {
    ctx.step("greet", async || ok(format!("Hello, {name}!"))).await
}

#[tokio::main]
async fn main() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let client = Client::connect(format!("sqlite://{}/hello.db", directory.path().display())).await?;

    let run = client.start(hello, "Ada".into()).await?;
    println!("run {} is {}", run.id(), run.status().await?);

    let worker = Worker::new(client, ()).register(hello);
    worker.run_until(async { _ = run.result().await }).await?;

    println!("run {} is {}", run.id(), run.status().await?);
    println!("its result: {}", run.result().await?);
    Ok(())
}
