//! Tests a workflow by crashing its worker at every commit. The test finds the step that is not
//! idempotent, and passes once the bank gets an idempotency key.
//!
//! `cargo run --example crash_everywhere`

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use workflow_sdk::prelude::*;
use workflow_testing::{TestEnv, TestError, effect, idempotent_effect};

/// A stub of the bank that reports its effects to the test.
#[derive(Default)]
struct Bank(Mutex<BTreeMap<String, u64>>);

impl Bank {
    async fn charge(&self, order: &str, cents: u64) -> Result<u64, std::io::Error> {
        effect("charge", order);
        Ok(cents)
    }

    /// Charges once per key. A repeated call returns the first call's answer.
    async fn charge_once(&self, key: &str, cents: u64) -> Result<u64, std::io::Error> {
        idempotent_effect("charge", key);
        Ok(*self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(key.to_owned()).or_insert(cents))
    }
}

#[workflow]
async fn careless_checkout(ctx: &Ctx<Bank>, order: String) -> Result<u64> {
    ctx.step("reserve", async || ok(())).await?;
    let paid = ctx.step("charge", || ctx.state().charge(&order, 4200)).await?;
    ctx.sleep(Duration::from_secs(14 * 24 * 3600)).await?;
    ctx.step("close", async || ok(paid)).await
}

#[workflow]
async fn checkout(ctx: &Ctx<Bank>, _order: String) -> Result<u64> {
    ctx.step("reserve", async || ok(())).await?;
    let paid = ctx
        // The key is the same in every attempt and after every crash.
        .step("charge", || ctx.state().charge_once(ctx.idempotency_key(), 4200))
        .await?;
    ctx.sleep(Duration::from_secs(14 * 24 * 3600)).await?;
    ctx.step("close", async || ok(paid)).await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let env = TestEnv::with_state(Bank::default).register(careless_checkout).register(checkout).await?;

    let Err(TestError::NotCrashSafe(report)) = env.crash_everywhere(careless_checkout, "order-42".into()).await else {
        return Err("expected a crash to charge twice".into());
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
