use workflow_sdk::prelude::*;

#[workflow]
async fn checkout(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

async fn elsewhere(ctx: &Ctx) -> Result<()> {
    checkout(ctx).await
}

fn main() {}
