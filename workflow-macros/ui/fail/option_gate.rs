use workflow_sdk::prelude::*;

#[workflow(gate)]
async fn bare(_ctx: &Ctx, _account: String) -> Result<()> {
    Ok(())
}

#[workflow(gate = "acct-42")]
async fn text(_ctx: &Ctx, _account: String) -> Result<()> {
    Ok(())
}

#[workflow(gate = account_of)]
async fn function(_ctx: &Ctx, _account: String) -> Result<()> {
    Ok(())
}

#[workflow(gate(|account: &String| account))]
async fn list(_ctx: &Ctx, _account: String) -> Result<()> {
    Ok(())
}

#[workflow(gate = || "acct-42")]
async fn no_parameter(_ctx: &Ctx, _account: String) -> Result<()> {
    Ok(())
}

#[workflow(gate = |account: &String, _count: u64| account)]
async fn two_parameters(_ctx: &Ctx, _account: String) -> Result<()> {
    Ok(())
}

#[workflow(gate = async |account: &String| account.clone())]
async fn not_async(_ctx: &Ctx, _account: String) -> Result<()> {
    Ok(())
}

fn main() {}
