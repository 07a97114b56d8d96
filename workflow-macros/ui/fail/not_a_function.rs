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

// The item stays in the program, so this line causes no further message.
const _: fn() -> Checkout = Checkout::new;

fn main() {}
