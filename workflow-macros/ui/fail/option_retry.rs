use workflow_sdk::prelude::*;

#[workflow(retry = 3)]
async fn number(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

#[workflow(retry)]
async fn bare(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

#[workflow(retry(max_attempts = 3))]
async fn list(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

fn policy() -> Retry {
    Retry::none()
}

#[workflow(retry = policy())]
async fn computed(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

fn main() {}
