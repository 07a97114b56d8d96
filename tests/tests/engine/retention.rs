use std::time::Duration;

use workflow_sdk::ClientError;
use workflow_sdk::prelude::*;
use workflow_tests::{Live, LocalWorker, Probe, until};
use workflow_worker::{PruneError, Pruned, Retain, WorkerError, prune};

const HOUR: Duration = Duration::from_secs(3600);

#[workflow]
async fn kept_an_hour(ctx: &Ctx<Probe>, fails: bool) -> Result<u32> {
    ctx.step("step", async || if fails { Err(Error::fatal("no luck")) } else { Ok(1) }).retry(Retry::none()).await
}

#[workflow]
async fn kept_for_ever(ctx: &Ctx<Probe>, fails: bool) -> Result<u32> {
    ctx.step("step", async || if fails { Err(Error::fatal("no luck")) } else { Ok(1) }).retry(Retry::none()).await
}

/// Moves the beginnings and ends of all runs back.
async fn age(db: &Live, by: Duration) {
    let micros = by.as_micros();
    db.raw()
        .await
        .execute(format!(
            "UPDATE workflow_runs SET created_at = created_at - {micros}, completed_at = completed_at - {micros}"
        ))
        .await;
}

pub async fn old_runs_are_deleted_and_others_stay(db: Live) {
    let probe = Probe::new();
    let working = LocalWorker::start(db.worker(probe.clone()).register(kept_an_hour).register(kept_for_ever));
    let start = async |fails| db.client.start(kept_an_hour, fails).await.unwrap();
    let (old, failed) = (start(false).await, start(true).await);
    let kept = db.client.start(kept_for_ever, false).await.unwrap();
    let canceled = db.client.start_by_name("no_code", &1.into()).await.unwrap();
    for run in [&old, &failed, &kept] {
        let _ = run.result().await;
    }
    canceled.cancel().await.unwrap();
    age(&db, 2 * HOUR).await;
    let young = start(false).await;
    young.result().await.unwrap();
    working.stop().await;

    let worker = db.worker(probe).register(kept_an_hour).register(kept_for_ever);
    let retain = Retain::forever().succeeded(HOUR).canceled(HOUR);
    let worker = worker.retain(retain).retain_workflow("kept_for_ever", Retain::forever());
    let working = LocalWorker::start(worker.retain_workflow("no_code", Retain::all(HOUR)));
    until("the old runs are deleted", async || {
        let left = db.client.list(&RunFilter::new()).await.ok()?;
        (left.len() <= 3).then_some(())
    })
    .await;
    for run in [old.status().await, canceled.status().await] {
        assert!(matches!(run, Err(ClientError::UnknownRun { .. })), "{run:?}");
    }
    assert_eq!(failed.status().await.unwrap(), RunStatus::Failed, "failed runs have no time");
    assert_eq!(kept.status().await.unwrap(), RunStatus::Succeeded, "its workflow has a time of its own");
    assert_eq!(young.status().await.unwrap(), RunStatus::Succeeded);
    working.stop().await;
}

pub async fn a_worker_that_keeps_runs_longer_protects_them(db: Live) {
    let probe = Probe::new();
    let worker = |retain| db.worker(probe.clone()).register(kept_an_hour).retain(retain);
    // Whichever has the lower id deletes.
    let hour = Retain::all(HOUR);
    let workers = [worker(hour), worker(hour.succeeded(3 * HOUR)), worker(hour)].map(LocalWorker::start);
    let run = db.client.start(kept_an_hour, false).await.unwrap();
    run.result().await.unwrap();
    let failed = db.client.start(kept_an_hour, true).await.unwrap();
    failed.result().await.unwrap_err();
    until("all workers are there", async || {
        let workers = db.client.store().workers().await.ok()?;
        (workers.len() == 3).then_some(())
    })
    .await;
    age(&db, 2 * HOUR).await;
    until("the failed run is deleted", async || failed.status().await.is_err().then_some(())).await;
    // The failed run went in the same look, after the succeeded one.
    assert_eq!(run.status().await.unwrap(), RunStatus::Succeeded);
    for worker in workers {
        worker.stop().await;
    }
}

pub async fn a_retention_out_of_range_is_refused(db: Live) {
    for bad in [Duration::ZERO, Duration::from_secs(59), Duration::MAX] {
        let worker = db.worker(Probe::new()).register(kept_an_hour).retain(Retain::forever().failed(bad));
        let error = worker.run_until(std::future::pending()).await.unwrap_err();
        assert!(matches!(error, WorkerError::OutOfRange { option: "retain", value, .. } if value == bad), "{error}");
    }
    let worker = db.worker(Probe::new()).register(kept_an_hour).retain_workflow("a\nb", Retain::forever());
    assert!(matches!(worker.run_until(std::future::pending()).await, Err(WorkerError::Name(_))));
}

pub async fn a_prune_deletes_once_what_no_worker_keeps(db: Live) {
    let refused = prune(&db.client, true).await.unwrap_err();
    assert!(matches!(refused, PruneError::NoRetention), "{refused:?}");
    let probe = Probe::new();
    let worker = |retain| db.worker(probe.clone()).register(kept_an_hour).retain(retain);
    let working = LocalWorker::start(db.worker(probe.clone()).register(kept_an_hour).register(kept_for_ever));
    let (old, failed) =
        (db.client.start(kept_an_hour, false).await.unwrap(), db.client.start(kept_an_hour, true).await.unwrap());
    let other = db.client.start(kept_for_ever, false).await.unwrap();
    for run in [&old, &failed, &other] {
        let _ = run.result().await;
    }
    age(&db, 2 * HOUR).await;
    let young = db.client.start(kept_an_hour, false).await.unwrap();
    young.result().await.unwrap();
    working.stop().await;

    let declared = worker(Retain::all(HOUR));
    let counted = declared.prune(true).await.unwrap();
    let each = |status| (("kept_an_hour".to_owned(), status), 1);
    assert_eq!(counted.old, [each(RunStatus::Succeeded), each(RunStatus::Failed)].into());
    assert_eq!((counted.deleted, counted.kept), (0, 0));
    assert_eq!(old.status().await.unwrap(), RunStatus::Succeeded, "a count deletes nothing");

    // A living worker keeps runs for longer.
    let patient = LocalWorker::start(worker(Retain::all(9 * HOUR)));
    until("the worker is there", async || {
        let workers = db.client.store().workers().await.ok()?;
        workers.iter().any(|worker| worker.live).then_some(())
    })
    .await;
    assert_eq!(declared.prune(false).await.unwrap(), Pruned::default());
    assert_eq!(prune(&db.client, false).await.unwrap(), Pruned::default());
    patient.stop().await;

    let pruned = declared.prune(false).await.unwrap();
    assert_eq!((pruned.old, pruned.deleted, pruned.kept), (counted.old, 2, 0));
    for deleted in [old.status().await, failed.status().await] {
        assert!(matches!(deleted, Err(ClientError::UnknownRun { .. })), "{deleted:?}");
    }
    for kept in [other.status().await, young.status().await] {
        assert_eq!(kept.unwrap(), RunStatus::Succeeded);
    }
    let refused = worker(Retain::all(Duration::ZERO)).prune(true).await.unwrap_err();
    assert!(matches!(refused, PruneError::Worker(WorkerError::OutOfRange { .. })), "{refused:?}");
}
