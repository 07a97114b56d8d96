use std::time::Duration;
use workflow_sdk::prelude::*;

#[workflow]
async fn checkout(ctx: &Ctx) -> Result<u8> {
    tokio::select! {
        _ = ctx.sleep(Duration::ZERO) => Ok(1),
        two = ctx.step("two", async || Ok::<u8, Error>(2)) => two,
    }
}

#[workflow]
async fn imported(ctx: &Ctx) -> Result<u8> {
    use tokio::select;

    select! {
        _ = ctx.sleep(Duration::ZERO) => Ok(1),
    }
}

#[workflow]
async fn of_futures(ctx: &Ctx) -> Result<()> {
    use futures::FutureExt;

    let mut slept = ctx.sleep(Duration::ZERO).fuse();
    futures::select! {
        end = slept => end,
    }
}

fn main() {}
