use workflow_sdk::prelude::*;

#[workflow]
async fn checkout(_ctx: &Ctx) -> u64 {
    7
}

fn main() {}
