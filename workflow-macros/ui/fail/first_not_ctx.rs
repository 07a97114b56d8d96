use workflow_sdk::prelude::*;

struct Order;

#[workflow]
async fn value(_order: Order) -> Result<()> {
    Ok(())
}

#[workflow]
async fn reference(_order: &Order, _ctx: &Ctx) -> Result<()> {
    Ok(())
}

#[workflow]
async fn tuple(_ctx: (&Ctx, u64)) -> Result<()> {
    Ok(())
}

fn main() {}
