use workflow_sdk::prelude::*;

const PAID: Signal<u64> = Signal::new("paid");

#[workflow]
async fn order(ctx: &Ctx) -> Result<String> {
    let paid: Option<String> = ctx.signal(PAID).await?;
    Ok(paid.unwrap_or_default())
}

async fn application(client: &Client, id: RunId) {
    let _ = client.signal(id, PAID, &"five hundred".to_owned()).await;
}

fn main() {}
