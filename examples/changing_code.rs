//! Changes the code while runs are under way. A run that has already passed the changed place keeps
//! the old behavior; every other run takes the new code.
//!
//! `cargo run --example changing_code`

use std::time::Duration;

use workflow_sdk::prelude::*;
use workflow_worker::Worker;

/// The code that was deployed first.
mod before {
    use super::*;

    #[workflow]
    pub async fn checkout(ctx: &Ctx, order: u32) -> Result<String> {
        let charged = ctx.step("charge", async || ok(format!("order {order}: charged"))).await?;
        ctx.sleep(Duration::from_millis(300)).await?;
        ctx.step("ship", async || ok(format!("{charged}, shipped"))).await
    }
}

/// The code that is deployed now: an order is checked for fraud before it is charged.
mod after {
    use super::*;

    #[workflow]
    pub async fn checkout(ctx: &Ctx, order: u32) -> Result<String> {
        if ctx.patched("check-for-fraud")? {
            ctx.step("check", async || {
                println!("order {order} is checked for fraud");
                ok(())
            })
            .await?;
        }
        let charged = ctx.step("charge", async || ok(format!("order {order}: charged"))).await?;
        ctx.sleep(Duration::from_millis(300)).await?;
        ctx.step("ship", async || ok(format!("{charged}, shipped"))).await
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let client = Client::connect(format!("sqlite://{}/shop.db", directory.path().display())).await?;

    let first = client.start(before::checkout, 1).await?;
    let old = Worker::new(client.clone(), ()).register(before::checkout).linger(Duration::ZERO);
    old.run_until(async { while !matches!(first.status().await, Ok(RunStatus::Parked)) {} }).await?;
    println!("order 1 sleeps; now the new code is deployed");

    let second = client.start(after::checkout, 2).await?;
    let new = Worker::new(client, ()).register(after::checkout);
    let mut results = None;
    new.run_until(async { results = Some((first.result().await, second.result().await)) }).await?;
    let Some((first, second)) = results else { return Err(Error::msg("the worker stopped before its runs had ended")) };
    println!("{}\n{}", first?, second?);
    Ok(())
}
