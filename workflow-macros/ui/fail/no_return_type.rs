use workflow_sdk::prelude::*;

#[workflow]
async fn checkout(_ctx: &Ctx) {}

#[workflow]
async fn unit(_ctx: &Ctx) -> () {}

fn main() {}
