use std::time::Duration;

use futures::StreamExt;
use workflow_sdk::prelude::*;
use workflow_sdk::{ClientError, ErrorKind, OnParentEnd, RunId};
use workflow_tests::{Live, LocalWorker, Probe, until};

use crate::retry::{checkout, failed};
use crate::{failure, reaches};

const HOUR: Duration = Duration::from_secs(3600);

#[track_caller]
fn unknown<T: std::fmt::Debug>(result: Result<T, ClientError>, id: RunId) {
    assert!(matches!(result, Err(ClientError::UnknownRun { run_id }) if run_id == id), "{result:?}");
}

pub async fn every_call_says_that_a_deleted_run_is_gone(db: Live) {
    let probe = Probe::new();
    let run = failed(&db, &probe).await;
    let second = db.second_client().await;
    let deleted = run.delete().await.unwrap();
    assert_eq!((deleted.attempts, deleted.signals), (2, 0));
    for client in [&db.client, &second] {
        unknown(client.handle::<()>(run.id()).await, run.id());
        unknown(client.explain(run.id()).await, run.id());
        unknown(client.history(run.id()).await, run.id());
        unknown(client.export(run.id()).await, run.id());
        unknown(client.signal(run.id(), "paid", &1).await, run.id());
        unknown(client.cancel(run.id()).await, run.id());
        unknown(client.terminate(run.id()).await, run.id());
        unknown(client.pause(run.id()).await, run.id());
        unknown(client.resume(run.id()).await, run.id());
        unknown(client.retry(run.id()).await, run.id());
        unknown(client.fork(run.id()).from("charge").await, run.id());
        unknown(client.state::<u64>(run.id(), "progress").await, run.id());
        unknown(client.delete(run.id()).await, run.id());
        assert!(client.find(checkout, "order-42").await.unwrap().is_none());
    }
    unknown(run.result().await, run.id());
    let mut stream = std::pin::pin!(run.stream::<u64>("items"));
    unknown(stream.next().await.unwrap(), run.id());
    let error = run.status().await.unwrap_err().to_string();
    assert!(error.contains("it may have been deleted"), "{error}");

    let again = db.client.start(checkout, 7).key("order-42").await.unwrap();
    assert!(!again.existed() && again.id() != run.id(), "the key is free");
}

#[workflow]
async fn unserved(ctx: &Ctx<Probe>) -> Result<()> {
    ctx.sleep(HOUR).await
}

/// Waits that have begun end, in whichever order they learn of the end and of the deletion.
pub async fn a_wait_for_a_deleted_run_ends(db: Live) {
    let second = db.second_client().await;
    let run = db.client.start(unserved, ()).await.unwrap();
    let elsewhere = second.handle::<()>(run.id()).await.unwrap();
    let (mut here, mut there) = (Box::pin(run.result()), Box::pin(elsewhere.result()));
    assert!(futures::poll!(&mut here).is_pending() && futures::poll!(&mut there).is_pending());
    run.cancel().await.unwrap();
    run.delete().await.unwrap();
    for result in <[_; 2]>::from(futures::join!(here, there)) {
        let is_told =
            |error: &ClientError| matches!(error, ClientError::UnknownRun { .. } | ClientError::RunCanceled { .. });
        assert!(result.as_ref().is_err_and(is_told), "{result:?}");
    }
}

#[workflow]
async fn child(ctx: &Ctx<Probe>) -> Result<u64> {
    ctx.step("child", async || ok(7)).await
}

/// Waits for a child, then for a signal, and fails.
#[workflow]
async fn parent(ctx: &Ctx<Probe>) -> Result<u64> {
    let value = ctx.child(child, ()).await?;
    ctx.signal::<()>("go").await?;
    Ok(value)
}

pub async fn a_run_that_is_needed_is_not_deleted(db: Live) {
    let probe = Probe::new();
    let of_parent = LocalWorker::start(db.worker(probe.clone()).register(parent).linger(Duration::ZERO));
    let run = db.client.start(parent, ()).await.unwrap();
    reaches(&run, RunStatus::Parked).await;
    let error = run.delete().await.unwrap_err();
    assert!(matches!(error, ClientError::NotEnded { status: RunStatus::Parked, .. }), "{error:?}");
    let text = "is parked, and only a run that has ended can be deleted; wait for its end, or cancel it first";
    assert!(error.to_string().ends_with(text), "{error}");
    of_parent.stop().await;

    let filter = RunFilter::new().parent(run.id());
    let started = db.client.list(&filter).await.unwrap()[0].id;
    let of_child = LocalWorker::start(db.worker(probe.clone()).register(child));
    let started = db.client.handle::<u64>(started).await.unwrap();
    assert_eq!(started.result().await.unwrap(), 7);
    of_child.stop().await;
    let error = started.delete().await.unwrap_err();
    assert!(matches!(error, ClientError::StillAwaited { parent, .. } if parent == run.id()), "{error:?}");
    let text = "has not received its result yet; delete it once the parent has gone on or has ended";
    assert!(error.to_string().ends_with(text), "{error}");

    // The parent has the result and waits for something else.
    let working = LocalWorker::start(db.worker(probe).register(parent).linger(Duration::ZERO));
    until("the parent has its result", async || {
        let rows = run.history().await.ok()?;
        rows.iter().any(|row| row.step_key == "child" && row.position.is_some()).then_some(())
    })
    .await;
    started.delete().await.unwrap();
    run.signal("go", &()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 7, "the parent has what it needs");
    run.delete().await.unwrap();
    working.stop().await;
}

/// Fails beside a child, until the probe has the note "healed".
#[workflow]
async fn fails_beside_child(ctx: &Ctx<Probe>) -> Result<String> {
    let probe = ctx.state();
    let body = async || {
        probe.pass("gate").await;
        if probe.times("healed") == 0 { Err(Error::msg("no luck")) } else { Ok(()) }
    };
    let fails = ctx.step("fails", body).retry(Retry::none());
    let waits = async {
        let end = ctx.child(child, ()).on_parent_end(OnParentEnd::Abandon).await;
        Ok(end.map_or_else(|error| error.kind().to_string(), |value| value.to_string()))
    };
    let ((), end) = futures::try_join!(fails, waits)?;
    Ok(end)
}

pub async fn a_parent_that_is_tried_again_learns_that_its_child_was_deleted(db: Live) {
    let probe = Probe::new();
    let working = LocalWorker::start(db.worker(probe.clone()).register(fails_beside_child));
    let run = db.client.start(fails_beside_child, ()).await.unwrap();
    let filter = RunFilter::new().parent(run.id());
    let id = until("the child exists", async || Some(db.client.list(&filter).await.ok()?.first()?.id)).await;
    probe.open("gate");
    failure(run.result().await);
    db.client.cancel(id).await.unwrap();
    db.client.delete(id).await.unwrap();

    probe.note("healed");
    run.retry().await.unwrap();
    assert_eq!(run.result().await.unwrap(), ErrorKind::ChildMissing.to_string());
    working.stop().await;
}
