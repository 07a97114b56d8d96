use workflow_sdk::prelude::*;

#[workflow]
async fn outside(_ctx: &Ctx) -> impl Send {}

#[workflow]
async fn inside(_ctx: &Ctx) -> Result<impl Send> {
    Ok(())
}

fn main() {}
