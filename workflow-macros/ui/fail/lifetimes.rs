use workflow_sdk::prelude::*;

#[workflow]
async fn checkout<'a>(_ctx: &'a Ctx) -> Result<()> {
    Ok(())
}

fn main() {}
