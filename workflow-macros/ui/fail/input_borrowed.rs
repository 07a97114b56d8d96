use workflow_sdk::prelude::*;

#[workflow]
async fn checkout(_ctx: &Ctx, _order: &str) -> Result<()> {
    Ok(())
}

fn main() {}
