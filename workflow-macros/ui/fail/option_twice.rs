use workflow_sdk::prelude::*;

#[workflow(name = "a", version = "2", name = "b")]
async fn checkout(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

fn main() {}
