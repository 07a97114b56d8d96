//! A workflow whose steps share the seats of a limit.

use workflow_sdk::prelude::*;

use super::{Site, effect};

/// The name of the limit, which the test sets.
pub const LIMIT: &str = "llm";
/// The key under which every step counts.
pub const KEY: &str = "acct-42";

/// Runs two concurrent steps, then two more, all under one limit, and returns `4 n + 6`.
///
/// # Errors
/// Never: its steps do not fail.
#[workflow]
pub async fn limited(ctx: &Ctx<Site>, n: u64) -> Result<u64> {
    let step = |name: &str, add: u64| ctx.step(name, move || effect(ctx, n + add)).limit(LIMIT, KEY);
    let (alpha, beta) = futures::try_join!(step("alpha", 0), step("beta", 1))?;
    let gamma = step("gamma", 2).await?;
    let delta = step("delta", 3).await?;
    Ok(alpha + beta + gamma + delta)
}
