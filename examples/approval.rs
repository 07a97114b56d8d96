//! Waits for a person's approval, without a worker. If there is no decision in time, the run asks
//! the next person. A second decision is answered with the first one.
//!
//! `cargo run --example approval`

use std::time::Duration;

use workflow_sdk::prelude::*;
use workflow_worker::Worker;

#[workflow]
async fn ship(ctx: &Ctx, order: String) -> Result<String> {
    let first = ctx.approval("ship").to("ops").timeout(Duration::from_millis(300)).await?;
    let decision = match first {
        Some(decision) => Some(decision),
        None => ctx.approval("ship, escalated").to("head of ops").await?,
    };
    match decision {
        Some(decision) if decision.approved => {
            ctx.step("hand over", async || ok(format!("{order} shipped, approved by {}", decision.by))).await
        }
        _ => Ok(format!("{order} stays here")),
    }
}

async fn application(client: &Client) -> Result<String> {
    let run = client.start(ship, "order 42".to_owned()).await?;
    loop {
        for asked in client.approvals().await? {
            let to = asked.to.as_deref().unwrap_or("any approver");
            println!("{to} is asked about {:?}", asked.key);
            if to == "head of ops" {
                client.approve(asked.run_id, &asked.key, "zoe").note("as agreed by phone").await?;
                let late = client.reject(asked.run_id, &asked.key, "bob").await?;
                if let SignalOutcome::Repeated(first) = late
                    && let Some(decision) = first.decision()
                {
                    println!("bob is too late: already {decision} at {}", first.accepted_at);
                }
                return Ok(run.result().await?);
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let client = Client::connect(format!("sqlite://{}/approval.db", directory.path().display())).await?;
    let worker = Worker::new(client.clone(), ()).register(ship);
    let mut said = Ok(String::new());
    worker.run_until(async { said = application(&client).await }).await?;
    println!("{}", said?);
    Ok(())
}
