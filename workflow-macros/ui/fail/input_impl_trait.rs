use workflow_sdk::prelude::*;

#[workflow]
async fn checkout(_ctx: &Ctx, _orders: Vec<impl Send>) -> Result<()> {
    Ok(())
}

fn main() {}
