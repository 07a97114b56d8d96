use workflow_sdk::prelude::*;

#[workflow]
const fn constant(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

#[workflow]
async unsafe fn dangerous(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

#[workflow]
async extern "C" fn foreign(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

#[workflow]
async unsafe extern "C" fn variadic(_ctx: &Ctx, _input: u64, _: ...) -> Result<()> {
    Ok(())
}

fn main() {}
