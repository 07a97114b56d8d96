use workflow_sdk::prelude::*;

async fn unmarked(_ctx: &Ctx, _input: u32) -> Result<()> {
    Ok(())
}

async fn start(client: &Client) {
    let _ = client.start(unmarked, 1).await;
    let _ = client.start("checkout", ()).await;
}

fn main() {}
