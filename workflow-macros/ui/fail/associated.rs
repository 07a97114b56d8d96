use workflow_sdk::prelude::*;

struct Shop;

// The macro cannot see that the function is in an `impl`, so the compiler reports it.
impl Shop {
    #[workflow]
    async fn checkout(_ctx: &Ctx) -> Result<()> {
        Ok(())
    }
}

fn main() {}
