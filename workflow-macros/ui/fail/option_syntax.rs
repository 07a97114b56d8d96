use workflow_sdk::prelude::*;

#[workflow(name = "a" version = "2")]
async fn no_comma(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

// The function stays a workflow, so this line causes no second message.
const _: fn() = || takes(no_comma);

fn takes<W: Workflow>(_: W) {}

fn main() {}
