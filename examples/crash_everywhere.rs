//! A test that kills the worker at every commit: it fails for a step that is not idempotent, and says where; and passes once
//! the bank gets an idempotency key.
//!
//! `cargo run --example crash_everywhere`

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use workflow_sdk::prelude::*;
use workflow_worker::testing::{TestEnv, TestError, effect, idempotent_effect};

/// A stub of the bank, which marks what it does.
#[derive(Default)]
struct Bank(Mutex<BTreeMap<String, u64>>);

impl Bank {
    async fn charge(&self, order: &str, cents: u64) -> Result<u64, std::io::Error> {
        effect("charge", order);
        Ok(cents)
    }

    /// Charges once for each key, and answers a repetition as it answered the first.
    async fn charge_once(&self, key: &str, cents: u64) -> Result<u64, std::io::Error> {
        idempotent_effect("charge", key);
        Ok(*self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(key.to_owned()).or_insert(cents))
    }
}

#[workflow]
async fn careless_checkout(ctx: &Ctx<Bank>, order: String) -> Result<u64> {
    ctx.step("reserve", async || Ok::<_, Error>(())).await?;
    let paid = ctx.step("charge", || ctx.state().charge(&order, 4200)).await?;
    ctx.sleep(Duration::from_secs(14 * 24 * 3600)).await?;
    ctx.step("close", async || Ok::<_, Error>(paid)).await
}

#[workflow]
async fn checkout(ctx: &Ctx<Bank>, _order: String) -> Result<u64> {
    ctx.step("reserve", async || Ok::<_, Error>(())).await?;
    // The same in every attempt, and after every crash.
    let paid = ctx
        .step("charge", || async {
            let key = ctx.idempotency_key();
            ctx.state().charge_once(&key, 4200).await
        })
        .await?;
    ctx.sleep(Duration::from_secs(14 * 24 * 3600)).await?;
    ctx.step("close", async || Ok::<_, Error>(paid)).await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let env = TestEnv::with_state(Bank::default).register(careless_checkout).register(checkout).await?;

    let Err(TestError::NotCrashSafe(report)) = env.crash_everywhere(careless_checkout, "order-42".into()).await else {
        return Err("a crash should have charged twice".into());
    };
    print!("{report}");
    let page = include_str!("../docs/guide/testing.md");
    if !page.contains(&report.to_string()) {
        return Err("docs/guide/testing.md shows another report".into());
    }

    let survived = env.crash_everywhere(checkout, "order-42".into()).await?;
    println!("\ncheckout survived {} crashes", survived.crashes);
    Ok(())
}
