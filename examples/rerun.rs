//! Handles a run after its failure: retries it, forks it from one of its steps, pauses and resumes
//! it, and asks what it waits for.
//!
//! `cargo run --example rerun`

use std::sync::atomic::{AtomicBool, Ordering};

use workflow_sdk::ResumeOutcome;
use workflow_sdk::prelude::*;
use workflow_worker::Worker;

/// A bank that refuses every card until it is repaired.
#[derive(Default)]
struct Bank {
    repaired: AtomicBool,
}

#[workflow]
async fn checkout(ctx: &Ctx<Bank>, cents: u32) -> Result<String> {
    let stock = ctx.step("reserve", async || ok("reserved".to_owned())).await?;
    let charge = async || match ctx.state().repaired.load(Ordering::Relaxed) {
        true => Ok(format!("{cents} cents")),
        false => Err(Error::msg("the bank is closed")),
    };
    let paid = ctx.step("charge", charge).retry(Retry::none()).await?;
    Ok(format!("{stock}, {paid}"))
}

#[tokio::main]
async fn main() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let client = Client::connect(format!("sqlite://{}/rerun.db", directory.path().display())).await?;
    let run = client.start(checkout, 4200).await?;
    work(&client, false, async { _ = run.result().await }).await?;
    println!("first:  {}", run.explain().await?);

    let again = run.retry().await?;
    work(&client, true, async { _ = again.result().await }).await?;
    println!("retry:  {}", again.result().await?);

    let fork = run.fork().from("charge").input(&990).await?;
    fork.pause().await?;
    println!("paused: {}", fork.explain().await?);
    let resumed = fork.resume().await?;
    work(&client, true, async { _ = fork.result().await }).await?;
    println!("fork:   {}", fork.result().await?);

    let unserved = run.fork().from("charge").version("2").await?;
    let mut reason = String::new();
    work(&client, true, async {
        reason = unserved.explain().await.map_or_else(|e| e.to_string(), |why| why.to_string())
    })
    .await?;
    println!("v2:     {reason}");

    if let Err(refusal) = run.fork().from("chrage").await {
        println!("typo:   {refusal}");
    }

    let history = run.history().await?;
    let attempts = |key: &str| history.iter().filter(|attempt| attempt.step_key == key).count();
    let as_expected = (attempts("reserve"), attempts("charge")) == (1, 2)
        && resumed == ResumeOutcome::Resumed
        && fork.result().await? == "reserved, 990 cents";
    if as_expected { Ok(()) } else { Err(Error::msg("the attempts or the fork's result are not as expected")) }
}

/// Runs a worker until `until` completes.
async fn work(client: &Client, repaired: bool, until: impl Future<Output = ()> + Send) -> Result<()> {
    let bank = Bank { repaired: AtomicBool::new(repaired) };
    Ok(Worker::new(client.clone(), bank).register(checkout).run_until(until).await?)
}
