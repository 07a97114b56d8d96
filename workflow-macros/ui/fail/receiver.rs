use workflow_sdk::prelude::*;

struct Shop;

impl Shop {
    #[workflow]
    async fn checkout(&self, ctx: &Ctx) -> Result<()> {
        let _ = (self, ctx);
        Ok(())
    }

    #[workflow]
    async fn owned(self) -> Result<()> {
        Ok(())
    }
}

fn main() {}
