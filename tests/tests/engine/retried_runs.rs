//! The children, timeouts and sleeps of a run that is tried again.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use workflow_sdk::prelude::*;
use workflow_sdk::{AttemptStatus, ErrorKind, RunFilter, RunId, RunSummary, RunsWith, StoredError, Workflow};
use workflow_tests::{Live, LocalWorker, Probe};
use workflow_worker::Worker;

use super::{failure, holds, reaches};

const HOUR: Duration = Duration::from_secs(3600);
const KEY: &str = "refund-42";

/// Fails unless the cause was mended.
fn needs_mending(probe: &Probe, note: &str) -> Result<usize> {
    let times = probe.count(note);
    if probe.times("mended") == 0 { Err(Error::msg("no luck")) } else { Ok(times) }
}

#[workflow]
async fn refund(ctx: &Ctx<Probe>, _cents: u64) -> Result<usize> {
    ctx.step("pay", async || needs_mending(ctx.state(), "pay")).retry(Retry::none()).await
}

/// Refunds with a child, and reports that.
#[workflow]
async fn give_back(ctx: &Ctx<Probe>, keyed: bool) -> Result<usize> {
    let child = ctx.child(refund, 100);
    let paid = if keyed { child.key(KEY).await? } else { child.await? };
    ctx.step("report", async || ok(ctx.state().count("report"))).await?;
    Ok(paid)
}

fn worker(db: &Live, probe: &Probe) -> Worker<Probe> {
    db.worker(probe.clone()).register(refund).register(give_back).linger(Duration::ZERO)
}

/// Returns the runs of a workflow, the oldest first.
async fn runs_of(db: &Live, workflow: &str) -> Vec<RunSummary> {
    let mut runs = db.client.list(&RunFilter::new().workflow(workflow)).await.unwrap();
    runs.sort_by_key(|run| run.id);
    runs
}

/// Returns attempt, status and whether there is an outcome, of each row of a step.
async fn rows_of<O>(run: &RunHandle<O>, step_key: &str) -> Vec<(i64, AttemptStatus, bool)> {
    let rows = run.history().await.unwrap().into_iter().filter(|row| row.step_key == step_key);
    let mut rows: Vec<_> = rows.map(|row| (row.attempt, row.status, row.position.is_some())).collect();
    rows.sort_by_key(|row| row.0);
    rows
}

pub async fn a_retry_starts_a_failed_child_anew(db: Live) {
    for (keyed, number) in [(false, 0), (true, 1)] {
        let probe = Probe::new();
        let working = LocalWorker::start(worker(&db, &probe));
        let run = db.client.start(give_back, keyed).await.unwrap();
        assert_eq!(failure(run.result().await).message, "no luck");
        assert_eq!(failure(run.retry().await.unwrap().result().await).message, "no luck");
        probe.note("mended");
        assert_eq!(run.retry().await.unwrap().result().await.unwrap(), 3, "each attempt has a child of its own");
        let (failed, succeeded) = (AttemptStatus::Failed, AttemptStatus::Succeeded);
        assert_eq!(rows_of(&run, "refund").await, [(1, failed, false), (2, failed, false), (3, succeeded, true)]);
        let children = runs_of(&db, "refund").await.split_off(3 * number);
        let key = keyed.then(|| KEY.to_owned());
        assert_eq!(children.iter().map(|child| child.key.clone()).collect::<Vec<_>>(), [None, None, key]);

        // A fork takes what the last child has returned.
        let fork = db.client.fork(run.id()).from("report").await.unwrap();
        assert_eq!(fork.result().await.unwrap(), json!(3));
        assert_eq!((probe.times("pay"), probe.times("report")), (3, 2));
        // A fork from the child has a child of its own.
        let fork = db.client.fork(run.id()).from("refund").input(&false).await.unwrap();
        assert_eq!(fork.result().await.unwrap(), json!(4));
        db.client.delete(runs_of(&db, "refund").await.pop().unwrap().id).await.unwrap();
        working.stop().await;
    }
}

