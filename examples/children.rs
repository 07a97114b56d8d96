//! Starts runs from a run. Each child has its own history and retries and may run on another
//! worker; its end wakes the parent.
//!
//! `cargo run --example children`

use workflow_sdk::prelude::*;
use workflow_worker::Worker;

#[workflow]
async fn pay_out(ctx: &Ctx, account: String) -> Result<u64> {
    ctx.step("transfer", async || match account.as_str() {
        "closed" => Err(Error::fatal("the account is closed")),
        _ => Ok(100),
    })
    .await
}

#[workflow]
async fn pay_all(ctx: &Ctx, accounts: Vec<String>) -> Result<String> {
    // All children are started at once. They may run on other machines, and while this run is
    // parked.
    let children = accounts.iter().map(|account| ctx.child(pay_out, account.clone()));
    let paid = futures::future::join_all(children).await;
    let total: u64 = paid.iter().flatten().sum();
    for (account, error) in
        accounts.iter().zip(&paid).filter_map(|(account, paid)| Some((account, paid.as_ref().err()?)))
    {
        ctx.step("report", async || {
            println!("  {account}: {error}");
            ok(())
        })
        .await?;
    }
    Ok(format!("{total} paid to {} of {} accounts", paid.iter().flatten().count(), accounts.len()))
}

#[tokio::main]
async fn main() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let client = Client::connect(format!("sqlite://{}/children.db", directory.path().display())).await?;

    let accounts = ["ann", "closed", "bob"].map(String::from).to_vec();
    let run = client.start(pay_all, accounts).await?;
    let worker = Worker::new(client.clone(), ()).register(pay_all).register(pay_out);
    worker.run_until(async { _ = run.result().await }).await?;
    println!("{}", run.result().await?);
    Ok(())
}
