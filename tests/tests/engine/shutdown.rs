use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use workflow_engine::store::Write;
use workflow_sdk::prelude::*;
use workflow_sdk::{AttemptStatus, DEFAULT_PAYLOAD_LIMIT, Timestamp};
use workflow_tests::{FaultyStore, Live, LocalWorker, Probe, until};
use workflow_worker::Worker;

/// The gate at which the first step waits.
const GATE: &str = "gate";

#[workflow]
async fn steps(ctx: &Ctx<Probe>) -> Result<usize> {
    let probe = ctx.state();
    let first = async || {
        let _dropped = probe.on_drop("first dropped");
        let count = probe.count("first");
        probe.pass(GATE).await;
        Ok::<_, Error>(count)
    };
    let first = ctx.step("first", first).await?;
    ctx.step("second", async || Ok::<_, Error>(first + 10 * probe.count("second"))).await
}

async fn is_given_back<O>(run: &RunHandle<O>) {
    let row = run.run().await.unwrap();
    assert_eq!((row.status, row.worker_id, row.crashes), (RunStatus::Parked, None, 0));
    assert!(
        row.available_at <= Timestamp::from(std::time::SystemTime::now()),
        "another worker may claim the run at once"
    );
    assert_eq!(row.error, None);
}

pub async fn a_running_step_ends_and_the_rest_is_given_back(db: Live) {
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(steps));
    let run = db.client.start(steps, ()).await.unwrap();
    probe.noted("first").await;
    let ended = worker.ask().await;
    let late = db.client.start(steps, ()).await.unwrap();
    assert!(!ended.is_finished(), "the worker waits for its step");
    probe.open(GATE);
    ended.await.unwrap().unwrap();
    is_given_back(&run).await;
    let history = run.history().await.unwrap();
    assert_eq!(history.len(), 1);
    assert_eq!((history[0].step_key.as_str(), history[0].status), ("first", AttemptStatus::Succeeded));
    assert_eq!(probe.times("second"), 0, "no further step begins");

    // Another process resumes the run and repeats no finished step.
    let next = Worker::new(db.second_client().await, probe.clone()).register(steps);
    let next = LocalWorker::start(next);
    assert_eq!(run.result().await.unwrap() % 10, 1, "the value of the first run of the step");
    late.result().await.unwrap();
    assert_eq!((probe.times("first"), probe.times("second")), (2, 2), "each of two runs ran each step once");
    next.stop().await;
}

#[workflow]
async fn quick(ctx: &Ctx<Probe>) -> Result<usize> {
    ctx.step("quick", async || Ok::<_, Error>(ctx.state().count("quick"))).await
}

pub async fn nothing_is_claimed_while_steps_end(db: Live) {
    let (stopping, working) = (Probe::new(), Probe::new());
    let worker = LocalWorker::start(db.worker(stopping.clone()).register(steps).register(quick));
    let run = db.client.start(steps, ()).await.unwrap();
    stopping.noted("first").await;
    let ended = worker.ask().await;
    let other = Worker::new(db.second_client().await, working.clone()).register(quick);
    let other = LocalWorker::start(other);
    // The stopping worker is notified of these runs first, because its own process starts
    // them.
    for n in 1..=10 {
        let next = db.client.start(quick, ()).await.unwrap();
        assert_eq!(next.result().await.unwrap(), n);
    }
    assert_eq!((working.times("quick"), stopping.times("quick")), (10, 0));
    assert!(!ended.is_finished());
    stopping.open(GATE);
    ended.await.unwrap().unwrap();
    is_given_back(&run).await;
    other.stop().await;
}

/// Returns the number of writes that wait for the next batch.
fn queued(client: &Client) -> usize {
    let shown = format!("{:?}", client.executor());
    shown.chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap()
}

