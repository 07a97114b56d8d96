use std::time::Duration;

use workflow_engine::model::WorkerId;
use workflow_sdk::prelude::*;
use workflow_sdk::{CancelOutcome, ClientError, RunId};
use workflow_tests::{Live, LocalWorker, Probe};

use crate::reaches;

const HOUR: Duration = Duration::from_secs(3600);

#[workflow]
async fn endless(ctx: &Ctx<Probe>) -> Result<()> {
    let _dropped = ctx.state().on_drop("workflow dropped");
    let body = async || {
        let _dropped = ctx.state().on_drop("body dropped");
        ctx.state().note("begun");
        Ok::<_, Error>(std::future::pending::<()>().await)
    };
    ctx.step("wait", body).await
}

#[workflow]
async fn asleep(ctx: &Ctx<Probe>) -> Result<()> {
    ctx.state().note("called");
    ctx.sleep(HOUR).await
}

async fn is_canceled<O: serde::de::DeserializeOwned + std::fmt::Debug>(run: &workflow_sdk::RunHandle<O>) {
    let error = run.result().await.unwrap_err();
    assert!(matches!(error, ClientError::RunCanceled { run_id } if run_id == run.id()), "{error}");
    assert_eq!(error.to_string(), format!("run {} was canceled", run.id()));
    let row = run.run().await.unwrap();
    assert_eq!((row.status, row.worker_id, row.error), (RunStatus::Canceled, None::<WorkerId>, None));
    assert!(row.cancel_requested_at.is_some() && row.completed_at.is_some());
}

pub async fn a_pending_run_is_canceled_at_once(db: Live) {
    for start in [db.client.start(endless, ()), db.client.start(endless, ()).delay(HOUR)] {
        let run = start.await.unwrap();
        assert_eq!(run.cancel().await.unwrap(), CancelOutcome::Canceled);
        is_canceled(&run).await;
    }
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(endless).register(asleep));
    let last = db.client.start(asleep, ()).await.unwrap();
    probe.noted("called").await;
    assert_eq!(probe.times("begun"), 0, "a canceled run is not claimed");
    last.cancel().await.unwrap();
    worker.stop().await;
}

pub async fn a_parked_run_wakes_to_be_canceled(db: Live) {
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(asleep));
    let run = db.client.start(asleep, ()).await.unwrap();
    reaches(&run, RunStatus::Parked).await;
    assert_eq!(run.cancel().await.unwrap(), CancelOutcome::Requested);
    is_canceled(&run).await;
    assert_eq!(probe.times("called"), 2, "the canceled run is called again, to clean up");
    worker.stop().await;
}

pub async fn a_running_run_is_dropped_and_ends_canceled(db: Live) {
    let probe = Probe::new();
    // No heartbeat and no grace period ends while the case runs, so the cancel reaches the worker
    // because the worker is in the same process.
    let worker = db.worker(probe.clone()).register(endless).lease(HOUR).cancel_grace(HOUR);
    let worker = LocalWorker::start(worker);
    let run = db.client.start(endless, ()).await.unwrap();
    probe.noted("begun").await;
    assert_eq!(run.cancel().await.unwrap(), CancelOutcome::Requested);
    is_canceled(&run).await;
    assert_eq!(probe.notes(), ["begun", "body dropped", "workflow dropped"]);
    worker.stop().await;
}

pub async fn another_process_cancels_before_a_heartbeat(db: Live) {
    let probe = Probe::new();
    // No heartbeat and no grace period ends while the case runs, so a hint brings the cancel.
    let worker = db.worker(probe.clone()).register(endless).lease(HOUR).cancel_grace(HOUR);
    let worker = LocalWorker::start(worker);
    let run = db.client.start(endless, ()).await.unwrap();
    probe.noted("begun").await;
    let other = db.second_client().await.handle::<()>(run.id()).await.unwrap();
    assert_eq!(other.cancel().await.unwrap(), CancelOutcome::Requested);
    is_canceled(&other).await;
    assert_eq!(probe.notes(), ["begun", "body dropped", "workflow dropped"]);
    worker.stop().await;
}

pub async fn a_run_that_lingers_in_memory_is_canceled(db: Live) {
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(asleep).linger(2 * HOUR));
    let run = db.client.start(asleep, ()).await.unwrap();
    probe.noted("called").await;
    run.cancel().await.unwrap();
    is_canceled(&run).await;
    worker.stop().await;
}

