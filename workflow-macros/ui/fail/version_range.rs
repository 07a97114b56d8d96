use workflow_sdk::prelude::*;

#[workflow(version = "")]
async fn empty(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

#[workflow(
    version = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
)]
async fn long(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

#[workflow(version = "\u{7f}")]
async fn control(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

fn main() {}
