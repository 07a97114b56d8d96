use workflow_sdk::prelude::*;

#[workflow(allow(wall_clok))]
async fn misspelled(_ctx: &Ctx) -> Result<()> {
    // No second message here: after a mistake in `allow`, no rule is applied.
    std::time::SystemTime::now();
    Ok(())
}

#[workflow(allow(clippy::all))]
async fn a_path(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

#[workflow(allow(everything, env, files))]
async fn invented(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

#[workflow(allow)]
async fn bare(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

#[workflow(allow())]
async fn empty(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

#[workflow(allow = "files")]
async fn value(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

#[workflow(allow(files), allow(wall_clock))]
async fn twice(_ctx: &Ctx) -> Result<()> {
    std::time::SystemTime::now();
    Ok(())
}

#[workflow(allow(files))]
async fn another_rule(_ctx: &Ctx) -> Result<()> {
    std::time::SystemTime::now();
    Ok(())
}

fn main() {}
