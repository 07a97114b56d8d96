//! The workflows of this program.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use workflow_sdk::prelude::*;

/// The services that the workflows use. Tests replace them by stubs.
pub struct App {
    pub bank: Box<dyn Bank>,
}

impl App {
    pub fn new(bank: impl Bank + 'static) -> Self {
        let bank = Box::new(bank);
        Self { bank }
    }
}

/// A service outside of this program.
#[async_trait]
pub trait Bank: Send + Sync {
    /// Charges once per key: a second call with the same key returns the first call's answer. A
    /// step may run again after a crash, so its effect needs such a key.
    async fn charge(&self, key: &str, cents: u64) -> Result<String, std::io::Error>;
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    pub id: String,
    pub cents: u64,
}

impl Order {
    pub fn new(id: impl Into<String>, cents: u64) -> Self {
        let id = id.into();
        Self { id, cents }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Receipt {
    pub order: String,
    pub payment: String,
}

/// Charges an order, waits, and returns the receipt. Finished steps are not run again, whatever
/// happens to the process.
#[workflow]
pub async fn checkout(ctx: &Ctx<App>, order: Order) -> Result<Receipt> {
    let bank = &ctx.state().bank;
    let payment = ctx
        .step("charge", || bank.charge(ctx.idempotency_key(), order.cents))
        .retry(Retry::exponential().max_attempts(5))
        .await?;
    ctx.sleep(Duration::from_secs(5)).await?;
    let order = order.id;
    ok(Receipt { order, payment })
}
