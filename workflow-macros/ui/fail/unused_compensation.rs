//! An armed compensation that no variable holds. `deny` turns the warning into an error.

#![deny(unused_must_use)]

use workflow_sdk::prelude::*;

#[workflow]
async fn checkout(ctx: &Ctx) -> Result<()> {
    ctx.step("charge", async || Ok::<_, Error>(())).await?;
    ctx.compensate("refund", (), async |_, ()| ok(()))?;
    Ok(())
}

fn main() {}
