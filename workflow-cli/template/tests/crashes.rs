//! Runs the workflows in virtual time, and kills the worker after every commit.

use async_trait::async_trait;
use workflow_testing::{TestEnv, TestError, idempotent_effect};

use new_app::{App, Bank, Order, checkout};

/// Tells the test about each payment: without a key, a payment that happens twice fails the test.
struct StubBank;

#[async_trait]
impl Bank for StubBank {
    async fn charge(&self, key: &str, cents: u64) -> Result<String, std::io::Error> {
        idempotent_effect("charge", key);
        Ok(format!("{cents} cents"))
    }
}

fn app() -> App {
    App::new(StubBank)
}

fn order() -> Order {
    Order::new("A-1", 4200)
}

#[tokio::test]
async fn an_order_is_charged() -> Result<(), TestError> {
    let env = TestEnv::with_state(app).register(checkout).await?;
    let receipt = env.start(checkout, order()).await?.finish().await?;
    assert_eq!(receipt.payment, "4200 cents");
    Ok(())
}

#[tokio::test]
async fn an_order_survives_every_crash() -> Result<(), TestError> {
    let env = TestEnv::with_state(app).register(checkout).await?;
    let survived = env.crash_everywhere(checkout, order()).await?;
    assert!(survived.crashes > 0);
    Ok(())
}
