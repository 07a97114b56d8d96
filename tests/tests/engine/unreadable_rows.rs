//! Rows of the database that this release does not understand: damaged, or written by a later one.

use workflow_sdk::prelude::*;
use workflow_sdk::{ClientError, Explanation, RunFilter};
use workflow_tests::{Database, Live, LocalWorker, Probe, until};

use crate::{failure, holds, reaches};

/// An error as a later release may record it.
const LATER: &str = r#"{"kind":"from_a_later_release","message":"a reason"}"#;

#[workflow(name = "order")]
async fn order(ctx: &Ctx<Probe>, name: String) -> Result<String> {
    ctx.step("note", async || Ok::<_, Error>(ctx.state().note(&name))).await?;
    Ok(name)
}

/// Sets columns of one run.
async fn damage(db: &Live, run: RunId, columns: &str) {
    db.raw().await.execute(format!("UPDATE workflow_runs SET {columns} WHERE id = '{run}'")).await;
}

/// Waits until the run is parked as diverged, and returns the reason.
async fn diverges(run: &RunHandle<String>) -> String {
    let diverged = async || match run.explain().await.unwrap() {
        Explanation::Diverged { error, .. } => Some(error.to_string()),
        _ => None,
    };
    until("the run is parked as diverged", diverged).await
}

pub async fn an_unknown_kind_of_error_stops_only_its_run(db: Live) {
    let bad = db.client.start(order, "bad".into()).await.unwrap();
    let also_bad = db.client.start(order, "also bad".into()).await.unwrap();
    let good = db.client.start(order, "good".into()).await.unwrap();
    damage(&db, bad.id(), &format!("error = '{LATER}'")).await;
    damage(&db, also_bad.id(), "error = 'no JSON'").await;

    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(order));
    assert_eq!(good.result().await.unwrap(), "good");
    let reason = diverges(&bad).await;
    assert!(reason.contains("\"from_a_later_release\""), "{reason}");
    let reason = diverges(&also_bad).await;
    assert!(reason.contains("expected"), "{reason}");
    // The next claims find the same. The text that was not understood is still there.
    for _ in 0..2 {
        let epoch = bad.run().await.unwrap().epoch;
        damage(&db, bad.id(), "available_at = 0").await;
        holds("the run was tried again", async || {
            let run = bad.run().await.unwrap();
            run.epoch > epoch && run.status == RunStatus::Parked
        })
        .await;
        assert_eq!(diverges(&bad).await.matches("from_a_later_release").count(), 1);
    }
    assert_eq!(bad.run().await.unwrap().error.unwrap().not_understood.as_deref(), Some(LATER));
    assert_eq!(probe.notes(), ["good"], "no body ran");

    // The row is mended.
    damage(&db, bad.id(), "error = NULL, available_at = 0").await;
    assert_eq!(bad.result().await.unwrap(), "bad");
    worker.stop().await;
}

pub async fn a_list_shows_rows_with_the_reasons(db: Live) {
    let bad = db.client.start(order, "bad".into()).await.unwrap();
    let good = db.client.start(order, "good".into()).tag("region", "eu").await.unwrap();
    damage(&db, bad.id(), &format!("error = '{LATER}'")).await;
    if db.database == Database::Sqlite {
        // A text that is not UTF-8, and ids that are no UUIDs.
        damage(&db, bad.id(), "key = CAST(x'ff' AS TEXT), worker_id = 'x', parent_run_id = 'y'").await;
    }
    let runs = db.client.list(&RunFilter::new()).await.unwrap();
    assert_eq!(runs.iter().map(|run| run.id).collect::<Vec<_>>(), [good.id(), bad.id()]);
    assert_eq!(runs[0].unreadable, Vec::<String>::new());
    let reasons = runs[1].unreadable.join("\n");
    assert!(reasons.contains("error: this release does not know the kind of error"), "{reasons}");
    let error = runs[1].error.as_ref().unwrap();
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Unknown, "a reason"));
    if db.database == Database::Sqlite {
        for column in ["key: ", "worker_id: ", "parent: "] {
            assert!(reasons.contains(column), "{column:?} is not in {reasons}");
        }
        damage(&db, bad.id(), "key = NULL, worker_id = NULL, parent_run_id = NULL").await;
    }
}

