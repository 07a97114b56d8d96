//! Events in the test kit.

use workflow_sdk::StepKind;
use workflow_sdk::prelude::*;
use workflow_testing::TestEnv;

use crate::DAY;

#[workflow]
async fn ship(ctx: &Ctx, order: String) -> Result<Option<u64>> {
    ctx.event::<u64>("order.paid").key(&order).timeout(30 * DAY).await
}

#[tokio::test]
async fn an_event_reaches_the_runs_of_an_environment() {
    let env = TestEnv::new().register(ship).await.unwrap();
    let run = env.start(ship, "42".into()).await.unwrap();
    let other = env.start(ship, "42".into()).await.unwrap();
    let waits_for = run.waits_for().await.unwrap();
    assert!(waits_for.contains("event \"order.paid\" with key \"42\""), "{waits_for}");
    assert_eq!(run.emit("order.paid", "43", &1_u64).await.unwrap(), 0);
    assert_eq!(run.emit("order.paid", "42", &500_u64).await.unwrap(), 2);
    assert_eq!(run.result().await.unwrap(), Some(500));
    assert_eq!(other.result().await.unwrap(), Some(500));
}

#[tokio::test]
async fn the_timeout_of_a_wait_for_an_event_passes_in_virtual_time() {
    let env = TestEnv::new().register(ship).await.unwrap();
    let run = env.start(ship, "42".into()).await.unwrap();
    assert_eq!(run.finish().await.unwrap(), None);
    assert_eq!(run.emit("order.paid", "42", &500_u64).await.unwrap(), 0);
}

/// The wait is registered before the step begins, so the event reaches it, whenever the worker
/// dies.
#[workflow]
async fn to_itself(ctx: &Ctx, order: String) -> Result<u64> {
    let paid = ctx.event::<u64>("order.paid").key(&order);
    let emit = ctx.emit_event("order.paid", &order, &500_u64);
    let (paid, runs) = futures::try_join!(paid, emit)?;
    ctx.sleep(DAY).await?;
    Ok(paid.unwrap_or_default() + runs)
}

#[tokio::test]
async fn events_survive_a_crash_at_every_commit() {
    let env = TestEnv::new().register(to_itself).await.unwrap();
    let run = env.start(to_itself, "42".into()).await.unwrap();
    assert_eq!(run.finish().await.unwrap(), 501);
    let kinds: Vec<StepKind> = run.history().await.unwrap().iter().map(|row| row.kind).collect();
    assert!(kinds.contains(&StepKind::Event), "{kinds:?}");
    let survived = env.crash_everywhere(to_itself, "43".into()).await.unwrap();
    assert!(survived.commits >= 6, "{survived:?}");
}