pub async fn a_claim_in_flight_at_shutdown_is_given_back(db: Live) {
    let store = Arc::new(FaultyStore::new(Arc::clone(db.client.store())));
    let client = Client::over(Arc::clone(&store) as _, DEFAULT_PAYLOAD_LIMIT);
    let probe = Probe::new();
    let worker = Worker::new(client.clone(), probe.clone()).register(quick).poll_interval(Duration::from_millis(20));
    let worker = LocalWorker::start(worker);
    client.start(quick, ()).await.unwrap().result().await.unwrap();

    // While a commit is in flight, the worker sends a claim and is stopped. The claim and the
    // release of the claims are then in one batch.
    let gate = store.block(|write| matches!(write, Write::Start(_)));
    let blocked = tokio::spawn(client.start(quick, ()).delay(Duration::from_secs(3600)).into_future());
    gate.reached().await;
    let run = db.client.start(quick, ()).await.unwrap();
    until("the claim is queued", async || (queued(&client) > 0).then_some(())).await;
    let ended = worker.ask().await;
    until("the release is queued", async || (queued(&client) > 1).then_some(())).await;
    gate.open();
    ended.await.unwrap().unwrap();
    blocked.await.unwrap().unwrap();
    let row = run.run().await.unwrap();
    assert_eq!(row.worker_id, None, "the claim of the stopped worker is given back");
    assert_eq!((row.crashes, probe.times("quick")), (0, 1));

    let next = LocalWorker::start(db.worker(probe.clone()).register(quick));
    assert_eq!(run.result().await.unwrap(), 2);
    assert_eq!(run.run().await.unwrap().crashes, 0);
    next.stop().await;
}

pub async fn a_step_that_outlasts_the_grace_is_dropped(db: Live) {
    let probe = Probe::new();
    let worker = db.worker(probe.clone()).register(steps).grace(Duration::from_millis(100));
    let worker = LocalWorker::start(worker);
    let run = db.client.start(steps, ()).await.unwrap();
    probe.noted("first").await;
    worker.stop().await;
    assert_eq!(probe.notes(), ["first", "first dropped"]);
    is_given_back(&run).await;

    probe.open(GATE);
    let next = LocalWorker::start(db.worker(probe.clone()).register(steps));
    assert_eq!(run.result().await.unwrap(), 12, "the dropped step ran again");
    assert_eq!(run.run().await.unwrap().crashes, 0);
    next.stop().await;
}

pub async fn a_dropped_worker_gives_its_runs_back(db: Live) {
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(steps));
    let run = db.client.start(steps, ()).await.unwrap();
    probe.noted("first").await;
    worker.abort().await;
    crate::reaches(&run, RunStatus::Parked).await;
    is_given_back(&run).await;
    assert_eq!(probe.notes(), ["first", "first dropped"]);

    probe.open(GATE);
    let next = LocalWorker::start(db.worker(probe.clone()).register(steps));
    assert_eq!(run.result().await.unwrap(), 12);
    next.stop().await;
}

pub async fn a_run_that_lingers_is_given_back_at_once(db: Live) {
    #[workflow]
    async fn asleep(ctx: &Ctx<Probe>) -> Result<()> {
        ctx.state().note("asleep");
        ctx.sleep(Duration::from_secs(3)).await
    }
    let probe = Probe::new();
    let worker = db.worker(probe.clone()).register(asleep).linger(Duration::from_secs(3600));
    let worker = LocalWorker::start(worker);
    let run = db.client.start(asleep, ()).await.unwrap();
    probe.noted("asleep").await;
    worker.stop().await;
    assert_eq!((run.status().await.unwrap(), run.run().await.unwrap().crashes), (RunStatus::Parked, 0));
    let begun = run.history().await.unwrap();

    let next = LocalWorker::start(db.worker(probe.clone()).register(asleep));
    run.result().await.unwrap();
    let ended = run.history().await.unwrap();
    assert_eq!((ended.len(), ended[0].started_at), (1, begun[0].started_at), "the sleep began once");
    assert_eq!(ended[0].output, begun[0].output, "the sleep ends at its original time");
    next.stop().await;
}

pub async fn an_idle_worker_stops_at_once(db: Live) {
    // None of the times for which a worker could wait ends while the case runs.
    const HOUR: Duration = Duration::from_secs(3600);
    let worker = db.worker(Probe::new()).register(quick).poll_interval(HOUR).lease(HOUR).grace(HOUR);
    let worker = LocalWorker::start(worker);
    db.client.start(quick, ()).await.unwrap().result().await.unwrap();
    worker.stop().await;
    let left = db.raw().await.number("SELECT count(*) FROM workflow_workers").await;
    assert_eq!(left, 0, "the worker removes its record");
}
