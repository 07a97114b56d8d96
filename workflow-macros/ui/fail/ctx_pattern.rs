use workflow_sdk::prelude::*;

#[workflow]
async fn checkout(Ctx { .. }: &Ctx) -> Result<()> {
    Ok(())
}

fn main() {}
