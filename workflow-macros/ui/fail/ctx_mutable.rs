use workflow_sdk::prelude::*;

struct App;

#[workflow]
async fn checkout(ctx: &mut Ctx<App>, _order: u64) -> Result<()> {
    let App = ctx.state();
    Ok(())
}

fn main() {}
