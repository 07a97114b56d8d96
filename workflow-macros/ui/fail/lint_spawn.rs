use workflow_sdk::prelude::*;

#[workflow]
async fn checkout(_ctx: &Ctx) -> Result<()> {
    tokio::spawn(async {});
    tokio::task::spawn_blocking(|| {});
    std::thread::spawn(|| {});
    Ok(())
}

fn main() {}
