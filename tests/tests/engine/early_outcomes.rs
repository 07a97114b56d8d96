//! Outcomes that a run sees before their commits, and the writes that depend on them.

use std::sync::Arc;

use workflow_engine::executor::Executor;
use workflow_engine::model::{Claim, WorkerId};
use workflow_engine::observe::Observers;
use workflow_engine::store::{Outcome, RunEnd, Store, Write};
use workflow_sdk::prelude::*;
use workflow_sdk::{DEFAULT_PAYLOAD_LIMIT, ErrorKind, RunId};
use workflow_tests::builders::{attempt, begun, claim_by, new_run, succeed, succeeded};
use workflow_tests::outcome::{claimed, created};
use workflow_tests::{FaultyStore, Live, LocalWorker, Probe};
use workflow_worker::Worker;

use crate::failure;

/// The value whose outcome the database refuses.
const REFUSED: u64 = 4711;

fn refusing(db: &Live) -> FaultyStore {
    let refused = REFUSED.to_string();
    let is_refused =
        move |write: &Write| matches!(write, Write::Attempt(write) if write.row.output.as_ref() == Some(&refused));
    FaultyStore::new(Arc::clone(db.client.store())).refuse(is_refused)
}

/// Starts and claims a run.
async fn claimed_run(store: &dyn Store) -> Claim {
    let run = new_run();
    let writes = [Write::Start(run.clone()), Write::Claim(claim_by(WorkerId::generate(), 1))];
    let mut outcomes = Vec::new();
    for write in writes {
        outcomes.extend(store.commit(&[write]).await.unwrap());
    }
    created(&outcomes[0]);
    let claim = claimed(outcomes.remove(1)).runs[0].claim;
    assert_eq!(claim.run_id, run.id);
    claim
}

async fn sent_together(executor: &Executor, writes: Vec<Write>) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for outcome in executor.reserve().await.unwrap().send_together(writes) {
        outcomes.push(outcome.await.unwrap());
    }
    outcomes
}

async fn status(db: &Live, run: RunId) -> RunStatus {
    db.client.run(run).await.unwrap().status
}

pub async fn writes_that_are_sent_together_are_committed_together(db: Live) {
    let store = Arc::new(FaultyStore::new(Arc::clone(db.client.store())));
    let claim = claimed_run(&**db.client.store()).await;
    let executor = Executor::start(Arc::clone(&store) as _, Observers::default());
    let outcomes = sent_together(&executor, vec![attempt(claim, succeeded("a", 1, "1")), succeed(claim, "1")]).await;
    assert!(matches!(outcomes[..], [Outcome::Applied, Outcome::Applied]), "{outcomes:?}");
    assert_eq!(store.batches(), [2]);
    assert_eq!(status(&db, claim.run_id).await, RunStatus::Succeeded);
}

pub async fn an_end_is_refused_with_the_outcome_before_it(db: Live) {
    let store = Arc::new(refusing(&db));
    let executor = Executor::start(Arc::clone(&store) as _, Observers::default());
    let (bad, good) = (claimed_run(&**db.client.store()).await, claimed_run(&**db.client.store()).await);
    let of_bad =
        vec![attempt(bad, succeeded("a", 1, &REFUSED.to_string())), attempt(bad, begun("nap")), succeed(bad, "1")];
    let of_good = vec![attempt(good, succeeded("a", 1, "1")), succeed(good, "1")];
    // Both are one batch, because the commit before it waits.
    let gate = store.block(|_| true);
    let first = executor.send(Write::Start(new_run())).await.unwrap();
    gate.reached().await;
    let (of_bad, of_good) = (sent_together(&executor, of_bad), sent_together(&executor, of_good));
    let opens = async {
        gate.open();
        created(&first.await.unwrap());
    };
    let (of_bad, of_good, ()) = futures::join!(of_bad, of_good, opens);
    assert_eq!(store.batches()[1], 5);
    assert!(of_bad.iter().all(|outcome| matches!(outcome, Outcome::Refused(_))), "{of_bad:?}");
    assert!(of_good.iter().all(|outcome| matches!(outcome, Outcome::Applied)), "{of_good:?}");
    assert_eq!(status(&db, bad.run_id).await, RunStatus::Running);
    assert_eq!(status(&db, good.run_id).await, RunStatus::Succeeded);
    assert!(db.client.store().history(bad.run_id).await.unwrap().is_empty());
}

#[workflow]
async fn number(ctx: &Ctx<Probe>, number: u64) -> Result<u64> {
    let number = ctx.step("number", async || Ok::<_, Error>(number)).await?;
    ctx.emit("log", "behind the step")?;
    Ok(number)
}

pub async fn a_run_fails_if_the_database_refuses_its_last_outcome(db: Live) {
    let store = Arc::new(refusing(&db));
    let client = Client::over(Arc::clone(&store) as _, DEFAULT_PAYLOAD_LIMIT);
    let worker = LocalWorker::start(Worker::new(client.clone(), Probe::new()).register(number));
    assert_eq!(client.start(number, 1).await.unwrap().result().await.unwrap(), 1);
    let run = client.start(number, REFUSED).await.unwrap();
    let error = failure(run.result().await);
    assert_eq!(error.kind, ErrorKind::Refused, "{error:?}");
    assert!(run.history().await.unwrap().is_empty(), "neither the outcome nor the item behind it is stored");
    worker.stop().await;
}

pub async fn a_run_fails_if_the_database_refuses_its_end(db: Live) {
    #[workflow]
    async fn without_steps(_: &Ctx, number: u64) -> Result<u64> {
        Ok(number)
    }
    let refused = RunEnd::Succeeded(REFUSED.to_string());
    let is_refused = move |write: &Write| matches!(write, Write::End(write) if write.end == refused);
    let store = FaultyStore::new(Arc::clone(db.client.store())).refuse(is_refused);
    let client = Client::over(Arc::new(store) as _, DEFAULT_PAYLOAD_LIMIT);
    let worker = LocalWorker::start(Worker::new(client.clone(), ()).register(without_steps));
    let error = failure(client.start(without_steps, REFUSED).await.unwrap().result().await);
    assert_eq!(error.kind, ErrorKind::Refused, "{error:?}");
    worker.stop().await;
}

#[workflow]
async fn awaits_something_foreign(ctx: &Ctx<Probe>, number: u64) -> Result<u64> {
    let probe = ctx.state().clone();
    let number = ctx.step("number", async || Ok::<_, Error>(number)).await?;
    probe.pass("foreign").await;
    probe.note("returns");
    Ok(number)
}

pub async fn a_run_does_not_end_while_an_outcome_that_it_has_seen_is_sent(db: Live) {
    let store = Arc::new(refusing(&db));
    let client = Client::over(Arc::clone(&store) as _, DEFAULT_PAYLOAD_LIMIT);
    let probe = Probe::new();
    let worker = LocalWorker::start(Worker::new(client.clone(), probe.clone()).register(awaits_something_foreign));
    let gate = store.block(|write| matches!(write, Write::Attempt(_)));
    let run = client.start(awaits_something_foreign, REFUSED).await.unwrap();
    gate.reached().await;
    probe.open("foreign");
    probe.noted("returns").await;
    gate.open();
    let error = failure(run.result().await);
    assert_eq!(error.kind, ErrorKind::Refused, "{error:?}");
    worker.stop().await;
}
