//! What the benchmarks run.

use workflow_sdk::prelude::*;
use workflow_worker::Worker;

use crate::limit;

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

/// One small step.
#[workflow]
pub(crate) async fn one_step(ctx: &Ctx, seed: u64) -> Result<u64> {
    let text = ctx.step("step", || async move { Ok::<_, Error>(format!("{0:0>96}", 0)) }).await?;
    Ok(seed + text.len() as u64)
}

/// What [`signaled`] waits for.
pub(crate) const GO: Signal<u64> = Signal::new("go");

/// Waits for a signal, and says when (microseconds since 1970) the step after it ran, and what the signal was.
#[workflow]
pub(crate) async fn signaled(ctx: &Ctx) -> Result<(i64, u64)> {
    let number = ctx.signal(GO).await?;
    let at = ctx.step("at", async || Ok::<_, Error>(limit::micros())).await?;
    Ok((at, number.ok_or(Error::msg("it waits for ever"))?))
}

/// A worker that knows all of them.
pub(crate) fn register(worker: Worker<()>) -> Worker<()> {
    worker.register(five_steps).register(one_step).register(signaled)
}
