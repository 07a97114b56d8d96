use std::fs::{self, File};
use workflow_sdk::prelude::*;

#[workflow]
async fn checkout(_ctx: &Ctx) -> Result<bool> {
    let text = fs::read_to_string("prices.txt");
    Ok(text.is_ok() && File::open("prices.txt").is_ok())
}

fn main() {}
