use workflow_sdk::prelude::*;

struct Receipt;

#[workflow]
async fn checkout(_ctx: &Ctx) -> Result<Receipt> {
    Ok(Receipt)
}

fn main() {}
