use workflow_sdk::prelude::*;

#[workflow(verison = "2")]
async fn misspelled(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

#[workflow(retries = "2", type = "x")]
async fn invented(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

fn main() {}
