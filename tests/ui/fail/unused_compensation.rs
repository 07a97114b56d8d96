//! An armed compensation that no variable holds. `deny` turns the warning into an error.

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
