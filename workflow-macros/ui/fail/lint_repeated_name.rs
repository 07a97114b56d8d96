use workflow_sdk::prelude::*;

async fn send() -> Result<()> {
    Ok(())
}

#[workflow]
async fn checkout(ctx: &Ctx, vip: bool) -> Result<()> {
    ctx.step("mail", send).await?;
    if vip {
        ctx.step("mail", send).await?;
    }
    ctx.compensate("mail", (), |_, ()| send())?.disarm();
    Ok(())
}

#[workflow(allow(repeated_name))]
async fn allowed(ctx: &Ctx) -> Result<()> {
    ctx.step("mail", send).await?;
    ctx.step("mail", send).await
}

fn main() {}
