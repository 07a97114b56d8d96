//! No rule applies to the code inside of steps.
#![deny(warnings)]
#![allow(dead_code, clippy::unit_arg, reason = "the test is that this module compiles")]

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant, SystemTime};
use workflow_sdk::prelude::*;

/// Closures passed to methods of these names count as effects too.
struct Effects;

impl Effects {
    async fn transaction<T, F: Future<Output = T>>(&self, _name: &str, body: impl FnOnce() -> F) -> T {
        body().await
    }

    async fn compensate<T, F: Future<Output = T>>(&self, body: impl FnOnce() -> F) -> T {
        body().await
    }
}

/// A closure passed to a method `map` is workflow code.
struct Branches;

impl Branches {
    async fn map<T, F: Future<Output = T>>(&self, items: Vec<u64>, body: impl Fn(u64) -> F) -> Vec<T> {
        futures::future::join_all(items.into_iter().map(body)).await
    }
}

#[workflow]
async fn every_rule(ctx: &Ctx) -> Result<()> {
    ctx.step("wall clock", async || {
        Ok::<_, Error>(SystemTime::now() > SystemTime::UNIX_EPOCH && Instant::now().elapsed().is_zero())
    })
    .await?;
    ctx.step("randomness", || async { Ok::<_, Error>((fastrand::u8(..), uuid::Uuid::new_v4())) }).await?;
    ctx.step("spawn", || async { tokio::spawn(async {}).await }).await?;
    ctx.step("tokio time", || async { Ok::<_, Error>(tokio::time::sleep(Duration::ZERO).await) })
        .retry(Retry::none())
        .timeout(Duration::from_secs(1))
        .await?;
    ctx.step("unbiased select", || async {
        tokio::select! {
            one = async { 1 } => Ok::<_, Error>(one),
            two = async { 2 } => Ok(two),
        }
    })
    .await?;
    ctx.step("blocking sleep", async || Ok::<_, Error>(std::thread::sleep(Duration::ZERO))).await?;
    ctx.step("environment", async || Ok::<_, Error>(std::env::var("X").ok())).await?;
    ctx.step("files", async || Ok::<_, Error>(std::fs::exists("X").is_ok())).await?;
    ctx.step("network", async || Ok::<_, Error>(std::net::TcpStream::connect("localhost:0").is_ok())).await?;
    ctx.step("map order", || async {
        let map = HashMap::from([(1, 2)]);
        Ok::<_, Error>(map.into_iter().collect::<Vec<_>>())
    })
    .await?;
    Ok(())
}

/// The macro cannot see that this function makes steps of the closure. It assumes so, because the
/// function also takes the context.
async fn twice<F: Future<Output = Result<u8>> + Send>(ctx: &Ctx, body: impl Fn() -> F + Send + Sync) -> Result<u8> {
    Ok(ctx.step("first", &body).await? + ctx.step("second", &body).await?)
}

#[workflow]
async fn other_calls(ctx: &Ctx) -> Result<()> {
    Effects.transaction("now", || async { SystemTime::now() }).await;
    Effects.compensate(|| async { fastrand::u8(..) }).await;
    let mapped = Branches.map(vec![1, 2], |n| async move {
        ctx.step(format!("each {n}"), async || Ok::<_, Error>(fastrand::u8(..))).await
    });
    mapped.await.into_iter().collect::<Result<Vec<u8>, _>>()?;
    twice(ctx, || async { Ok(fastrand::u8(..9)) }).await?;
    Ctx::step(ctx, "as a function", async || Ok::<_, Error>(fastrand::u8(..))).await?;
    Ok(())
}

#[workflow]
async fn named_closures(ctx: &Ctx) -> Result<()> {
    let draw = || fastrand::u8(..);
    let body = async || Ok::<_, Error>(draw());
    ctx.step("drawn", body).await?;
    let (one, two) = futures::try_join!(
        ctx.step("one", async || Ok::<_, Error>(draw())),
        ctx.step("two", {
            let limit = 7;
            move || async move { Ok::<_, Error>(fastrand::u8(..limit)) }
        }),
    )?;
    let _ = (one, two);
    Ok(())
}

#[workflow]
async fn in_order(ctx: &Ctx, prices: HashMap<String, u64>) -> Result<u64> {
    let mut names: Vec<_> = prices.keys().cloned().collect();
    names.sort();
    for name in &names {
        ctx.step(name, async || Ok::<_, Error>(())).await?;
    }
    let sum = prices.values().sum::<u64>();
    let sorted: BTreeMap<_, _> = prices.into_iter().collect();
    let mut last = 0;
    for (_, price) in sorted {
        last = price;
    }
    Ok(sum + last)
}

#[workflow]
async fn replayable_alternatives(ctx: &Ctx) -> Result<()> {
    let _ = (ctx.now(), ctx.random(), ctx.uuid());
    ctx.sleep(Duration::ZERO).await?;
    tokio::select! {
        biased;
        done = ctx.step("done", async || Ok::<_, Error>(())) => done?,
        slept = ctx.sleep(Duration::ZERO) => slept?,
    }
    Ok(())
}
