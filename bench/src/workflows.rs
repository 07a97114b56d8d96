//! What the benchmarks run.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures::future::try_join_all;
use workflow_sdk::prelude::*;
use workflow_worker::Worker;

use crate::limit::micros;

/// Steps of [`five_steps`].
pub(crate) const STEPS: u32 = 5;

/// Bytes of text in the output of a small step: about 100 bytes of JSON.
pub(crate) const STEP_BYTES: u64 = 96;

/// Small steps in a row.
#[workflow]
pub(crate) async fn five_steps(ctx: &Ctx, seed: u64) -> Result<u64> {
    Ok(seed + in_a_row(ctx, STEPS).await?)
}

/// So many small steps in a row.
#[workflow]
pub(crate) async fn steps_in_a_row(ctx: &Ctx, steps: u32) -> Result<u64> {
    in_a_row(ctx, steps).await
}

async fn in_a_row(ctx: &Ctx, steps: u32) -> Result<u64> {
    let mut total = 0;
    for _ in 0..steps {
        total += ctx.step("step", small).await?.len() as u64;
    }
    Ok(total)
}

/// One small step.
#[workflow]
pub(crate) async fn one_step(ctx: &Ctx, seed: u64) -> Result<u64> {
    let text = ctx.step("step", small).await?;
    Ok(seed + text.len() as u64)
}

/// What [`signaled`] waits for.
pub(crate) const GO: Signal<u64> = Signal::new("go");

/// Waits for a signal, and says when (microseconds since 1970) the step after it ran, and what the signal was.
#[workflow]
pub(crate) async fn signaled(ctx: &Ctx) -> Result<(i64, u64)> {
    let number = ctx.signal(GO).await?;
    let at = ctx.step("at", async || Ok::<_, Error>(micros())).await?;
    Ok((at, number.ok_or(Error::msg("it waits for ever"))?))
}

/// Cheap, for the body is the author's: what it takes is nothing that the engine could save.
async fn small() -> Result<String> {
    Ok("0".repeat(STEP_BYTES as usize))
}

/// When this process last began [`held_run`], in microseconds since 1970.
pub(crate) static BEGUN: AtomicI64 = AtomicI64::new(0);
/// When this process last came to the last step of [`held_run`].
pub(crate) static LIVE: AtomicI64 = AtomicI64::new(0);

/// So many small steps in a row, and a last one that never ends in the process of this id.
#[workflow]
pub(crate) async fn held_run(ctx: &Ctx, (steps, holder): (u32, u32)) -> Result<u64> {
    BEGUN.store(micros(), Ordering::SeqCst);
    let total = in_a_row(ctx, steps).await?;
    let last = async || {
        LIVE.store(micros(), Ordering::SeqCst);
        if std::process::id() == holder {
            std::future::pending::<()>().await;
        }
        Ok::<_, Error>(())
    };
    ctx.step("last", last).await?;
    Ok(total)
}

/// So many small steps side by side.
#[workflow]
pub(crate) async fn steps_at_once(ctx: &Ctx, steps: u32) -> Result<u64> {
    let texts = try_join_all((0..steps).map(|_| ctx.step("step", small))).await?;
    Ok(texts.iter().map(|text| text.len() as u64).sum())
}

/// A small step for each of so many items, so many at a time.
#[workflow]
pub(crate) async fn mapped(ctx: &Ctx, (items, limit): (u32, u32)) -> Result<u64> {
    let texts = ctx.map(0..items, limit as usize, |ctx, _| async move { ctx.step("step", small).await }).await?;
    Ok(texts.iter().map(|text| text.len() as u64).sum())
}

/// So many steps in a row, each of which takes so many milliseconds; the one after the first half never ends in the process of
/// this id.
#[workflow]
pub(crate) async fn slow_steps(ctx: &Ctx, (steps, millis, holder): (u32, u64, u32)) -> Result<u64> {
    let mut total = 0;
    for number in 0..steps {
        let held = number == steps / 2 && std::process::id() == holder;
        total += ctx.step("step", || slow(millis, held)).await?;
    }
    Ok(total)
}

async fn slow(millis: u64, held: bool) -> Result<u64> {
    if held {
        std::future::pending::<()>().await;
    }
    tokio::time::sleep(Duration::from_millis(millis)).await;
    Ok(millis)
}

/// Sleeps for an hour.
#[workflow]
pub(crate) async fn asleep(ctx: &Ctx, seed: u64) -> Result<u64> {
    ctx.sleep(Duration::from_secs(3600)).await?;
    Ok(seed + 1)
}

/// A worker that knows all of them.
pub(crate) fn register(worker: Worker<()>) -> Worker<()> {
    worker
        .register(five_steps)
        .register(one_step)
        .register(signaled)
        .register(steps_in_a_row)
        .register(held_run)
        .register(steps_at_once)
        .register(mapped)
        .register(slow_steps)
        .register(asleep)
}
