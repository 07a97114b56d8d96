use std::time::Duration;

use workflow_sdk::prelude::*;
use workflow_sdk::{CancelOutcome, ClientError, PauseOutcome, ResumeOutcome, RunId};
use workflow_tests::{Live, LocalWorker, Probe, until};

use crate::reaches;

const HOUR: Duration = Duration::from_secs(3600);

#[workflow]
async fn two_steps(ctx: &Ctx<Probe>) -> Result<usize> {
    let probe = ctx.state();
    let one = async || {
        probe.note("one begins");
        probe.pass("one").await;
        Ok::<_, Error>(probe.count("one ends"))
    };
    let one = ctx.step("one", one).await?;
    let two = ctx.step("two", async || Ok::<_, Error>(probe.count("two"))).await?;
    Ok(one + two)
}

async fn is_given_back<O>(run: &RunHandle<O>) {
    until("the paused run is given back", async || run.run().await.unwrap().worker_id.is_none().then_some(())).await;
}

pub async fn a_paused_run_finishes_its_running_steps_and_begins_no_others(db: Live) {
    let probe = Probe::new();
    // With the default lease, a heartbeat would take ten seconds.
    let worker = LocalWorker::start(db.worker(probe.clone()).register(two_steps));
    let run = db.client.start(two_steps, ()).await.unwrap();
    probe.noted("one begins").await;
    assert_eq!(run.pause().await.unwrap(), PauseOutcome::Requested);
    let why = run.explain().await.unwrap().to_string();
    let row = run.run().await.unwrap();
    let (since, holder) = (row.paused_at.unwrap(), row.worker_id.unwrap());
    assert_eq!(why, format!("the run is paused since {since}, and worker {holder} lets its running steps end"));

    probe.open("one");
    is_given_back(&run).await;
    assert_eq!(probe.notes(), ["one begins", "one ends"], "the outcome was recorded, and no other step began");
    assert!(run.history().await.unwrap().iter().any(|row| row.step_key == "one" && row.position == Some(1)));
    assert_eq!(run.pause().await.unwrap(), PauseOutcome::Paused);
    let why = run.explain().await.unwrap().to_string();
    assert_eq!(why, format!("the run is paused since {since}; resume it to let it go on"));

    assert_eq!(run.resume().await.unwrap(), ResumeOutcome::Resumed);
    assert_eq!(run.result().await.unwrap(), 2);
    worker.stop().await;
    assert_eq!(probe.notes(), ["one begins", "one ends", "two"]);
    assert_eq!(run.run().await.unwrap().crashes, 0);
}

pub async fn another_process_pauses_within_a_heartbeat(db: Live) {
    let probe = Probe::new();
    let lease = Duration::from_secs(3);
    let worker = db.worker(probe.clone()).register(two_steps).lease(lease);
    let worker = LocalWorker::start(worker);
    let run = db.client.start(two_steps, ()).await.unwrap();
    probe.noted("one begins").await;
    let other = db.second_client().await;
    assert_eq!(other.pause(run.id()).await.unwrap(), PauseOutcome::Requested);
    // The worker sees the pause after a hint, or when it renews its lease, which it does
    // repeatedly.
    let before = run.run().await.unwrap().available_at;
    until("two renewals", async || (run.run().await.unwrap().available_at > before + lease * 2 / 3).then_some(()))
        .await;
    probe.open("one");
    is_given_back(&run).await;
    assert_eq!(probe.times("two"), 0);
    assert_eq!(other.resume(run.id()).await.unwrap(), ResumeOutcome::Resumed);
    assert_eq!(run.result().await.unwrap(), 2);
    worker.stop().await;
}