/// A child that an operator has retried before its parent has done its work.
pub async fn a_retry_takes_the_output_of_a_child_that_was_retried(db: Live) {
    let probe = Probe::new();
    let working = LocalWorker::start(worker(&db, &probe));
    let run = db.client.start(give_back, true).await.unwrap();
    failure(run.result().await);
    probe.note("mended");
    let child = runs_of(&db, "refund").await[0].id;
    assert_eq!(db.client.retry(child).await.unwrap().result().await.unwrap(), json!(2));
    assert_eq!(run.retry().await.unwrap().result().await.unwrap(), 2);
    assert_eq!(runs_of(&db, "refund").await.len(), 1);
    assert_eq!(probe.times("pay"), 2);
    working.stop().await;
}

/// Refunds with a child.
#[workflow(retry = Retry::fixed(Duration::from_millis(1)).max_attempts(3))]
async fn patient(ctx: &Ctx<Probe>) -> Result<usize> {
    if ctx.attempt() == 3 {
        ctx.state().note("mended");
    }
    ctx.child(refund, 100).key(KEY).await
}

pub async fn a_policy_starts_a_failed_child_anew(db: Live) {
    let probe = Probe::new();
    let working = LocalWorker::start(worker(&db, &probe).register(patient));
    let run = db.client.start(patient, ()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 3);
    let children = runs_of(&db, "refund").await;
    assert_eq!(children.iter().map(|child| child.key.is_some()).collect::<Vec<_>>(), [false, false, true]);
    working.stop().await;
}

/// The key of a run that no step of this run has started is not taken, whatever has become of it.
pub async fn a_retry_starts_a_detached_child_whose_key_was_taken(db: Live) {
    #[workflow]
    async fn detaches(ctx: &Ctx<Probe>) -> Result<RunId> {
        Ok(ctx.child(refund, 100).key(KEY).detach().await?.id())
    }
    let probe = Probe::new();
    let other = db.client.start(refund, 1).key(KEY).await.unwrap();
    other.cancel().await.unwrap();
    let working = LocalWorker::start(worker(&db, &probe).register(detaches));
    let run = db.client.start(detaches, ()).await.unwrap();
    let refused = |error: StoredError| {
        assert_eq!(error.kind, ErrorKind::Refused);
        assert!(error.message.contains(&format!("belongs to run {}", other.id())), "{error}");
    };
    refused(failure(run.result().await));
    refused(failure(run.retry().await.unwrap().result().await));
    db.client.delete(other.id()).await.unwrap();
    probe.note("mended");
    let child = run.retry().await.unwrap().result().await.unwrap();
    assert_eq!(db.client.run(child).await.unwrap().key.as_deref(), Some(KEY));
    working.stop().await;
}

#[workflow]
async fn waits(ctx: &Ctx) -> Result<u64> {
    Ok(ctx.signal::<u64>("go").await?.unwrap_or_default())
}

/// Waits for a child beside a step that fails until it is mended.
async fn check_beside_a_child(ctx: &Ctx<Probe>) -> Result<u64> {
    let check = ctx.step("check", async || needs_mending(ctx.state(), "check")).retry(Retry::none());
    // The step begins once the child waits.
    let check = async {
        ctx.step("begun", async || ok(ctx.state().pass("waits").await)).await?;
        check.await
    };
    let (value, _) = futures::try_join!(ctx.child(waits, ()), check)?;
    Ok(value)
}

#[workflow]
async fn checks(ctx: &Ctx<Probe>) -> Result<u64> {
    check_beside_a_child(ctx).await
}

pub async fn a_retry_starts_a_canceled_child_anew(db: Live) {
    let probe = Probe::new();
    let working = LocalWorker::start(db.worker(probe.clone()).register(checks));
    let child_worker = LocalWorker::start(db.worker(()).register(waits).linger(Duration::ZERO));
    let run = db.client.start(checks, ()).await.unwrap();
    holds("the child is started", async || !runs_of(&db, "waits").await.is_empty()).await;
    let child = db.client.handle::<u64>(runs_of(&db, "waits").await[0].id).await.unwrap();
    reaches(&child, RunStatus::Parked).await;
    probe.open("waits");
    assert_eq!(failure(run.result().await).step_key.as_deref(), Some("check"));
    probe.note("mended");
    // At once: the child that was told to end may not have ended.
    run.retry().await.unwrap();
    holds("another child is started", async || runs_of(&db, "waits").await.len() == 2).await;
    reaches(&child, RunStatus::Canceled).await;
    let second = runs_of(&db, "waits").await[1].id;
    db.client.signal(second, "go", &7_u64).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 7);
    working.stop().await;
    child_worker.stop().await;
}

