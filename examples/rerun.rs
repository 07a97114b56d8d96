//! After a failure: a workflow that retries itself, a failed run that is tried again, a fork from one of its steps, a pause, and
//! a run that says what it waits for.
//!
//! `cargo run --example rerun`

use std::sync::atomic::{AtomicBool, Ordering};

use workflow_sdk::ResumeOutcome;
use workflow_sdk::prelude::*;
use workflow_worker::Worker;

/// The bank refuses every card until somebody repairs it.
#[derive(Default)]
struct Bank {
    repaired: AtomicBool,
}

#[workflow]
async fn checkout(ctx: &Ctx<Bank>, cents: u32) -> Result<String> {
    let stock = ctx.step("reserve", async || Ok::<_, Error>("reserved".to_owned())).await?;
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

    let nowhere = run.fork().from("charge").version("2").await?;
    let mut nobody = String::new();
    work(&client, true, async {
        nobody = nowhere.explain().await.map_or_else(|e| e.to_string(), |why| why.to_string())
    })
    .await?;
    println!("nobody: {nobody}");

    if let Err(refusal) = run.fork().from("chrage").await {
        println!("typo:   {refusal}");
    }

    let history = run.history().await?;
    let attempts = |key: &str| history.iter().filter(|attempt| attempt.step_key == key).count();
    let as_expected = (attempts("reserve"), attempts("charge")) == (1, 2)
        && resumed == ResumeOutcome::Resumed
        && fork.result().await? == "reserved, 990 cents";
    if as_expected { Ok(()) } else { Err(Error::msg("other attempts than expected")) }
}

/// A worker until that has happened.
async fn work(client: &Client, repaired: bool, until: impl Future<Output = ()> + Send) -> Result<()> {
    let bank = Bank { repaired: AtomicBool::new(repaired) };
    Ok(Worker::new(client.clone(), bank).register(checkout).run_until(until).await?)
}