pub async fn another_process_pauses_before_a_heartbeat(db: Live) {
    const STEPS: usize = 1000;
    #[workflow]
    async fn many_steps(ctx: &Ctx<Probe>) -> Result<()> {
        for _ in 0..STEPS {
            let body = async || {
                ctx.state().note("works");
                tokio::time::sleep(Duration::from_millis(20)).await;
                Ok::<_, Error>(())
            };
            ctx.step("work", body).await?;
        }
        Ok(())
    }
    let probe = Probe::new();
    // No heartbeat ends while the case runs.
    let worker = LocalWorker::start(db.worker(probe.clone()).register(many_steps).lease(HOUR));
    let run = db.client.start(many_steps, ()).await.unwrap();
    probe.noted("works").await;
    // As a command does, the client ends when it has its answer.
    assert_eq!(db.second_client().await.pause(run.id()).await.unwrap(), PauseOutcome::Requested);
    is_given_back(&run).await;
    assert_eq!(run.status().await.unwrap(), RunStatus::Parked, "after {} steps", probe.times("works"));
    worker.stop().await;
}

pub async fn a_pending_run_waits_until_it_is_resumed(db: Live) {
    #[workflow]
    async fn quick(ctx: &Ctx<Probe>, n: u32) -> Result<u32> {
        ctx.state().note(n.to_string());
        Ok(n)
    }
    let probe = Probe::new();
    let run = db.client.start(quick, 1).await.unwrap();
    assert_eq!(run.pause().await.unwrap(), PauseOutcome::Paused);
    let worker = LocalWorker::start(db.worker(probe.clone()).register(quick));
    // Runs are claimed in the order in which they became due.
    assert_eq!(db.client.start(quick, 2).await.unwrap().result().await.unwrap(), 2);
    assert_eq!((probe.times("1"), run.status().await.unwrap()), (0, RunStatus::Pending));
    assert_eq!(db.client.resume(run.id()).await.unwrap(), ResumeOutcome::Resumed);
    assert_eq!(run.result().await.unwrap(), 1);
    assert_eq!(run.pause().await.unwrap(), PauseOutcome::Ended(RunStatus::Succeeded));
    assert_eq!(run.resume().await.unwrap(), ResumeOutcome::Ended(RunStatus::Succeeded));
    worker.stop().await;
}

pub async fn a_sleep_continues_while_its_run_is_paused(db: Live) {
    #[workflow]
    async fn naps(ctx: &Ctx<Probe>) -> Result<()> {
        // Long enough to be seen parked on a busy machine.
        ctx.sleep(Duration::from_secs(3)).await?;
        ctx.state().note("awake");
        Ok(())
    }
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(naps).linger(Duration::ZERO));
    let run = db.client.start(naps, ()).await.unwrap();
    reaches(&run, RunStatus::Parked).await;
    run.pause().await.unwrap();
    let wakes_at = run.run().await.unwrap().available_at;
    until("the sleep is over", async || (db.client.store().now().await.unwrap() > wakes_at).then_some(())).await;
    assert_eq!(probe.times("awake"), 0);
    run.resume().await.unwrap();
    run.result().await.unwrap();
    worker.stop().await;
}

pub async fn a_paused_run_can_be_canceled(db: Live) {
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(two_steps));
    let pending = db.client.start(two_steps, ()).delay(HOUR).await.unwrap();
    pending.pause().await.unwrap();
    assert_eq!(pending.cancel().await.unwrap(), CancelOutcome::Canceled);
    let running = db.client.start(two_steps, ()).await.unwrap();
    probe.noted("one begins").await;
    running.pause().await.unwrap();
    assert_eq!(running.cancel().await.unwrap(), CancelOutcome::Requested);
    for run in [pending, running] {
        assert!(matches!(run.result().await, Err(ClientError::RunCanceled { .. })));
        assert_eq!(run.run().await.unwrap().paused_at, None);
    }
    worker.stop().await;
}

pub async fn an_unknown_run_cannot_be_paused(db: Live) {
    let id = RunId::generate();
    assert!(matches!(db.client.pause(id).await, Err(ClientError::UnknownRun { run_id }) if run_id == id));
    assert!(matches!(db.client.resume(id).await, Err(ClientError::UnknownRun { run_id }) if run_id == id));
    assert!(matches!(db.client.explain(id).await, Err(ClientError::UnknownRun { run_id }) if run_id == id));
}
