use workflow_sdk::prelude::*;

// Every mistake in one go.
#[workflow("checkout", vresion = "2")]
fn checkout<T>(_ctx: &mut Ctx, _order: &str, _count: T) {}

fn main() {}
