//! What the benchmarks run.

use workflow_sdk::prelude::*;
use workflow_worker::Worker;

/// Steps of [`five_steps`].
pub(crate) const STEPS: u32 = 5;

/// Bytes of text in the output of [`five_steps`]' steps: about 100 bytes of JSON.
pub(crate) const STEP_BYTES: u64 = 96;

/// Small steps in a row.
#[workflow]
pub(crate) async fn five_steps(ctx: &Ctx, seed: u64) -> Result<u64> {
    let mut total = seed;
    for step in 0..u64::from(STEPS) {
        let text = ctx.step("step", || async move { Ok::<_, Error>(format!("{step:0>96}")) }).await?;
        total += text.len() as u64;
    }
    Ok(total)
}

/// A worker that knows all of them.
pub(crate) fn register(worker: Worker<()>) -> Worker<()> {
    worker.register(five_steps)
}
