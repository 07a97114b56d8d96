use workflow_sdk::prelude::*;

struct Shop;

// Nothing in the function tells that it is in an `impl`.
impl Shop {
    #[workflow]
    async fn checkout(_ctx: &Ctx) -> Result<()> {
        Ok(())
    }
}

fn main() {}
