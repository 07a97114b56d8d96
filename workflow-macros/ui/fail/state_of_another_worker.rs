use workflow_sdk::prelude::*;

use workflow_sdk::RunsWith;

struct App;
struct Other;

#[workflow]
async fn checkout(_ctx: &Ctx<App>) -> Result<()> {
    Ok(())
}

fn register<S, W: RunsWith<S>>(_state: S, _workflow: W) {}

const _: fn() = || register(Other, checkout);

fn main() {}
