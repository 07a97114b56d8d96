use workflow_sdk::prelude::*;

mod orders {
    use super::*;

    struct App;

    #[workflow]
    pub async fn checkout(_ctx: &Ctx<App>) -> Result<()> {
        Ok(())
    }
}

fn main() {}
