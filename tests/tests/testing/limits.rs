//! Limits for steps in the test kit.

use workflow_sdk::prelude::*;
use workflow_testing::{TestEnv, idempotent_effect};
use workflow_worker::Limit;

/// Two branches of one run share a seat, and a third step comes after them.
#[workflow]
async fn three(ctx: &Ctx, n: u32) -> Result<u32> {
    let call = async |name: &'static str| {
        idempotent_effect(name, ctx.idempotency_key());
        tokio::task::yield_now().await;
        ok(n)
    };
    let first = ctx.step("first", || call("first")).limit("llm", "acct-42");
    let second = ctx.step("second", || call("second")).limit("llm", "acct-42");
    let (first, second) = futures::try_join!(first, second)?;
    let third = ctx.step("third", || call("third")).limit("llm", "acct-42").await?;
    Ok(first + second + third)
}

fn env() -> workflow_testing::TestEnvBuilder<()> {
    TestEnv::new().register(three).worker(|worker| worker.limit(Limit::new("llm").concurrency(1)))
}

#[tokio::test]
async fn limited_steps_survive_a_crash_at_any_commit() {
    let env = env().await.unwrap();
    let survived = env.crash_everywhere(three, 5).await.unwrap();
    assert_eq!(survived.effects, 3);
}

#[tokio::test]
async fn runs_of_a_test_share_the_seats_and_all_end() {
    let env = env().await.unwrap();
    let mut runs = Vec::new();
    for n in 0..5 {
        runs.push(env.start(three, n).await.unwrap());
    }
    for (n, run) in (0..5).zip(runs) {
        assert_eq!(run.finish().await.unwrap(), 3 * n);
    }
}
