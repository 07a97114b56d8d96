//! Workflows whose steps leave a trace in a [`Ledger`].

use std::path::PathBuf;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use futures::future::try_join_all;
use workflow_sdk::engine::failpoint;
use workflow_sdk::prelude::*;

use crate::ledger::{Ledger, What};

/// Where the effects of one test take place.
#[derive(Clone, Debug)]
pub struct Site {
    directory: PathBuf,
    ledger: Ledger,
    pause: Duration,
    threads: usize,
}

impl Site {
    /// In this directory; a short step takes `pause`, and the runtime has this many threads.
    #[must_use]
    pub fn new(directory: PathBuf, pause: Duration, threads: usize) -> Self {
        Self { ledger: Ledger::inside(&directory), directory, pause, threads }
    }

    /// The file whose existence lets the steps end that wait for this gate.
    #[must_use]
    pub fn gate(&self, name: &str) -> PathBuf {
        self.directory.join(format!("gate-{name}"))
    }
}

/// The steps that must have an outcome before this one can begin.
#[must_use]
pub fn before(step_key: &str) -> Vec<String> {
    match step_key {
        "link:1" => vec!["link".into()],
        "sum" => (0..5).map(|branch| format!("branch-{branch}")).collect(),
        "after" => vec!["before".into(), "sleep".into()],
        "two" => vec!["one".into()],
        other => match other.strip_prefix("link:") {
            Some(link) => vec![format!("link:{}", link.parse::<u64>().expect("a number") - 1)],
            None => Vec::new(),
        },
    }
}

/// The body of a short step.
async fn effect(ctx: &Ctx<Site>, value: u64) -> Result<u64> {
    let (site, key, attempt) = (ctx.state(), ctx.idempotency_key(), ctx.attempt());
    site.ledger.append(What::Begin, &key, attempt);
    tokio::time::sleep(site.pause).await;
    failpoint("step.body");
    site.ledger.append(What::End, &key, attempt);
    Ok(value)
}

/// The body of a step that ends when the test says so.
async fn wait_for_gate(ctx: &Ctx<Site>, gate: &str) -> Result<u64> {
    let (site, key, attempt) = (ctx.state(), ctx.idempotency_key(), ctx.attempt());
    site.ledger.append(What::Begin, &key, attempt);
    while !site.gate(gate).exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    site.ledger.append(What::End, &key, attempt);
    Ok(1)
}

/// Ten short steps of one name. Gives `10 n + 45`.
///
/// # Errors
/// Those of its steps: none.
#[workflow]
pub async fn chain(ctx: &Ctx<Site>, n: u64) -> Result<u64> {
    let mut sum = 0;
    for link in 0..10 {
        sum += ctx.step("link", || effect(ctx, n + link)).await?;
    }
    Ok(sum)
}

/// Five short steps at once, then one. Gives `5 n + 10`.
///
/// # Errors
/// Those of its steps: none.
#[workflow]
pub async fn fan(ctx: &Ctx<Site>, n: u64) -> Result<u64> {
    let branches = (0..5).map(|branch| ctx.step(format!("branch-{branch}"), move || effect(ctx, n + branch)));
    let sum: u64 = try_join_all(branches).await?.into_iter().sum();
    ctx.step("sum", || effect(ctx, sum)).await
}

/// Generations of [`herald`], and the steps of each.
pub const GENERATIONS: u64 = 4;
/// See [`GENERATIONS`].
pub const PAGES: u64 = 4;

/// Emits an item for each of its short steps, and continues as new after a few. Gives the number of its items.
///
/// # Errors
/// Those of its steps: none.
#[workflow]
pub async fn herald(ctx: &Ctx<Site>, told: u64) -> Result<u64> {
    let mut told = told;
    for page in 0..PAGES {
        let value = ctx.step("page", || effect(ctx, page)).await?;
        told += 1;
        ctx.publish("told", &told)?;
        ctx.emit("news", &(ctx.generation(), value))?;
    }
    if ctx.generation() + 1 < GENERATIONS {
        return ctx.continue_as_new(told);
    }
    ctx.emit("news", &(GENERATIONS, told))?;
    Ok(told)
}

/// How long [`sleepy`] sleeps.
pub const NAP: Duration = Duration::from_millis(100);

/// A short step, a sleep, a short step. Gives `2 n + 1`.
///
/// # Errors
/// Those of its steps: none.
#[workflow]
pub async fn sleepy(ctx: &Ctx<Site>, n: u64) -> Result<u64> {
    let before = ctx.step("before", || effect(ctx, n)).await?;
    ctx.sleep(NAP).await?;
    let after = ctx.step("after", || effect(ctx, n + 1)).await?;
    Ok(before + after)
}

/// Two steps that wait for the gates `one` and `two`. Gives `n + 2`.
///
/// # Errors
/// Those of its steps: none.
#[workflow]
pub async fn gated(ctx: &Ctx<Site>, n: u64) -> Result<u64> {
    let one = ctx.step("one", || wait_for_gate(ctx, "one")).await?;
    let two = ctx.step("two", || wait_for_gate(ctx, "two")).await?;
    Ok(n + one + two)
}

/// A step that blocks every thread of the runtime for so many milliseconds. Gives them back.
///
/// # Errors
/// Those of its step: none.
#[workflow]
pub async fn blocker(ctx: &Ctx<Site>, milliseconds: u64) -> Result<u64> {
    ctx.step("block", async || {
        let (site, key, attempt) = (ctx.state(), ctx.idempotency_key(), ctx.attempt());
        site.ledger.append(What::Begin, &key, attempt);
        let together = Arc::new(Barrier::new(site.threads));
        let runtime = tokio::runtime::Handle::current();
        let others = Arc::clone(&together);
        let helpers = site.threads - 1;
        // From outside of the runtime: a task that is spawned by a task may wait for that one's thread.
        std::thread::spawn(move || {
            for _ in 0..helpers {
                let others = Arc::clone(&others);
                runtime.spawn(async move { block(&others, milliseconds) });
            }
        });
        block(&together, milliseconds);
        site.ledger.append(What::End, &key, attempt);
        Ok::<_, Error>(milliseconds)
    })
    .await
}

fn block(together: &Barrier, milliseconds: u64) {
    together.wait();
    // What the test is about: a body that blocks its thread.
    std::thread::sleep(Duration::from_millis(milliseconds));
}

/// A step that takes its process down.
///
/// # Errors
/// None: it never gets so far.
#[workflow]
pub async fn aborter(ctx: &Ctx<Site>, n: u64) -> Result<u64> {
    ctx.step("abort", async || {
        ctx.state().ledger.append(What::Begin, &ctx.idempotency_key(), ctx.attempt());
        if n < u64::MAX {
            std::process::abort();
        }
        Ok::<_, Error>(n)
    })
    .await
}
