use workflow_sdk::prelude::*;

// The macro reports all mistakes at once.
#[workflow("checkout", vresion = "2")]
fn checkout<T>(_ctx: &mut Ctx, _order: &str, _count: T) {}

fn main() {}
