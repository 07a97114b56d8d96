//! Checks before a deploy whether new code fits the runs that are under way. A CI job runs this
//! check on the production database. It writes nothing, and its exit code tells whether to deploy.
//!
//! * `cargo run --example preflight -- sqlite://orders.db` (or `postgres://..`) checks that
//!   database. It exits with 1 if a run would diverge.
//! * `cargo run --example preflight -- demo` first makes a run with other code, and then shows the
//!   report about it.

use std::process::ExitCode;
use std::time::Duration;

use workflow_sdk::prelude::*;
use workflow_sdk::testing::replay;
use workflow_worker::Worker;

/// The code that is deployed.
mod deployed {
    use super::*;

    #[workflow(name = "checkout")]
    pub async fn checkout(ctx: &Ctx, cents: u64) -> Result<String> {
        let receipt = ctx.step("charge", async || ok(format!("paid {cents}"))).await?;
        ctx.sleep(Duration::from_secs(3600)).await?;
        ctx.step("mail", async || ok(receipt.clone())).await
    }
}

/// The code that is about to be deployed. A step was renamed by mistake.
#[workflow]
async fn checkout(ctx: &Ctx, cents: u64) -> Result<String> {
    let receipt = ctx.step("charge-card", async || ok(format!("paid {cents}"))).await?;
    ctx.sleep(Duration::from_secs(3600)).await?;
    ctx.step("mail", async || ok(receipt.clone())).await
}

/// The whole CI job: the worker as it will be deployed, with `preflight` instead of `run`.
async fn check(client: &Client) -> Result<ExitCode> {
    let report = Worker::new(client.clone(), ()).register(checkout).preflight().await?;
    println!("{report}");
    Ok(report.exit_code())
}

async fn demo() -> Result<ExitCode> {
    let directory = tempfile::tempdir()?;
    let client = Client::connect(format!("sqlite://{}/preflight.db", directory.path().display())).await?;
    let run = client.start(deployed::checkout, 4200).await?;
    let parked = async {
        while run.status().await.is_ok_and(|status| status != RunStatus::Parked) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    Worker::new(client.clone(), ()).register(deployed::checkout).run_until(parked).await?;

    // A unit test does this with an exported history that is stored beside the test.
    let history = client.export(run.id()).await?.to_json();
    replay(deployed::checkout, (), &history)?;
    if replay(checkout, (), &history).is_ok() || check(&client).await? != ExitCode::FAILURE {
        return Err(Error::msg("the renamed step was not found"));
    }
    println!("\nthe CI job would exit with status 1, before a customer is charged twice");
    Ok(ExitCode::SUCCESS)
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    match std::env::args().nth(1).as_deref() {
        Some("demo") => demo().await,
        Some(url) => check(&Client::connect(url).await?).await,
        None => Err(Error::msg("usage: preflight URL, or preflight demo")),
    }
}
