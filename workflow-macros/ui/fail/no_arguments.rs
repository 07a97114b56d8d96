use workflow_sdk::prelude::*;

#[workflow]
async fn checkout() -> Result<()> {
    Ok(())
}

fn main() {}
