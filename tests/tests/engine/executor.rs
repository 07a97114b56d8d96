//! The executor over a store that fails on demand.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::time::Instant;
use workflow_engine::executor::{Executor, ExecutorStopped};
use workflow_engine::model::{Claim, NewRun, WorkerId};
use workflow_engine::observe::Observers;
use workflow_engine::store::{Outcome, RunEnd, StartOutcome, Write};
use workflow_sdk::prelude::*;
use workflow_sdk::{ClientError, DEFAULT_PAYLOAD_LIMIT, DatabaseErrorKind, RunFilter, RunId};
use workflow_tests::builders::{attempt, claim_by, end, end_in_family, new_run, succeeded};
use workflow_tests::faulty::Fault;
use workflow_tests::outcome::{claimed, created, one};
use workflow_tests::{FaultyStore, Live, LocalWorker, Probe, until};
use workflow_worker::{Worker, WorkerError};

fn faulty(db: &Live) -> FaultyStore {
    FaultyStore::new(Arc::clone(db.client.store()))
}

fn marked(mark: &str) -> NewRun {
    NewRun { input: format!("\"{mark}\""), ..new_run() }
}

fn is_bad(write: &Write) -> bool {
    matches!(write, Write::Start(run) if run.input == "\"bad\"")
}

/// Commits the writes in one batch: it sends them while the commit of an earlier write is
/// blocked.
async fn in_one_batch(store: &Arc<FaultyStore>, writes: Vec<Write>) -> Vec<Outcome> {
    let executor = Executor::start(Arc::clone(store) as _, Observers::default());
    let gate = store.block(|_| true);
    let first = executor.send(Write::Start(new_run())).await.unwrap();
    gate.reached().await;
    let mut pending = Vec::new();
    for write in writes {
        pending.push(executor.send(write).await.unwrap());
    }
    gate.open();
    created(&first.await.unwrap());
    let mut outcomes = Vec::new();
    for outcome in pending {
        outcomes.push(outcome.await.unwrap());
    }
    outcomes
}

pub async fn a_bad_write_does_not_fail_its_neighbours(db: Live) {
    let store = Arc::new(faulty(&db).refuse(is_bad));
    let runs: Vec<NewRun> = (0..100).map(|n| marked(if n == 37 || n == 64 { "bad" } else { "good" })).collect();
    let outcomes = in_one_batch(&store, runs.iter().cloned().map(Write::Start).collect()).await;
    for (n, (run, outcome)) in runs.iter().zip(&outcomes).enumerate() {
        let stored = db.client.store().run(run.id).await.unwrap().is_some();
        match outcome {
            Outcome::Started(StartOutcome::Created) => assert!(stored && n != 37 && n != 64, "{n}"),
            Outcome::Refused(error) => {
                assert!(!stored && (n == 37 || n == 64), "{n}");
                assert_eq!(error.kind, DatabaseErrorKind::Invalid);
                assert_eq!(error.to_string(), "commit: the database refused the data");
            }
            other => panic!("{n}: {other:?}"),
        }
    }
    let batches = store.batches();
    assert_eq!(batches[1], 100, "one commit has all writes: {batches:?}");
    assert!(batches.len() < 40, "the bad writes are found by halving the batch: {batches:?}");
}

pub async fn a_split_batch_keeps_the_order_of_its_writes(db: Live) {
    let store = Arc::new(faulty(&db).refuse(is_bad));
    let (first, second) = (new_run(), new_run());
    let writes = vec![
        Write::Start(first.clone()),
        Write::Cancel(first.id),
        Write::Start(marked("bad")),
        Write::Start(second.clone()),
        Write::Cancel(second.id),
    ];
    let outcomes = in_one_batch(&store, writes).await;
    let told: Vec<String> = outcomes.iter().map(|outcome| format!("{outcome:?}")).collect();
    created(&outcomes[0]);
    assert_eq!(told[1], "Canceled(Canceled)");
    assert!(matches!(&outcomes[2], Outcome::Refused(_)));
    created(&outcomes[3]);
    assert_eq!(told[4], "Canceled(Canceled)");
}

