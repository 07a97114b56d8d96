use workflow_sdk::prelude::*;

struct Receipt;

async fn charge() -> Result<Receipt> {
    Ok(Receipt)
}

#[workflow]
async fn checkout(ctx: &Ctx) -> Result<()> {
    let _receipt = ctx.step("charge", charge).await?;
    Ok(())
}

fn main() {}
