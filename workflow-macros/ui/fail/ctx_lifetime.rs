use workflow_sdk::prelude::*;

#[workflow]
async fn checkout(_ctx: &'static Ctx) -> Result<()> {
    Ok(())
}

fn main() {}
