use workflow_sdk::prelude::*;

const NAME: &str = "checkout";

#[workflow(name = NAME)]
async fn constant(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

#[workflow(version = 2)]
async fn number(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

#[workflow(version)]
async fn bare(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

#[workflow(name("checkout"))]
async fn call(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

#[workflow(name = )]
async fn half_typed(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

#[workflow(name = b"checkout")]
async fn bytes(_ctx: &Ctx) -> Result<()> {
    let _ = NAME;
    Ok(())
}

fn main() {}
