use std::env;
use workflow_sdk::prelude::*;

#[workflow]
async fn checkout(_ctx: &Ctx) -> Result<bool> {
    let quick = env::var("QUICK").is_ok();
    Ok(quick && std::env::args().count() > 1)
}

fn main() {}