pub async fn a_commit_is_retried_after_a_transient_failure(db: Live) {
    let store = Arc::new(faulty(&db));
    for kind in [DatabaseErrorKind::Busy, DatabaseErrorKind::Unreachable, DatabaseErrorKind::ReadOnly] {
        store.fail_next(|write| matches!(write, Write::Start(_)), Fault::Before(kind));
    }
    let client = Client::over(Arc::clone(&store) as _, DEFAULT_PAYLOAD_LIMIT);
    #[workflow]
    async fn echo(ctx: &Ctx, text: String) -> Result<String> {
        let _ = ctx;
        Ok(text)
    }
    let run = client.start(echo, "a".into()).await.unwrap();
    assert_eq!((store.faults_left(), store.batches()), (0, vec![1, 1, 1, 1]));
    assert_eq!(run.status().await.unwrap(), RunStatus::Pending);
    assert_eq!(db.client.list(&RunFilter::new()).await.unwrap().len(), 1);
}

pub async fn a_commit_whose_reply_was_lost_is_applied_once(db: Live) {
    let store = Arc::new(faulty(&db));
    let executor = Executor::start(Arc::clone(&store) as _, Observers::default());
    let lose_reply = || store.fail_next(|_| true, Fault::After(DatabaseErrorKind::Unreachable));

    lose_reply();
    let run = NewRun { key: Some("k".into()), ..new_run() };
    created(&executor.commit(Write::Start(run.clone())).await.unwrap());
    let claim =
        claimed(one(db.client.store().commit(&[Write::Claim(claim_by(WorkerId::generate(), 10))]).await.unwrap()));
    let claim = claim.runs[0].claim;

    lose_reply();
    let step = executor.commit(attempt(claim, succeeded("step", 1, "1"))).await.unwrap();
    assert!(matches!(step, Outcome::Applied | Outcome::Duplicate), "{step:?}");
    lose_reply();
    let ended = executor.commit(end(claim, RunEnd::Succeeded("1".into()))).await.unwrap();
    assert!(!matches!(ended, Outcome::Refused(_)), "{ended:?}");
    assert_eq!(store.faults_left(), 0);

    let store = db.client.store();
    assert_eq!(store.list(&RunFilter::new()).await.unwrap().len(), 1);
    assert_eq!(store.history(run.id).await.unwrap().len(), 1);
    let row = store.run(run.id).await.unwrap().unwrap();
    assert_eq!((row.status, row.epoch, row.output.as_deref()), (RunStatus::Succeeded, 1, Some("1")));
}

pub async fn a_pending_claim_waits_for_a_due_run(db: Live) {
    let executor = Executor::start(Arc::clone(db.client.store()), Observers::default());
    let claim = claim_by(WorkerId::generate(), 10);
    assert!(executor.claim(claim.clone()).await.unwrap().await.unwrap().outcome.unwrap().runs.is_empty());
    let expire = Write::Expire { limit: 10, patience: Duration::ZERO };
    assert!(matches!(executor.commit(expire).await, Ok(Outcome::Changed(0))));
    let lost = end_in_family(Claim { run_id: RunId::generate(), epoch: 1 }, Some(RunId::generate()), true);
    assert!(matches!(executor.commit(lost).await, Ok(Outcome::Lost)));

    let mut pending = executor.wait_claim(claim.clone()).await.unwrap();
    for _ in 0..2 {
        executor.commit(Write::Pause(RunId::generate())).await.unwrap();
    }
    assert!(pending.try_recv().is_err(), "nothing has become due since the claim");
    let run = new_run();
    let begun = Instant::now();
    created(&executor.commit(Write::Start(run.clone())).await.unwrap());
    let answer = pending.await.unwrap();
    assert_eq!(answer.outcome.unwrap().runs[0].claim.run_id, run.id, "the commit that starts the run claims it");
    assert!(answer.begun >= begun, "the lease does not begin before the claim is committed");

    let mut pending = executor.wait_claim(claim.clone()).await.unwrap();
    executor.commit(Write::Pause(RunId::generate())).await.unwrap();
    assert!(pending.try_recv().is_err(), "the claim before the last write already included the started run");
    executor.flush_claims().await.unwrap();
    assert!(pending.await.unwrap().outcome.unwrap().runs.is_empty());

    drop(executor.wait_claim(claim).await.unwrap());
    let other = new_run();
    created(&executor.commit(Write::Start(other.clone())).await.unwrap());
    let other = db.client.store().run(other.id).await.unwrap().unwrap();
    assert_eq!(other.status, RunStatus::Pending, "a claim whose caller is gone claims no run");
}

