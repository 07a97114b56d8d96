use workflow_sdk::prelude::*;

#[workflow]
async fn checkout(_ctx: &Ctx, _id: u64, _count: u32, _note: String) -> Result<()> {
    Ok(())
}

fn main() {}
