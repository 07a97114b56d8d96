use workflow_sdk::prelude::*;

struct App;

#[workflow]
async fn two(_ctx: &Ctx<App, App>) -> Result<()> {
    Ok(())
}

#[workflow]
async fn lifetime(_ctx: &Ctx<'_>) -> Result<()> {
    Ok(())
}

fn main() {}
