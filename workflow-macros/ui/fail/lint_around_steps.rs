use std::time::{Duration, Instant};
use workflow_sdk::prelude::*;

// The rules apply to the name and the timeout of a step, and to the code that prepares its body.
#[workflow]
async fn checkout(ctx: &Ctx) -> Result<()> {
    ctx.step(format!("pay {}", fastrand::u8(..)), async || Ok::<_, Error>(())).await?;
    ctx.step("ship", async || Ok::<_, Error>(())).timeout(Duration::from_secs(fastrand::u64(1..9))).await?;
    ctx.step("mail", {
        let begun = Instant::now();
        move || async move { Ok::<_, Error>(drop(begun.elapsed())) }
    })
    .await?;
    let shared = || fastrand::u8(..);
    ctx.step("count", async || Ok::<_, Error>(shared())).await?;
    shared();
    Ok(())
}

fn main() {}
