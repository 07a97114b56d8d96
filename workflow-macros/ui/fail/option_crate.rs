use workflow_sdk::prelude::*;

#[workflow(crate = "not a path")]
async fn checkout(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

fn main() {}