#[workflow]
async fn counted(ctx: &Ctx<Probe>, n: u32) -> Result<u32> {
    let mut sum = 0;
    for _ in 0..3 {
        sum += ctx.step("count", async || Ok::<_, Error>(ctx.state().note(format!("run {n}")))).await.map(|()| 1)?;
    }
    Ok(sum)
}

pub async fn a_cancel_whose_reply_was_lost_is_not_a_second_one(db: Live) {
    let run = new_run();
    let executor = db.client.executor();
    created(&executor.commit(Write::Start(run.clone())).await.unwrap());
    let claim = executor.commit(Write::Claim(workflow_tests::builders::claim_request())).await.unwrap();
    assert_eq!(workflow_tests::outcome::claimed(claim).runs.len(), 1);

    let store = Arc::new(faulty(&db));
    let client = Client::over(Arc::clone(&store) as _, DEFAULT_PAYLOAD_LIMIT);
    store.fail_next(|write| matches!(write, Write::Cancel(_)), Fault::After(DatabaseErrorKind::Unreachable));
    assert_eq!(client.cancel(run.id).await.unwrap(), workflow_sdk::CancelOutcome::Requested);
    assert_eq!((store.faults_left(), store.batches()), (0, vec![1, 1]), "the cancel was applied twice");
    let row = db.client.run(run.id).await.unwrap();
    assert_eq!((row.status, row.wakes), (RunStatus::Running, 1));
}

/// Runs whole workflows on a store that loses a reply to every kind of write.
pub async fn runs_end_although_replies_are_lost(db: Live) {
    let store = Arc::new(faulty(&db));
    let client = Client::over(Arc::clone(&store) as _, DEFAULT_PAYLOAD_LIMIT);
    for kind in [DatabaseErrorKind::Unreachable, DatabaseErrorKind::Busy] {
        store.fail_next(|write| matches!(write, Write::Start(_)), Fault::After(kind));
        store.fail_next(|write| matches!(write, Write::Claim(_)), Fault::After(kind));
        store.fail_next(|write| matches!(write, Write::Attempt(_)), Fault::After(kind));
        store.fail_next(|write| matches!(write, Write::End(_)), Fault::After(kind));
    }
    let probe = Probe::new();
    let runs = client.start_many(counted, 0..20).await.unwrap();
    let worker = LocalWorker::start(Worker::new(client.clone(), probe.clone()).register(counted));
    for (n, run) in runs.iter().enumerate() {
        assert_eq!(run.result().await.unwrap(), 3);
        assert_eq!(probe.times(&format!("run {n}")), 3, "each body ran once");
        assert_eq!((run.history().await.unwrap().len(), run.run().await.unwrap().crashes), (3, 0));
    }
    worker.stop().await;
}

pub async fn a_claim_whose_reply_was_lost_is_given_back(db: Live) {
    let store = Arc::new(faulty(&db));
    let client = Client::over(Arc::clone(&store) as _, DEFAULT_PAYLOAD_LIMIT);
    let runs = client.start_many(counted, 0..10).await.unwrap();
    store.fail_next(|write| matches!(write, Write::Claim(_)), Fault::After(DatabaseErrorKind::Unreachable));
    let probe = Probe::new();
    // The lease does not end while the case runs, so the run does not wait for its end.
    let lease = Duration::from_secs(3600);
    let worker = LocalWorker::start(Worker::new(client.clone(), probe).register(counted).lease(lease));
    for run in &runs {
        run.result().await.unwrap();
        let row = run.run().await.unwrap();
        assert_eq!((row.epoch, row.crashes), (2, 0), "the lost claim is given back, and the run is claimed again");
    }
    worker.stop().await;
}

