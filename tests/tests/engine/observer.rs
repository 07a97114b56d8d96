use std::time::Duration;

use workflow_engine::model::{Retention, WorkerId};
use workflow_sdk::prelude::*;
use workflow_tests::log_capture::log_lines;
use workflow_tests::{EventRecorder, Live, LocalWorker};
use workflow_worker::Worker;

const GO: Signal<u32> = Signal::new("go");

/// Returns a worker whose runs do not linger, on a client with this observer.
async fn observed(db: &Live, events: &EventRecorder) -> (Client, Worker<()>) {
    let client = db.connect().observer(events.clone()).await.unwrap();
    let worker = Worker::new(client.clone(), ()).linger(Duration::ZERO);
    (client, worker)
}

pub async fn every_event_of_a_run_comes_once_and_in_order(db: Live) {
    #[workflow]
    async fn observed_run(ctx: &Ctx) -> Result<u32> {
        ctx.step("good", async || Ok::<_, Error>(())).await?;
        let flaky = async || if ctx.attempt() == 1 { Err("no luck") } else { Ok(1) };
        ctx.step("flaky", flaky).retry(Retry::fixed(Duration::ZERO).max_attempts(2)).await?;
        ctx.transaction("rows", async |_tx: Tx| Ok::<_, Error>(())).await?;
        Ok(ctx.signal(GO).await?.unwrap_or_default())
    }
    let events = EventRecorder::new();
    let (client, worker) = observed(&db, &events).await;
    let worker = LocalWorker::start(worker.register(observed_run));
    let run = client.start(observed_run, ()).await.unwrap();
    events.wait_for(run.id(), "run_parked").await;
    run.signal(GO, &7).await.unwrap();
    events.wait_for(run.id(), "run_ended succeeded").await;
    // The next attempt may begin before the row of a failed one is committed.
    let (mut flaky, others): (Vec<_>, Vec<_>) =
        events.of(run.id()).into_iter().partition(|event| event.ends_with(" flaky"));
    flaky.sort();
    assert_eq!(flaky, ["step_begun flaky", "step_begun flaky", "step_ended flaky", "step_retried flaky"]);
    assert_eq!(
        others,
        [
            "run_started",
            "run_claimed",
            "step_begun good",
            "step_ended good",
            "step_begun rows",
            "step_ended rows",
            "run_parked",
            "run_claimed",
            "run_woken",
            "step_ended go",
            "run_ended succeeded",
        ]
    );
    worker.stop().await;
}

pub async fn failures_and_cancels_are_observed(db: Live) {
    #[workflow]
    async fn failing_run(_ctx: &Ctx) -> Result<()> {
        Err(Error::fatal("no luck"))
    }
    #[workflow]
    async fn waiting_run(ctx: &Ctx) -> Result<()> {
        ctx.sleep(Duration::from_secs(3600)).await
    }
    let events = EventRecorder::new();
    let (client, worker) = observed(&db, &events).await;
    let worker = LocalWorker::start(worker.register(failing_run).register(waiting_run));
    let failed = client.start(failing_run, ()).await.unwrap();
    events.wait_for(failed.id(), "run_ended failed").await;
    assert_eq!(events.of(failed.id()), ["run_started", "run_claimed", "run_ended failed"]);
    let canceled = client.start(waiting_run, ()).await.unwrap();
    events.wait_for(canceled.id(), "run_parked").await;
    canceled.cancel().await.unwrap();
    events.wait_for(canceled.id(), "run_ended canceled").await;
    worker.stop().await;
}

pub async fn the_line_of_a_failed_run_names_its_step_and_attempt(db: Live) {
    #[workflow(retry = Retry::fixed(Duration::ZERO).max_attempts(2))]
    async fn declined_run(ctx: &Ctx) -> Result<()> {
        ctx.step("charge", async || Err::<(), _>("no luck")).retry(Retry::none()).await
    }
    #[workflow]
    async fn hopeless_run(_ctx: &Ctx) -> Result<()> {
        Err(Error::fatal("no luck"))
    }
    let events = EventRecorder::new();
    let (client, worker) = observed(&db, &events).await;
    let worker = LocalWorker::start(worker.register(declined_run).register(hopeless_run));
    let declined = client.start(declined_run, ()).await.unwrap();
    events.wait_for(declined.id(), "run_ended failed").await;
    let of_step = ["WARN", "run failed run_id", "step=\"charge\"", "attempt=2", "error=application", "duration="];
    assert_eq!(lines_of(declined.id(), &of_step).len(), 1, "{:?}", lines_of(declined.id(), &["WARN"]));
    let hopeless = client.start(hopeless_run, ()).await.unwrap();
    events.wait_for(hopeless.id(), "run_ended failed").await;
    let lines = lines_of(hopeless.id(), &["WARN", "run failed run_id", "attempt=1"]);
    assert!(lines.len() == 1 && !lines[0].contains("step="), "{lines:?}");
    worker.stop().await;
}

