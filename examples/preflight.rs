//! Before a deploy: does today's code fit the runs that are under way? What a CI job runs on the production database; it writes
//! nothing, and its exit code says whether to deploy.
//!
//! `cargo run --example preflight -- sqlite://orders.db`, or `postgres://..`: judges that database, exits with 1 if a run would
//! diverge. `cargo run --example preflight -- demo`: makes a run with other code first, and shows what is said of it.

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
        let receipt = ctx.step("charge", async || Ok::<_, Error>(format!("paid {cents}"))).await?;
        ctx.sleep(Duration::from_secs(3600)).await?;
        ctx.step("mail", async || Ok::<_, Error>(receipt.clone())).await
    }
}

/// The code that is to be deployed: somebody has renamed a step.
#[workflow]
async fn checkout(ctx: &Ctx, cents: u64) -> Result<String> {
    let receipt = ctx.step("charge-card", async || Ok::<_, Error>(format!("paid {cents}"))).await?;
    ctx.sleep(Duration::from_secs(3600)).await?;
    ctx.step("mail", async || Ok::<_, Error>(receipt.clone())).await
}

/// All that a CI job needs: the worker as it is deployed, with `preflight` in the place of `run`.
async fn judge(client: &Client) -> Result<ExitCode> {
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

    // The same question in a unit test: the history is a file beside the test.
    let history = client.export(run.id()).await?.to_json();
    replay(deployed::checkout, (), &history)?;
    if replay(checkout, (), &history).is_ok() || judge(&client).await? != ExitCode::FAILURE {
        return Err(Error::msg("the renamed step was not found"));
    }
    println!("\nthe job would have ended with status 1, and nobody is charged twice");
    Ok(ExitCode::SUCCESS)
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    match std::env::args().nth(1).as_deref() {
        Some("demo") => demo().await,
        Some(url) => judge(&Client::connect(url).await?).await,
        None => Err(Error::msg("say which database: preflight URL, or preflight demo")),
    }
}
