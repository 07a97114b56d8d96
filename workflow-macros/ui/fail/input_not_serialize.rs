use workflow_sdk::prelude::*;

struct Order;

#[workflow]
async fn checkout(_ctx: &Ctx, _order: Order) -> Result<()> {
    Ok(())
}

fn main() {}