#[workflow]
async fn signal_and_sleep(ctx: &Ctx<Probe>) -> Result<()> {
    ctx.step("gate", async || {
        ctx.state().note("begun");
        ctx.state().pass("open").await;
        Ok::<_, Error>(())
    })
    .await?;
    ctx.signal::<u64>("paid").await?;
    ctx.sleep(HOUR).await
}

/// The wake count that is read with the inbox includes the cancel. A drive that parks with this
/// count must therefore have seen the cancel.
pub async fn a_cancel_before_the_first_wait_for_a_signal_is_not_lost(db: Live) {
    let probe = Probe::new();
    let elsewhere = db.second_client().await;
    // With the default lease, a heartbeat would take ten seconds, and by then the run would be
    // parked.
    let worker = LocalWorker::start(db.worker(probe.clone()).register(signal_and_sleep).linger(Duration::ZERO));
    let run = db.client.start(signal_and_sleep, ()).await.unwrap();
    probe.noted("begun").await;
    elsewhere.signal(run.id(), "paid", &1_u64).await.unwrap();
    assert_eq!(elsewhere.cancel(run.id()).await.unwrap(), CancelOutcome::Requested);
    probe.open("open");
    is_canceled(&run).await;
    worker.stop().await;
}

pub async fn the_cancel_of_an_ended_run_says_how_it_ended(db: Live) {
    #[workflow]
    async fn ends(ctx: &Ctx, well: bool) -> Result<()> {
        let _ = ctx;
        if well { Ok(()) } else { Err(Error::msg("badly")) }
    }
    let worker = LocalWorker::start(db.worker(()).register(ends));
    for (well, status) in [(true, RunStatus::Succeeded), (false, RunStatus::Failed)] {
        let run = db.client.start(ends, well).await.unwrap();
        assert_eq!(run.result().await.is_ok(), well);
        let before = run.run().await.unwrap();
        assert_eq!(run.cancel().await.unwrap(), CancelOutcome::Ended(status));
        assert_eq!(run.run().await.unwrap(), before, "nothing was changed");
    }
    let run = db.client.start(ends, true).delay(HOUR).await.unwrap();
    assert_eq!(run.cancel().await.unwrap(), CancelOutcome::Canceled);
    assert_eq!(run.cancel().await.unwrap(), CancelOutcome::Ended(RunStatus::Canceled));
    worker.stop().await;
}

pub async fn a_cancel_races_with_the_end(db: Live) {
    #[workflow]
    async fn short(ctx: &Ctx) -> Result<u32> {
        ctx.step("one", async || Ok::<_, Error>(1)).await?;
        ctx.step("two", async || Ok::<_, Error>(2)).await
    }
    let worker = LocalWorker::start(db.worker(()).register(short).concurrency(20));
    let runs = db.client.start_many(short, [(); 100]).await.unwrap();
    let other = db.second_client().await;
    // Two clients cancel from the last run to the first, and the worker starts at the first run.
    let cancels = runs.iter().rev().enumerate().map(|(n, run)| {
        let client = if n % 2 == 0 { db.client.clone() } else { other.clone() };
        let id = run.id();
        tokio::spawn(async move { (id, client.cancel(id).await.unwrap()) })
    });
    let cancels: Vec<_> = cancels.collect();
    let mut answers = std::collections::HashMap::<RunId, CancelOutcome>::new();
    for cancel in cancels {
        let (id, answer) = cancel.await.unwrap();
        answers.insert(id, answer);
    }
    for run in &runs {
        let result = run.result().await;
        let status = run.status().await.unwrap();
        match (answers[&run.id()], status) {
            (CancelOutcome::Canceled | CancelOutcome::Requested, RunStatus::Canceled)
            | (CancelOutcome::Requested | CancelOutcome::Ended(RunStatus::Succeeded), RunStatus::Succeeded) => {}
            other => panic!("{other:?}"),
        }
        match result {
            Ok(output) => assert_eq!((output, status), (2, RunStatus::Succeeded)),
            Err(ClientError::RunCanceled { .. }) => assert_eq!(status, RunStatus::Canceled),
            Err(error) => panic!("{error}"),
        }
    }
    worker.stop().await;
    for run in runs {
        let row = run.run().await.unwrap();
        assert_eq!(row.output.is_some(), row.status == RunStatus::Succeeded);
        assert_eq!(
            run.cancel().await.unwrap(),
            CancelOutcome::Ended(row.status),
            "the status of an ended run does not change"
        );
    }
}
