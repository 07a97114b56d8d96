use std::time::Duration;
use workflow_sdk::prelude::*;

#[workflow]
async fn checkout(ctx: &Ctx) -> Result<()> {
    use tokio::time;

    tokio::time::sleep(Duration::ZERO).await;
    time::sleep(Duration::ZERO).await;
    let _ = tokio::time::timeout(Duration::ZERO, ctx.sleep(Duration::ZERO)).await;
    tokio::task::yield_now().await;
    Ok(())
}

fn main() {}
