use workflow_sdk::prelude::*;

trait Shop {
    #[workflow]
    fn checkout(ctx: &Ctx) -> Result<()>;
}

fn main() {}
