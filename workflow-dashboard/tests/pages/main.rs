//! The pages over a real connection.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod browser;
mod bulk;
mod decision;
mod failure;
mod flow;
mod flows;
mod fork;
mod hostile;
mod large;
mod numbers;
mod requests;
mod signals;
mod story;

use workflow_sdk::prelude::*;

/// The line at which `greets` calls its step.
const DOUBLE_LINE: u32 = line!() + 4;

#[workflow]
async fn greets(ctx: &Ctx, number: u64) -> Result<Option<String>> {
    ctx.step("double", async || ok(number * 2)).await?;
    ctx.signal::<String>("greeting").await
}

#[workflow]
async fn asks(ctx: &Ctx) -> Result<bool> {
    let decision = ctx.approval("ship").to("ops").await?;
    ok(decision.is_some_and(|decision| decision.approved))
}

#[workflow]
async fn fails(ctx: &Ctx, secret: String) -> Result<()> {
    ctx.step("charge", async || Err(Error::fatal(secret.clone()))).await
}
