// The compiler names the value and the `.await`, which a message of ours would hide.
use workflow_sdk::prelude::*;

use std::rc::Rc;

async fn charge() -> Result<u64> {
    let cents = Rc::new(42);
    std::future::ready(()).await;
    Ok(*cents)
}

#[workflow]
async fn checkout(ctx: &Ctx) -> Result<u64> {
    ctx.step("charge", charge).await
}

fn main() {}