pub async fn the_end_of_the_executor_is_reported(db: Live) {
    #[workflow]
    async fn gated(ctx: &Ctx<Probe>) -> Result<()> {
        ctx.step("first", async || Ok::<_, Error>(ctx.state().note("first"))).await?;
        ctx.step("second", async || {
            ctx.state().note("second");
            Ok::<_, Error>(ctx.state().pass("gate").await)
        })
        .await
    }
    let store = Arc::new(faulty(&db));
    let client = Client::over(Arc::clone(&store) as _, DEFAULT_PAYLOAD_LIMIT);
    let probe = Probe::new();
    let worker = Worker::new(client.clone(), probe.clone()).register(gated).grace(Duration::from_millis(100));
    let worker = LocalWorker::start(worker);
    let held = client.start(gated, ()).await.unwrap();
    probe.noted("second").await;

    store.fail_next(|write| matches!(write, Write::Start(_)), Fault::Panic);
    let error = client.start(gated, ()).await.unwrap_err();
    assert!(matches!(error, ClientError::Stopped(ExecutorStopped)), "{error:?}");
    let text = "the executor of this process has stopped; nothing more can be written: restart the process";
    assert_eq!(error.to_string(), text);
    let error = held.cancel().await.unwrap_err();
    assert!(matches!(error, ClientError::Stopped(_)), "later writes are refused, too: {error:?}");
    let error = worker.end().await.unwrap_err();
    assert!(matches!(error, WorkerError::Stopped(ExecutorStopped)), "{error:?}");
    assert_eq!(error.to_string(), text);

    // Nothing is lost: another worker resumes the run when it is due. The test makes it due
    // instead of waiting for the end of the lease.
    db.raw().await.execute("UPDATE workflow_runs SET available_at = 0").await;
    probe.open("gate");
    let next = LocalWorker::start(db.worker(probe.clone()).register(gated));
    db.client.handle::<()>(held.id()).await.unwrap().result().await.unwrap();
    assert_eq!(probe.times("first"), 1, "the finished step is not repeated");
    next.stop().await;
}

pub async fn a_full_queue_makes_its_senders_wait(db: Live) {
    let store = Arc::new(faulty(&db));
    let executor = Executor::start(Arc::clone(&store) as _, Observers::default());
    let gate = store.block(|_| true);
    let sent = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counter = Arc::clone(&sent);
    let sender = executor.clone();
    let sending = tokio::spawn(async move {
        let mut pending = Vec::new();
        for _ in 0..20_000 {
            pending.push(sender.send(Write::Cancel(workflow_sdk::RunId::generate())).await.unwrap());
            counter.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        }
        pending
    });
    let count = || sent.load(std::sync::atomic::Ordering::SeqCst);
    until("the queue is full", async || (count() >= 8192).then_some(())).await;
    // Gives the sender time to send too much, which must not happen. On a slow machine the test
    // is only less strict.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(count() <= 8192 + 4096, "at most the batch in flight and a full queue: {}", count());
    assert!(!sending.is_finished());
    gate.open();
    for outcome in sending.await.unwrap() {
        assert!(matches!(outcome.await.unwrap(), Outcome::Canceled(_)));
    }
    let batches = store.batches();
    assert!(batches.iter().all(|size| *size <= 4096), "{batches:?}");
    assert!(batches.len() < 100, "the writes are committed in large batches: {} commits", batches.len());
}

pub async fn a_write_of_a_dropped_sender_is_committed(db: Live) {
    let store = Arc::new(faulty(&db));
    let executor = Executor::start(Arc::clone(&store) as _, Observers::default());
    let gate = store.block(|_| true);
    let run = new_run();
    drop(executor.send(Write::Start(run.clone())).await.unwrap());
    gate.reached().await;
    let second = executor.send(Write::Start(new_run())).await.unwrap();
    gate.open();
    created(&second.await.unwrap());
    assert!(db.client.store().run(run.id).await.unwrap().is_some());
}

/// The listener sometimes uses the connection of the writer for a moment. A blocked runtime must
/// not make that moment long.
pub async fn a_blocked_runtime_is_notified_of_other_processes(db: Live) {
    let other = Executor::start(Arc::clone(db.second_client().await.store()), Observers::default());
    let connect = db.connect();
    let (listens, begin) = oneshot::channel();
    let blocked = tokio::task::spawn_blocking(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = connect.await.unwrap();
            let executor = Executor::start(Arc::clone(client.store()), Observers::default());
            let mut changes = executor.notifier().changes();
            executor.notifier().listen().await;
            changes.changed().await.unwrap();
            listens.send(()).unwrap();
            let deadline = Instant::now() + Duration::from_secs(30);
            while !changes.has_changed().unwrap() {
                assert!(Instant::now() < deadline, "no notification arrived");
                std::thread::sleep(Duration::from_millis(1));
            }
        });
    });
    begin.await.unwrap();
    created(&other.send(Write::Start(new_run())).await.unwrap().await.unwrap());
    blocked.await.unwrap();
}
