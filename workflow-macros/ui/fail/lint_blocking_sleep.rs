use std::thread;
use std::time::Duration;
use workflow_sdk::prelude::*;

#[workflow]
async fn checkout(_ctx: &Ctx) -> Result<()> {
    thread::sleep(Duration::ZERO);
    Ok(())
}

fn main() {}