pub async fn a_run_without_a_lane_is_shown_and_reached_by_its_id(db: Live) {
    let run = db.client.start(order, "x".into()).await.unwrap();
    damage(&db, run.id(), "lane_id = 1000000").await;
    let shown = db.client.list(&RunFilter::new()).await.unwrap().remove(0);
    assert_eq!((shown.id, shown.lane.workflow.as_str(), shown.lane.queue.as_str()), (run.id(), "order", ""));
    assert!(shown.unreadable.join("\n").contains("lane_id: there is no such lane"), "{:?}", shown.unreadable);
    assert!(run.cancel().await.is_ok());
    assert_eq!(run.status().await.unwrap(), RunStatus::Canceled);
}

pub async fn an_unreadable_end_reaches_only_its_waiters(db: Live) {
    let bad = db.client.start(order, "bad".into()).await.unwrap();
    let good = db.client.start(order, "good".into()).await.unwrap();
    damage(&db, bad.id(), &format!("error = '{LATER}', status = 'failed', completed_at = 1")).await;
    let error = failure(bad.result().await);
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Unknown, "a reason"));
    damage(&db, good.id(), "output = '7', status = 'succeeded', completed_at = 1").await;
    assert!(matches!(good.result().await, Err(ClientError::Decode { .. })));
}

pub async fn a_step_error_of_an_unknown_kind_parks_its_run(db: Live) {
    #[workflow(name = "order")]
    async fn handles(ctx: &Ctx<Probe>, name: String) -> Result<String> {
        let failed = ctx.step("fails", async || Err::<(), _>(Error::fatal("no"))).await;
        ctx.signal::<()>("go").await?;
        ctx.step("note", async || Ok::<_, Error>(ctx.state().note(&name))).await?;
        Ok(format!("{:?}", failed.map_err(|error| error.kind())))
    }
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).linger(std::time::Duration::ZERO).register(handles));
    let run = db.client.start(handles, "x".into()).await.unwrap();
    reaches(&run, RunStatus::Parked).await;
    let set = async |error: &str| {
        let error = format!("UPDATE step_attempts SET error = '{error}' WHERE step_key = 'fails'");
        db.raw().await.execute(error).await;
    };
    set(LATER).await;
    run.signal("go", &()).await.unwrap();
    let reason = diverges(&run).await;
    assert!(reason.contains("step \"fails\"") && reason.contains("from_a_later_release"), "{reason}");
    assert_eq!(probe.notes(), [] as [&str; 0], "no body ran");
    set(r#"{"kind":"application","message":"no"}"#).await;
    damage(&db, run.id(), "available_at = 0").await;
    assert_eq!(run.result().await.unwrap(), "Err(Application)");
    worker.stop().await;
}

pub async fn a_parent_waits_for_a_worker_that_understands_the_error_of_its_child(db: Live) {
    #[workflow(name = "parent")]
    async fn parent(ctx: &Ctx<Probe>) -> Result<String> {
        let child = ctx.child(order, "child".into()).await;
        Ok(format!("{:?}", child.map_err(|error| error.kind())))
    }
    let worker = LocalWorker::start(db.worker(Probe::new()).linger(std::time::Duration::ZERO).register(parent));
    let run = db.client.start(parent, ()).await.unwrap();
    reaches(&run, RunStatus::Parked).await;
    let end = |error: &str| {
        format!(
            "UPDATE workflow_runs SET error = '{error}', status = 'failed', completed_at = 1 WHERE workflow_name = 'order'"
        )
    };
    db.raw().await.execute(end(LATER)).await;
    damage(&db, run.id(), "available_at = 0").await;
    let reason = diverges(&run).await;
    assert!(reason.contains("from_a_later_release"), "{reason}");
    db.raw().await.execute(end(r#"{"kind":"application","message":"no"}"#)).await;
    damage(&db, run.id(), "available_at = 0").await;
    assert_eq!(run.result().await.unwrap(), "Err(Application)");
    worker.stop().await;
}
