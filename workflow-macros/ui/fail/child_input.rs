use workflow_sdk::prelude::*;

#[workflow]
async fn refund(_ctx: &Ctx, cents: u64) -> Result<u64> {
    Ok(cents)
}

#[workflow]
async fn order(ctx: &Ctx) -> Result<u64> {
    ctx.child(refund, "all of it").await
}

fn main() {}
