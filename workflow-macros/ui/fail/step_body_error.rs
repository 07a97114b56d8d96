use workflow_sdk::prelude::*;

async fn charge() -> Result<(), Box<dyn std::error::Error>> {
    Ok(())
}

#[workflow]
async fn checkout(ctx: &Ctx) -> Result<()> {
    ctx.step("charge", charge).await
}

fn main() {}
