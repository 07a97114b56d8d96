//! The code of a workflow changes while it has runs.

use std::time::Duration;

use workflow_sdk::prelude::*;
use workflow_tests::{Live, LocalWorker, Probe};

use crate::{failure, holds, reaches};

const HOUR: Duration = Duration::from_secs(3600);

async fn body(ctx: &Ctx<Probe>, name: &str) -> Result<String> {
    ctx.step(name, async || {
        ctx.state().note(name);
        Ok::<_, Error>(name.to_owned())
    })
    .await
}

#[workflow(name = "order")]
async fn before(ctx: &Ctx<Probe>, passes: bool) -> Result<String> {
    body(ctx, "reserve").await?;
    if passes {
        body(ctx, "charge").await?;
    }
    ctx.sleep(HOUR).await?;
    Ok("old".into())
}

/// The new code: it checks for fraud before the charge.
#[workflow(name = "order")]
async fn after(ctx: &Ctx<Probe>, passes: bool) -> Result<String> {
    body(ctx, "reserve").await?;
    if !passes {
        ctx.sleep(HOUR).await?;
    }
    let checked = ctx.patched("fraud-check")?;
    if checked {
        body(ctx, "check").await?;
    }
    body(ctx, "charge").await?;
    ctx.sleep(HOUR).await?;
    Ok(if checked { "new" } else { "old" }.into())
}

#[workflow(name = "order")]
async fn at_last(ctx: &Ctx<Probe>, passes: bool) -> Result<String> {
    body(ctx, "reserve").await?;
    if !passes {
        ctx.sleep(HOUR).await?;
    }
    ctx.deprecate_patch("fraud-check")?;
    body(ctx, "check").await?;
    body(ctx, "charge").await?;
    ctx.sleep(HOUR).await?;
    Ok("new".into())
}

/// Ends every sleep and makes every parked run due.
async fn make_due(db: &Live) {
    let mut raw = db.raw().await;
    raw.execute("UPDATE step_attempts SET output = '0' WHERE kind = 'sleep' AND status = 'running'").await;
    raw.execute("UPDATE workflow_runs SET available_at = 0 WHERE status = 'parked'").await;
}

async fn parked_by_the_old_code(db: &Live, passes: bool) -> RunHandle<String> {
    let worker = LocalWorker::start(db.worker(Probe::new()).register(before));
    let run = db.client.start(before, passes).await.unwrap();
    reaches(&run, RunStatus::Parked).await;
    worker.stop().await;
    make_due(db).await;
    run
}

pub async fn a_run_past_a_patch_keeps_the_old_branch_and_others_take_the_new(db: Live) {
    let passed = parked_by_the_old_code(&db, true).await;
    let waits = parked_by_the_old_code(&db, false).await;
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(after));
    let new = db.client.start(after, true).await.unwrap();
    assert_eq!(passed.result().await.unwrap(), "old");
    // The old code parked `waits`, too, so the status is not enough: wait for both charges.
    holds("both have charged", async || probe.times("charge") == 2).await;
    reaches(&waits, RunStatus::Parked).await;
    reaches(&new, RunStatus::Parked).await;
    make_due(&db).await;
    assert_eq!(waits.result().await.unwrap(), "new");
    assert_eq!(new.result().await.unwrap(), "new");
    assert_eq!((probe.times("check"), probe.times("charge")), (2, 2));
    let history = new.history().await.unwrap();
    assert_eq!(history.iter().filter(|row| row.step_key == "patch/fraud-check").count(), 1);
    worker.stop().await;
}

pub async fn a_run_older_than_a_deprecated_patch_waits_for_matching_code(db: Live) {
    let passed = parked_by_the_old_code(&db, true).await;
    let worker = LocalWorker::start(db.worker(Probe::new()).register(at_last));
    let diverged = async || passed.run().await.unwrap().error;
    let error = workflow_tests::until("the run diverges", diverged).await;
    assert_eq!(error.kind, ErrorKind::Divergence);
    for part in ["deprecate_patch(\"fraud-check\")", "older than it", "patch.rs:"] {
        assert!(error.message.contains(part), "{part:?} in {error}");
    }
    let new = db.client.start(at_last, true).await.unwrap();
    reaches(&new, RunStatus::Parked).await;
    worker.stop().await;
    make_due(&db).await;
    let worker = LocalWorker::start(db.worker(Probe::new()).register(after));
    assert_eq!(passed.result().await.unwrap(), "old");
    assert_eq!(new.result().await.unwrap(), "new");
    worker.stop().await;
}

pub async fn a_patch_name_used_twice_fails_the_run(db: Live) {
    #[workflow]
    async fn twice(ctx: &Ctx) -> Result<bool> {
        let first = ctx.patched("fraud-check")?;
        Ok(first && ctx.patched("fraud-check")?)
    }
    let worker = LocalWorker::start(db.worker(()).register(twice));
    let run = db.client.start(twice, ()).await.unwrap();
    let error = failure(run.result().await);
    assert_eq!(error.kind, ErrorKind::Refused);
    assert_eq!(error.message.matches("patch.rs:").count(), 2, "{error}");
    worker.stop().await;
}
