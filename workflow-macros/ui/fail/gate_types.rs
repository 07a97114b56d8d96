use workflow_sdk::prelude::*;

#[workflow(gate = |account: &u64| account.to_string())]
async fn other_input(_ctx: &Ctx, _account: String) -> Result<()> {
    Ok(())
}

#[workflow(gate = |account: String| account)]
async fn by_value(_ctx: &Ctx, _account: String) -> Result<()> {
    Ok(())
}

#[workflow(gate = |number: &u64| *number)]
async fn number(_ctx: &Ctx, _number: u64) -> Result<()> {
    Ok(())
}

#[workflow(gate = |account: &Option<String>| account.as_deref())]
async fn optional(_ctx: &Ctx, _account: Option<String>) -> Result<()> {
    Ok(())
}

fn main() {}
