//! Tests of exported histories: their replay and their redaction.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use serde_json::Value;
use workflow_sdk::prelude::*;
use workflow_testing::{ReplayError, TestEnv, replay};

static POLLS: AtomicUsize = AtomicUsize::new(0);

#[workflow]
async fn long(ctx: &Ctx, steps: usize) -> Result<usize> {
    let mut sum = 0;
    let mut all = pin!(async {
        for number in 0..steps {
            sum += ctx.step("add", async || Ok::<_, Error>(number)).await?;
        }
        Ok(sum)
    });
    poll_fn(|cx| {
        POLLS.fetch_add(1, SeqCst);
        all.as_mut().poll(cx)
    })
    .await
}

#[tokio::test]
async fn a_replay_of_a_document_polls_once_for_each_recorded_step() {
    let env = TestEnv::new().register(long).await.unwrap();
    for steps in [100, 3000] {
        let run = env.start(long, steps).await.unwrap();
        run.result().await.unwrap();
        let history = run.export().await.unwrap().to_json();
        POLLS.store(0, SeqCst);
        replay(long, (), &history).unwrap();
        assert_eq!(POLLS.load(SeqCst), steps + 1);
    }
}

/// Names a step after the time of the creation, so another time is a divergence.
#[workflow]
async fn dated(ctx: &Ctx) -> Result<()> {
    ctx.step(format!("{:?}", ctx.created_at()), async || ok(())).await
}

#[tokio::test]
async fn a_replay_of_a_document_has_the_time_of_the_creation() {
    let env = TestEnv::new().register(dated).await.unwrap();
    let created = std::time::SystemTime::from(env.now());
    let run = env.start(dated, ()).with(|start| start.delay(crate::DAY)).await.unwrap();
    run.finish().await.unwrap();
    run.assert_ran([format!("{created:?}")]).await;
    replay(dated, (), &run.export().await.unwrap().to_json()).unwrap();
}

#[workflow]
async fn order(ctx: &Ctx, customer: String) -> Result<String> {
    let lines = ctx.step("lines", || async { Ok::<_, Error>(vec![customer.clone(), "tea".into()]) }).await?;
    for _ in &lines {
        ctx.step("pack", async || Ok::<_, Error>(())).await?;
    }
    ctx.sleep(crate::DAY).await?;
    let paid = ctx.step("paid", async || Ok::<_, Error>(7)).await?;
    if paid > 0 {
        ctx.step("ship", async || Ok::<_, Error>(format!("to {customer}"))).await?;
    }
    Ok(customer)
}

#[tokio::test]
async fn a_redacted_history_keeps_only_the_shape_of_its_run() {
    let env = TestEnv::new().register(order).await.unwrap();
    let run = env.start(order, "Ada Lovelace".into()).await.unwrap();
    run.finish().await.unwrap();
    let client = env.client().await.unwrap();
    replay(order, (), &client.export(run.id()).await.unwrap().to_json()).unwrap();

    let redacted = client.export(run.id()).redact().await.unwrap().to_json();
    assert!(!redacted.contains("Ada") && !redacted.contains("tea"), "{redacted}");
    let Err(ReplayError::Redacted(misfit)) = replay(order, (), &redacted) else { panic!("7 has become 0") };
    assert!(misfit.to_string().contains("nothing asks for step \"ship\""), "{misfit}");
    let shown = replay(order, (), &redacted).unwrap_err().to_string();
    assert!(shown.contains("redact_with"), "{shown}");

    let kept = |step: Option<&str>, value: Value| if step == Some("paid") { value } else { placeholder(value) };
    let fits = client.export(run.id()).redact_with(kept).await.unwrap().to_json();
    assert!(!fits.contains("Ada"), "{fits}");
    replay(order, (), &fits).unwrap();
}

/// Publishes, and makes calls whose outputs are the engine's own.
#[workflow]
async fn tells(ctx: &Ctx, customer: String) -> Result<()> {
    ctx.publish("customer", &customer)?;
    ctx.step("note", async || {
        ctx.publish("in body", &customer)?;
        Ok::<_, Error>(())
    })
    .await?;
    ctx.child(order, customer.clone()).detach().await?;
    ctx.send_signal(ctx.run_id(), Signal::<String>::new("customer"), &customer).await?;
    ctx.publish("customer", &format!("{customer} is told"))
}

#[tokio::test]
async fn published_values_are_redacted_and_rows_of_the_engine_are_not() {
    let env = TestEnv::new().register(tells).register(order).await.unwrap();
    let run = env.start(tells, "Ada Lovelace".into()).await.unwrap();
    run.finish().await.unwrap();
    let client = env.client().await.unwrap();
    let redacted = client.export(run.id()).redact().await.unwrap().to_json();
    assert!(!redacted.contains("Ada") && redacted.contains("redacted"), "{redacted}");
    replay(tells, (), &redacted).unwrap();
}

fn placeholder(value: Value) -> Value {
    match value {
        Value::String(_) => "redacted".into(),
        Value::Array(items) => items.into_iter().map(placeholder).collect(),
        other => other,
    }
}
