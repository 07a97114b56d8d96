use workflow_sdk::prelude::*;

#[workflow]
struct Checkout;

#[workflow]
impl Checkout {
    pub fn new() -> Self {
        Checkout
    }
}

#[workflow]
const LIMIT: u64 = 1;

#[workflow]
pub(crate) mod inner {}

// The item stays, so that this is not another message.
const _: fn() -> Checkout = Checkout::new;

fn main() {}