/// [`checks`] with a policy, which lets the child go on.
#[workflow(retry = Retry::fixed(Duration::ZERO).max_attempts(2))]
async fn checks_again(ctx: &Ctx<Probe>) -> Result<u64> {
    if ctx.attempt() == 2 {
        ctx.state().note("mended");
    }
    check_beside_a_child(ctx).await
}

pub async fn a_retried_run_awaits_a_child_that_goes_on(db: Live) {
    let probe = Probe::new();
    let working = LocalWorker::start(db.worker(probe.clone()).register(checks_again).linger(Duration::ZERO));
    let child_worker = LocalWorker::start(db.worker(()).register(waits));
    let run = db.client.start(checks_again, ()).await.unwrap();
    holds("the child is started", async || !runs_of(&db, "waits").await.is_empty()).await;
    probe.open("waits");
    holds("the second attempt waits", async || {
        let run = run.run().await.unwrap();
        (run.attempt, run.status) == (2, RunStatus::Parked)
    })
    .await;
    let why = run.explain().await.unwrap().to_string();
    assert!(why.contains("waits"), "{why}");
    db.client.signal(runs_of(&db, "waits").await[0].id, "go", &7_u64).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 7);
    assert_eq!(runs_of(&db, "waits").await.len(), 1);
    working.stop().await;
    child_worker.stop().await;
}

async fn charge_in_time(ctx: &Ctx<Probe>) -> Result<usize> {
    let charge = ctx.step("charge", async || needs_mending(ctx.state(), "charge")).retry(Retry::none());
    let nap = ctx.sleep(HOUR);
    let charge = ctx.timeout(HOUR, charge);
    let either = futures::future::select(charge, nap).await;
    match either {
        futures::future::Either::Left((charged, _)) => charged,
        futures::future::Either::Right(_) => Err(Error::msg("slept")),
    }
}

#[workflow]
async fn charges(ctx: &Ctx<Probe>) -> Result<usize> {
    charge_in_time(ctx).await
}

struct ChargesLater;

impl Workflow for ChargesLater {
    type State = Probe;
    type Input = ();
    type Output = usize;
    const NAME: &'static str = "charges-later";
    const VERSION: &'static str = "1";
    const RETRY: Option<Retry> = Some(Retry::fixed(HOUR));

    async fn run(ctx: &Ctx<Probe>, _: ()) -> Result<usize> {
        charge_in_time(ctx).await
    }
}

impl RunsWith<Probe> for ChargesLater {
    fn project(worker: &Arc<Probe>) -> Arc<Probe> {
        Arc::clone(worker)
    }
}

/// Lets the ends of open sleeps be long past.
const PASS: &str = "UPDATE step_attempts SET output = '1' WHERE kind = 'sleep' AND status = 'running'";

async fn ended_in_time(run: &RunHandle<usize>) {
    assert_eq!(run.result().await.unwrap(), 2);
    for step_key in ["timeout", "sleep"] {
        let rows = rows_of(run, step_key).await;
        assert_eq!(rows, [(1, AttemptStatus::Succeeded, false), (2, AttemptStatus::Running, false)], "{step_key}");
    }
}

pub async fn the_timeouts_and_sleeps_of_a_retried_run_begin_anew(db: Live) {
    let probe = Probe::new();
    let working = LocalWorker::start(db.worker(probe.clone()).register(charges));
    let run = db.client.start(charges, ()).await.unwrap();
    failure(run.result().await);
    working.stop().await;
    probe.note("mended");
    db.raw().await.execute(PASS).await;
    run.retry().await.unwrap();
    let working = LocalWorker::start(db.worker(probe.clone()).register(charges));
    ended_in_time(&run).await;
    working.stop().await;
}

pub async fn a_policy_lets_timeouts_and_sleeps_begin_anew(db: Live) {
    let probe = Probe::new();
    let working = LocalWorker::start(db.worker(probe.clone()).register(ChargesLater));
    let run = db.client.start(ChargesLater, ()).await.unwrap();
    holds("the run waits for its second attempt", async || run.run().await.unwrap().attempt == 2).await;
    working.stop().await;
    probe.note("mended");
    let mut raw = db.raw().await;
    raw.execute(PASS).await;
    raw.execute("UPDATE workflow_runs SET available_at = 1").await;
    let working = LocalWorker::start(db.worker(probe.clone()).register(ChargesLater));
    ended_in_time(&run).await;
    working.stop().await;
}
