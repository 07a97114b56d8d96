//! Limits for steps in the test kit.

use std::time::Duration;

use workflow_sdk::LimitRule;
use workflow_sdk::prelude::*;
use workflow_testing::{TestEnv, idempotent_effect};
use workflow_worker::{Limit, Rate, Worker};

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

#[workflow]
async fn call(ctx: &Ctx, n: u32) -> Result<u32> {
    ctx.step("call", async || ok(n)).limit("llm", "acct-42").await
}

#[tokio::test]
async fn bodies_begin_at_the_rate_of_their_limit_and_not_a_moment_later() {
    let limit = || Limit::new("llm").rate(Rate::per_minute(1).burst(2));
    let env = TestEnv::new().register(call).worker(move |worker| worker.limit(limit())).await.unwrap();
    let mut runs = Vec::new();
    for n in 0..6 {
        runs.push(env.start(call, n).await.unwrap());
        env.settle().await.unwrap();
    }
    let ended = async || {
        let mut ended = Vec::new();
        for (n, run) in (0..).zip(&runs) {
            if run.status().await.unwrap() == RunStatus::Succeeded {
                ended.push(n);
            }
        }
        ended
    };
    assert_eq!(ended().await, [0, 1]);
    for n in 2..6 {
        env.advance(Duration::from_millis(59_999)).await.unwrap();
        assert_eq!(ended().await, (0..n).collect::<Vec<u32>>());
        env.advance(Duration::from_millis(1)).await.unwrap();
        assert_eq!(ended().await, (0..=n).collect::<Vec<u32>>());
    }
}

#[tokio::test]
async fn steps_with_a_rate_survive_a_crash_at_any_commit() {
    let limit = || Limit::new("llm").concurrency(1).rate(Rate::per_second(1));
    let env = TestEnv::new().register(three).worker(move |worker| worker.limit(limit())).await.unwrap();
    let survived = env.crash_everywhere(three, 5).await.unwrap();
    assert_eq!(survived.effects, 3);
}

/// No commit calls the step of a paused run, so the resume has to.
#[tokio::test]
async fn a_resumed_run_gets_the_seat_that_came_free_while_it_was_paused() {
    let worker = |worker: Worker<()>| worker.limit(Limit::new("llm").concurrency(0)).linger(Duration::ZERO);
    let env = TestEnv::new().register(call).worker(worker).await.unwrap();
    let client = env.client().await.unwrap();
    let run = env.start(call, 7).await.unwrap();
    env.settle().await.unwrap();
    client.pause(run.id()).await.unwrap();
    client.limit("llm").set(LimitRule::none().concurrency(1)).await.unwrap();
    env.settle().await.unwrap();
    assert_eq!(run.status().await.unwrap(), RunStatus::Parked);
    client.resume(run.id()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 7, "no time passes");
}
