//! Workflows that change from one release to the next.

use std::sync::Arc;
use std::time::Duration;

use workflow_sdk::prelude::*;
use workflow_sdk::{RunsWith, Workflow};

use super::{Site, effect};

/// The sleep between two steps, so that a run meets more than one release.
const NAP: Duration = Duration::from_millis(150);

/// Runs three steps and returns `n + 3` in every release. From release 1 on there is one more step
/// between them, for runs that have not passed that point.
///
/// # Errors
/// Never: its steps do not fail.
#[workflow]
pub async fn rolled(ctx: &Ctx<Site>, n: u64) -> Result<u64> {
    let mut sum = ctx.step("first", || effect(ctx, n)).await?;
    ctx.sleep(NAP).await?;
    if ctx.state().release > 0 && ctx.patched("more")? {
        sum += ctx.step("more", || effect(ctx, 0)).await?;
    }
    sum += ctx.step("second", || effect(ctx, 1)).await?;
    ctx.sleep(NAP).await?;
    sum += ctx.step("third", || effect(ctx, 2)).await?;
    Ok(sum)
}

/// The first version of a workflow, which every release contains: a step, a sleep, a step. Returns
/// `n + 1`.
#[derive(Clone, Copy, Debug)]
pub struct FirstVersion;

/// The second version of the workflow, which only the later release contains. Returns `n + 2`.
#[derive(Clone, Copy, Debug)]
pub struct SecondVersion;

impl Workflow for FirstVersion {
    type State = Site;
    type Input = u64;
    type Output = u64;
    const NAME: &'static str = "versioned";
    const VERSION: &'static str = "1";

    async fn run(ctx: &Ctx<Site>, n: u64) -> Result<u64> {
        let begun = ctx.step("begin", || effect(ctx, n)).await?;
        ctx.sleep(NAP).await?;
        Ok(begun + ctx.step("end", || effect(ctx, 1)).await?)
    }
}

impl Workflow for SecondVersion {
    type State = Site;
    type Input = u64;
    type Output = u64;
    const NAME: &'static str = "versioned";
    const VERSION: &'static str = "2";

    async fn run(ctx: &Ctx<Site>, n: u64) -> Result<u64> {
        let ended = ctx.step("end", || effect(ctx, 2)).await?;
        ctx.sleep(NAP).await?;
        Ok(ended + ctx.step("begin", || effect(ctx, n)).await?)
    }
}

impl RunsWith<Site> for FirstVersion {
    fn project(worker: &Arc<Site>) -> Arc<Site> {
        Arc::clone(worker)
    }
}

impl RunsWith<Site> for SecondVersion {
    fn project(worker: &Arc<Site>) -> Arc<Site> {
        Arc::clone(worker)
    }
}
