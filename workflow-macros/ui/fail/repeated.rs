use workflow_sdk::prelude::*;

#[workflow]
#[workflow(version = "2")]
async fn checkout(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

fn main() {}