/// Returns the lines of the log about this run that contain all of these texts.
fn lines_of(run: RunId, texts: &[&str]) -> Vec<String> {
    let id = run.to_string();
    log_lines(texts).into_iter().filter(|line| line.contains(&id)).collect()
}

/// A worker has died while it held the run: its lock is free.
pub async fn a_run_that_is_taken_over_is_reported_with_its_crashes(db: Live) {
    #[workflow]
    async fn orphaned_run(_ctx: &Ctx) -> Result<()> {
        Ok(())
    }
    let events = EventRecorder::new();
    let (client, worker) = observed(&db, &events).await;
    let run = client.start(orphaned_run, ()).await.unwrap();
    let dead = WorkerId::generate();
    drop(client.store().open_lease(dead, &[], &Retention::default()).await.unwrap());
    let claim = format!(
        "UPDATE workflow_runs SET status = 'running', worker_id = '{dead}', epoch = 1, rank = 0,
         started_at = created_at, available_at = available_at + 3600000000"
    );
    db.raw().await.execute(claim).await;
    let worker = LocalWorker::start(worker.register(orphaned_run));
    events.wait_for(run.id(), "run_ended succeeded").await;
    assert_eq!(events.of(run.id()), ["run_started", "run_claimed", "run_taken_over", "run_ended succeeded"]);
    let lines = lines_of(run.id(), &["INFO", "run taken over: its last worker died"]);
    assert!(lines.len() == 1 && lines[0].contains("crashes=1"), "{lines:?}");
    worker.stop().await;
}

/// The lease of one run has ended, and its worker may live. The other run was given back after its
/// worker had died once.
pub async fn a_run_is_taken_over_if_a_worker_held_it_whatever_its_crashes(db: Live) {
    #[workflow]
    async fn left_run(_ctx: &Ctx) -> Result<()> {
        Ok(())
    }
    let events = EventRecorder::new();
    let (client, worker) = observed(&db, &events).await;
    let (lapsed, given_back) = (client.start(left_run, ()).await.unwrap(), client.start(left_run, ()).await.unwrap());
    let held = format!("status = 'running', worker_id = '{}'", WorkerId::generate());
    for (run, change) in [(&lapsed, held.as_str()), (&given_back, "status = 'parked', crashes = 1")] {
        let id = run.id();
        let columns = "epoch = 1, rank = 0, started_at = created_at";
        db.raw().await.execute(format!("UPDATE workflow_runs SET {change}, {columns} WHERE id = '{id}'")).await;
    }
    let worker = LocalWorker::start(worker.register(left_run));
    for (run, event) in [(lapsed, "run_taken_over"), (given_back, "run_woken")] {
        events.wait_for(run.id(), "run_ended succeeded").await;
        assert_eq!(events.of(run.id()), ["run_started", "run_claimed", event, "run_ended succeeded"]);
    }
    worker.stop().await;
}

pub async fn a_run_that_diverges_is_reported_to_observers(db: Live) {
    mod old {
        use workflow_sdk::prelude::*;
        #[workflow(name = "renamed_step")]
        pub async fn renamed_step(ctx: &Ctx) -> Result<()> {
            ctx.step("charge", async || Ok::<_, Error>(())).await?;
            ctx.sleep(std::time::Duration::from_secs(3)).await
        }
    }
    #[workflow(name = "renamed_step")]
    async fn renamed_step(ctx: &Ctx) -> Result<()> {
        ctx.step("pay", async || Ok::<_, Error>(())).await?;
        ctx.sleep(Duration::from_secs(3)).await
    }
    let events = EventRecorder::new();
    let (client, worker) = observed(&db, &events).await;
    let worker = LocalWorker::start(worker.register(old::renamed_step));
    let run = client.start(old::renamed_step, ()).await.unwrap();
    events.wait_for(run.id(), "run_parked").await;
    worker.stop().await;
    let worker = Worker::new(client.clone(), ()).linger(Duration::ZERO);
    let worker = LocalWorker::start(worker.register(renamed_step));
    events.wait_for(run.id(), "run_diverged").await;
    worker.stop().await;
    client.terminate(run.id()).await.unwrap();
}
