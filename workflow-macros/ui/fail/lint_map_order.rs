use std::collections::{HashMap, HashSet};
use workflow_sdk::prelude::*;

#[workflow]
async fn checkout(ctx: &Ctx, prices: HashMap<String, u64>) -> Result<u64> {
    let mut seen = HashSet::new();
    for (name, price) in &prices {
        ctx.step(name, async || Ok::<_, Error>(())).await?;
        seen.insert(*price);
    }
    let mut sum = 0;
    for price in seen {
        sum = sum * 2 + price;
    }
    let stock: HashMap<String, u64> = ctx.step("stock", async || Ok::<_, Error>(HashMap::new())).await?;
    Ok(sum + stock.values().next().copied().unwrap_or_default())
}

fn main() {}
