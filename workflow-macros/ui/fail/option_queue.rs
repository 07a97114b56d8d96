use workflow_sdk::prelude::*;

#[workflow(queue = "")]
async fn empty(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

#[workflow(
    queue = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
)]
async fn long(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

#[workflow(queue = "a\nb")]
async fn control(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

#[workflow(queue = |input: &()| "accounts")]
async fn closure(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

#[workflow(queue)]
async fn bare(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

#[workflow(queue = "a", queue = "b")]
async fn twice(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

fn main() {}
