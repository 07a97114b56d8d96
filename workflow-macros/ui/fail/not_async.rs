use workflow_sdk::prelude::*;

struct App;

#[workflow]
fn checkout(ctx: &Ctx<App>, order: u64) -> Result<u64> {
    let App = ctx.state();
    std::future::ready(()).await;
    Ok(order)
}

// The function stays a workflow, so this line causes no second message.
const _: fn(u64) = |order| takes(checkout, order);

fn takes<W: Workflow>(_: W, _: W::Input) {}

fn main() {}
