use workflow_sdk::prelude::*;

#[workflow]
async fn checkout(_ctx: &Ctx) -> Result<()>
where
    String: Clone,
{
    Ok(())
}

fn main() {}
