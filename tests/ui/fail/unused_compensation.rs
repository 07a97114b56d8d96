//! A compensation that is armed and not given a name: a warning, made an error here to be seen.

#![deny(unused_must_use)]

use std::sync::Arc;

use workflow_sdk::prelude::*;

#[workflow]
async fn checkout(ctx: &Ctx) -> Result<()> {
    ctx.step("charge", async || Ok::<_, Error>(())).await?;
    ctx.compensate("refund", |_: Arc<()>| async { Ok::<_, Error>(()) })?;
    Ok(())
}

fn main() {}
