use std::sync::Arc;
use std::time::Duration;

use workflow_sdk::prelude::*;
use workflow_sdk::{Client, DEFAULT_PAYLOAD_LIMIT, RunStatus};
use workflow_tests::{EventRecorder, FaultyStore, Live, LocalWorker, until};
use workflow_worker::Worker;

use crate::reaches;

const GO: Signal<u32> = Signal::new("go");

/// The due runs of one workflow.
const FLOOD: usize = 200;

/// The most runs that are claimed before every lane had its turn: the worker has two permits, two
/// claims under way, and three lanes.
const FEW: usize = 12;

#[workflow]
async fn flood(_: &Ctx, number: usize) -> Result<usize> {
    Ok(number)
}

#[workflow]
async fn lone(_: &Ctx) -> Result<()> {
    Ok(())
}

#[workflow]
async fn patient(ctx: &Ctx) -> Result<u32> {
    Ok(ctx.signal(GO).await?.unwrap_or_default())
}

fn worker(client: Client) -> LocalWorker {
    LocalWorker::start(Worker::new(client, ()).register(flood).register(lone).register(patient).concurrency(2))
}

pub async fn claims_take_turns_over_the_workflows_of_a_worker(db: Live) {
    let woken = db.client.start(patient, ()).await.unwrap();
    let first = worker(db.client.clone());
    reaches(&woken, RunStatus::Parked).await;
    first.stop().await;

    // The due runs of one workflow come before the run of another one, and before the signal.
    for number in 0..FLOOD {
        db.client.start(flood, number).await.unwrap();
    }
    let new = db.client.start(lone, ()).await.unwrap();
    woken.signal(GO, &7).await.unwrap();

    let recorder = EventRecorder::new();
    let client = db.connect().observer(recorder.clone()).await.unwrap();
    let second = worker(client);
    assert_eq!(woken.result().await.unwrap(), 7);
    new.result().await.unwrap();
    for run in [new.id(), woken.id()] {
        let before = recorder.runs_with("run_claimed").iter().take_while(|claimed| **claimed != run).count();
        assert!(before < FEW, "{before} of {FLOOD} runs were claimed before a run of another workflow");
    }
    second.stop().await;
}

/// The worker polls after the end of the test, so it must be told of each start.
pub async fn starts_of_another_process_need_no_poll(db: Live) {
    let worker = LocalWorker::start(db.worker(()).register(flood).poll_interval(Duration::from_secs(3600)));
    let other = db.second_client().await;
    for number in 0..20 {
        assert_eq!(other.start(flood, number).await.unwrap().result().await.unwrap(), number);
    }
    worker.stop().await;
}

/// A hint does not say which worker of a process can use it, so each one hears it.
pub async fn each_worker_of_a_process_hears_of_starts_of_another_one(db: Live) {
    let worker = || db.worker(()).poll_interval(Duration::from_secs(3600));
    let workers = [LocalWorker::start(worker().register(flood)), LocalWorker::start(worker().register(lone))];
    let other = db.second_client().await;
    for number in 0..20 {
        assert_eq!(other.start(flood, number).await.unwrap().result().await.unwrap(), number);
        other.start(lone, ()).await.unwrap().result().await.unwrap();
    }
    for worker in workers {
        worker.stop().await;
    }
}

/// The next due time of the last query still holds: nothing was put off meanwhile. A run that is
/// delayed needs a query at once.
pub async fn runs_one_after_the_other_need_no_query_for_due_runs(db: Live) {
    let store = Arc::new(FaultyStore::new(Arc::clone(db.client.store())));
    let client = Client::over(Arc::clone(&store) as _, DEFAULT_PAYLOAD_LIMIT);
    // No poll while the case runs.
    let worker = Worker::new(client.clone(), ()).register(flood).poll_interval(Duration::from_secs(600));
    let worker = LocalWorker::start(worker);
    until("the first query", async || (store.reads("next_due") > 0).then_some(())).await;
    for number in 0..100 {
        assert_eq!(client.start(flood, number).await.unwrap().result().await.unwrap(), number);
    }
    // On a busy machine a few runs leave the worker idle for long enough to ask.
    let queries = store.reads("next_due");
    assert!(queries < 20, "{queries} queries for 100 runs");
    let delayed = client.start(flood, 100).delay(Duration::from_millis(300)).await.unwrap();
    assert_eq!(delayed.result().await.unwrap(), 100, "it is found without a poll");
    worker.stop().await;
}
