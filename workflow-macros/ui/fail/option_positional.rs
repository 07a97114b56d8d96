use workflow_sdk::prelude::*;

#[workflow("checkout/2")]
async fn checkout(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

#[workflow(2)]
async fn number(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

fn main() {}
