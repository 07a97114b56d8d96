use workflow_sdk::prelude::*;

#[workflow]
async fn checkout(_ctx: &Ctx) -> Result<u64, String> {
    Ok(7)
}

fn main() {}
