use workflow_sdk::prelude::*;

use std::rc::Rc;

#[workflow]
async fn checkout(_ctx: &Ctx) -> Result<usize> {
    let orders = Rc::new(vec![1, 2]);
    std::future::ready(()).await;
    Ok(orders.len())
}

fn main() {}
