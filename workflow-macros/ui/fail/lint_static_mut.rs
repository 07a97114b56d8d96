use workflow_sdk::prelude::*;

#[workflow]
async fn checkout(_ctx: &Ctx) -> Result<()> {
    static mut COUNT: u64 = 0;
    unsafe { COUNT += 1 };
    Ok(())
}

fn main() {}
