//! The workflows that the benchmarks run.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures::future::try_join_all;
use workflow_sdk::prelude::*;
use workflow_worker::Worker;

use crate::clock::now_micros;

/// The number of steps of [`five_steps`].
pub(crate) const STEPS: u32 = 5;

/// The length of the text that a small step returns. Its JSON has about 100 bytes.
pub(crate) const STEP_BYTES: u64 = 96;

/// Runs [`STEPS`] small steps in a row.
#[workflow]
pub(crate) async fn five_steps(ctx: &Ctx, seed: u64) -> Result<u64> {
    Ok(seed + in_a_row(ctx, STEPS).await?)
}

/// Runs `steps` small steps in a row.
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

/// Runs one small step.
#[workflow]
pub(crate) async fn one_step(ctx: &Ctx, seed: u64) -> Result<u64> {
    let text = ctx.step("step", small).await?;
    Ok(seed + text.len() as u64)
}

/// Returns when its only step began, in microseconds since 1970.
#[workflow]
pub(crate) async fn moment(ctx: &Ctx) -> Result<i64> {
    ctx.step("at", async || Ok::<_, Error>(now_micros())).await
}

/// Waits for the event "go" with this key. Returns when its step after that ran, in microseconds
/// since 1970, or 0 if no event came.
#[workflow]
pub(crate) async fn awaiting(ctx: &Ctx, key: String) -> Result<i64> {
    let went = ctx.event(GO).key(&key).await?.is_some();
    ctx.step("at", async || Ok::<_, Error>(if went { now_micros() } else { 0 })).await
}

/// The signal that [`signaled`] waits for.
pub(crate) const GO: Signal<u64> = Signal::new("go");

/// Waits for a signal. Returns when the step after it ran, in microseconds since 1970, and the
/// signal's number.
#[workflow]
pub(crate) async fn signaled(ctx: &Ctx) -> Result<(i64, u64)> {
    let number = ctx.signal(GO).await?;
    let at = ctx.step("at", async || Ok::<_, Error>(now_micros())).await?;
    Ok((at, number.ok_or(Error::msg("the wait has no time limit"))?))
}

/// The body of a small step. It is cheap because the engine cannot save any time in a step's body.
async fn small() -> Result<String> {
    Ok("0".repeat(STEP_BYTES as usize))
}

/// When this process last started [`blocked_run`], in microseconds since 1970.
pub(crate) static STARTED: AtomicI64 = AtomicI64::new(0);
/// When this process last reached the last step of [`blocked_run`], in microseconds since 1970.
pub(crate) static REPLAYED: AtomicI64 = AtomicI64::new(0);

/// Runs `steps` small steps in a row, and a last step that never ends in the process `holder`.
#[workflow]
pub(crate) async fn blocked_run(ctx: &Ctx, (steps, holder): (u32, u32)) -> Result<u64> {
    STARTED.store(now_micros(), Ordering::SeqCst);
    let total = in_a_row(ctx, steps).await?;
    let last = async || {
        REPLAYED.store(now_micros(), Ordering::SeqCst);
        if std::process::id() == holder {
            std::future::pending::<()>().await;
        }
        Ok::<_, Error>(())
    };
    ctx.step("last", last).await?;
    Ok(total)
}

/// Runs `steps` small steps concurrently.
#[workflow]
pub(crate) async fn steps_at_once(ctx: &Ctx, steps: u32) -> Result<u64> {
    let texts = try_join_all((0..steps).map(|_| ctx.step("step", small))).await?;
    Ok(texts.iter().map(|text| text.len() as u64).sum())
}

/// Runs a small step for each of `items` items, at most `limit` of them at a time.
#[workflow]
pub(crate) async fn mapped(ctx: &Ctx, (items, limit): (u32, u32)) -> Result<u64> {
    let texts = ctx.map(0..items, limit as usize, |ctx, _| async move { ctx.step("step", small).await }).await?;
    Ok(texts.iter().map(|text| text.len() as u64).sum())
}

/// Runs `steps` steps in a row that take `millis` milliseconds each. In the process `holder` the
/// first step of the second half never ends.
#[workflow]
pub(crate) async fn slow_steps(ctx: &Ctx, (steps, millis, holder): (u32, u64, u32)) -> Result<u64> {
    let mut total = 0;
    for number in 0..steps {
        let half = number == steps / 2;
        total += ctx.step("step", || slow(millis, half && std::process::id() == holder)).await?;
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

/// Registers all these workflows with a worker.
pub(crate) fn register(worker: Worker<()>) -> Worker<()> {
    worker
        .register(five_steps)
        .register(one_step)
        .register(moment)
        .register(awaiting)
        .register(signaled)
        .register(steps_in_a_row)
        .register(blocked_run)
        .register(steps_at_once)
        .register(mapped)
        .register(slow_steps)
        .register(asleep)
}
