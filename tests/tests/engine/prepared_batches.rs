//! Batches that the executor prepares, and sends, before it has read the result of the previous
//! batch.

use std::sync::Arc;

use tokio::runtime::Builder;
use workflow_engine::executor::Executor;
use workflow_engine::model::{Claim, WorkerId};
use workflow_engine::store::{Outcome, Write};
use workflow_sdk::prelude::*;
use workflow_sdk::{Connect, DEFAULT_PAYLOAD_LIMIT, DatabaseErrorKind};
use workflow_tests::builders::{attempt, claim_by, new_run, succeeded};
use workflow_tests::faulty::Fault;
use workflow_tests::outcome::{claimed, one};
use workflow_tests::{Database, FaultyStore, Live, LocalWorker, Probe, until};
use workflow_worker::Worker;

/// More writes than the executor treats as a large batch.
const MANY: usize = 100;

fn step(claim: Claim, key: &str) -> Write {
    attempt(claim, succeeded(key, 1, "1"))
}

fn is_step(key: &'static str) -> impl Fn(&Write) -> bool {
    move |write| matches!(write, Write::Attempt(write) if write.row.step_key == key)
}

/// While the commit of the writes "held" is blocked, all tasks whose "first" was committed send
/// "second".
pub async fn a_prepared_batch_is_committed_once(db: Live) {
    let (connect, database) = (db.connect(), db.database);
    // On one thread all tasks have their turn before the executor prepares the next batch.
    let on_one_thread = move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(make_ready_while_one_is_held(connect, database));
    };
    tokio::task::spawn_blocking(on_one_thread).await.unwrap();
}

async fn make_ready_while_one_is_held(connect: Connect, database: Database) {
    let client = connect.await.unwrap();
    let (inner, worker) = (Arc::clone(client.store()), WorkerId::generate());
    let _lease = inner.open_lease(worker, &[]).await.unwrap();
    let starts: Vec<Write> = (0..MANY).map(|_| Write::Start(new_run())).collect();
    inner.commit(&starts).await.unwrap();
    let runs = claimed(one(inner.commit(&[Write::Claim(claim_by(worker, 1000))]).await.unwrap())).runs;
    let claims: Vec<Claim> = runs.iter().map(|run| run.claim).collect();

    let store = Arc::new(FaultyStore::new(inner));
    let executor = Executor::start(Arc::clone(&store) as _);
    let opener = store.block(is_step("opener"));
    let opened = executor.send(step(claims[0], "opener")).await.unwrap();
    opener.reached().await;
    let mut both = Vec::new();
    for claim in claims.clone() {
        let (executor, first) = (executor.clone(), executor.send(step(claim, "first")).await.unwrap());
        both.push(tokio::spawn(async move {
            let outcome = first.await.unwrap();
            assert!(matches!(outcome, Outcome::Applied), "{outcome:?}");
            executor.commit(step(claim, "second")).await.unwrap()
        }));
    }
    let first = store.block(is_step("first"));
    opener.open();
    first.reached().await;
    // Enough writes for a batch of their own: the executor sends it before it answers the writers
    // of "first".
    let mut held = Vec::new();
    for claim in &claims[..MANY / 2] {
        held.push(executor.send(step(*claim, "held")).await.unwrap());
    }
    let gate = store.block(is_step("held"));
    store.fail_next(is_step("second"), Fault::After(DatabaseErrorKind::Unreachable));
    first.open();
    gate.reached().await;
    if database == Database::Postgres {
        until("a batch is prepared", async || (store.prepared() == 1).then_some(())).await;
    }
    gate.open();
    for outcome in [opened].into_iter().chain(held) {
        assert!(matches!(outcome.await.unwrap(), Outcome::Applied));
    }
    for outcome in both {
        let outcome = outcome.await.unwrap();
        assert!(matches!(outcome, Outcome::Applied | Outcome::Duplicate), "{outcome:?}");
    }
    assert_eq!((store.faults_left(), store.prepared() > 0), (0, database == Database::Postgres));
    for claim in claims {
        let keys = client.store().history(claim.run_id).await.unwrap();
        assert_eq!(keys.iter().filter(|row| row.step_key == "second").count(), 1, "{keys:?}");
    }
}

#[workflow]
async fn noted(ctx: &Ctx<Probe>, n: u32) -> Result<u32> {
    for _ in 0..4 {
        ctx.step("note", async || Ok::<_, Error>(ctx.state().note(format!("run {n}")))).await?;
    }
    Ok(n)
}

/// Runs enough workflows at once that batches are prepared. Every kind of write loses a reply,
/// and some writes are refused.
pub async fn hundreds_of_runs_survive_a_failing_database(db: Live) {
    let store = Arc::new(FaultyStore::new(Arc::clone(db.client.store())));
    let client = Client::over(Arc::clone(&store) as _, DEFAULT_PAYLOAD_LIMIT);
    let runs = client.start_many(noted, 0..600).await.unwrap();
    let fails = |with: fn(&Write) -> bool, fault| store.fail_next(with, fault);
    for kind in [DatabaseErrorKind::Unreachable, DatabaseErrorKind::Busy, DatabaseErrorKind::Unreachable] {
        fails(|write| matches!(write, Write::Attempt(_)), Fault::After(kind));
        fails(|write| matches!(write, Write::Attempt(_)), Fault::Before(kind));
        fails(|write| matches!(write, Write::End(_)), Fault::After(kind));
        fails(|write| matches!(write, Write::End(_)), Fault::Before(DatabaseErrorKind::Invalid));
    }
    let probe = Probe::new();
    let worker = LocalWorker::start(Worker::new(client.clone(), probe.clone()).register(noted).concurrency(300));
    for (n, run) in (0..).zip(&runs) {
        assert_eq!(run.result().await.unwrap(), n);
        assert_eq!(probe.times(&format!("run {n}")), 4, "each body ran once");
        assert_eq!((run.history().await.unwrap().len(), run.run().await.unwrap().crashes), (4, 0));
    }
    assert_eq!(store.faults_left(), 0);
    worker.stop().await;
}
