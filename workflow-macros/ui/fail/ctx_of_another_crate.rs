use workflow_sdk::prelude::*;

mod web {
    pub struct Ctx<S>(pub S);
}

struct App;

#[workflow]
async fn checkout(_ctx: &web::Ctx<App>) -> Result<()> {
    Ok(())
}

fn main() {}
