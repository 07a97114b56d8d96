// A spawned task could outlive the workflow, so it can take neither a scope nor a map's context.
use workflow_sdk::prelude::*;

#[workflow(allow(spawn))]
async fn scoped(ctx: &Ctx) -> Result<()> {
    let scope = ctx.scope("part");
    tokio::spawn(async move { scope.step("page", async || Ok::<_, Error>(())).await });
    Ok(())
}

#[workflow(allow(spawn))]
async fn mapped(ctx: &Ctx, pages: Vec<u32>) -> Result<Vec<u32>> {
    ctx.map(pages, 3, |ctx, page| async move {
        tokio::spawn(async move { ctx.step("page", async || Ok::<_, Error>(page)).await }).await?
    })
    .await
}

fn main() {}
