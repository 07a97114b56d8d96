//! Batches that the executor puts in line while the batch before them is being committed.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::task::JoinHandle;
use workflow_engine::executor::{Executor, PendingClaim, PendingOutcome};
use workflow_engine::model::{Claim, Retention, WorkerId};
use workflow_engine::observe::Observers;
use workflow_engine::store::{Outcome, Write};
use workflow_sdk::prelude::*;
use workflow_sdk::{Connect, DEFAULT_PAYLOAD_LIMIT, DatabaseErrorKind, Timestamp};
use workflow_tests::builders::{attempt, claim_by, new_run, park, succeeded};
use workflow_tests::faulty::{Fault, Gate};
use workflow_tests::outcome::{claimed, one};
use workflow_tests::{FaultyStore, Live, LocalWorker, Probe, until};
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
/// "second", and a worker claims. These writes are in line behind "held".
struct InLine {
    client: Client,
    store: Arc<FaultyStore>,
    claims: Vec<Claim>,
    /// Opens the way for "held".
    gate: Arc<Gate>,
    held: Vec<PendingOutcome>,
    /// For each run, the outcome of its "second".
    seconds: Vec<JoinHandle<Outcome>>,
    claim: PendingClaim,
}

/// The claim that the worker sends while "held" is blocked.
#[derive(Clone, Copy, PartialEq)]
enum Claiming {
    /// It is in line behind "held".
    InLine,
    /// It is left pending. One more run parks with "held" and is due at once.
    Pending,
}

impl InLine {
    async fn new(connect: Connect) -> Self {
        Self::with(connect, Claiming::InLine).await
    }

    async fn with(connect: Connect, claiming: Claiming) -> Self {
        let client = connect.await.unwrap();
        let (inner, worker) = (Arc::clone(client.store()), WorkerId::generate());
        let _lease = inner.open_lease(worker, &[], &Retention::default()).await.unwrap();
        let parks = claiming == Claiming::Pending;
        let starts: Vec<Write> = (0..MANY + usize::from(parks)).map(|_| Write::Start(new_run())).collect();
        inner.commit(&starts).await.unwrap();
        let runs = claimed(one(inner.commit(&[Write::Claim(claim_by(worker, 1000))]).await.unwrap())).runs;
        let mut claims: Vec<Claim> = runs.iter().map(|run| run.claim).collect();
        let parked = claims.pop_if(|_| parks);

        let store = Arc::new(FaultyStore::new(inner));
        let executor = Executor::start(Arc::clone(&store) as _, Observers::default());
        let opener = store.block(is_step("opener"));
        let opened = executor.send(step(claims[0], "opener")).await.unwrap();
        opener.reached().await;
        let mut seconds = Vec::new();
        for claim in claims.clone() {
            let (executor, first) = (executor.clone(), executor.send(step(claim, "first")).await.unwrap());
            seconds.push(tokio::spawn(async move {
                let outcome = first.await.unwrap();
                assert!(matches!(outcome, Outcome::Applied), "{outcome:?}");
                executor.commit(step(claim, "second")).await.unwrap()
            }));
        }
        let first = store.block(is_step("first"));
        opener.open();
        first.reached().await;
        // Enough writes for a batch of their own: the executor sends it before it answers the
        // writers of "first".
        let mut held = Vec::new();
        for claim in &claims[..MANY / 2] {
            held.push(executor.send(step(*claim, "held")).await.unwrap());
        }
        if let Some(claim) = parked {
            held.push(executor.send(park(claim, Timestamp::from_micros(0))).await.unwrap());
        }
        let gate = store.block(is_step("held"));
        first.open();
        gate.reached().await;
        let request = claim_by(worker, 1);
        let claim = match claiming {
            Claiming::InLine => executor.claim(request).await.unwrap(),
            Claiming::Pending => executor.wait_claim(request).await.unwrap(),
        };
        until("a batch is in line", async || (store.overlapping() == 1).then_some(())).await;
        assert!(matches!(opened.await.unwrap(), Outcome::Applied));
        Self { client, store, claims, gate, held, seconds, claim }
    }

    /// Lets all writes through. Each is committed once, whatever its faults.
    async fn finish(self) -> PendingClaim {
        self.gate.open();
        for outcome in self.held {
            let outcome = outcome.await.unwrap();
            assert!(matches!(outcome, Outcome::Applied | Outcome::Duplicate), "{outcome:?}");
        }
        for outcome in self.seconds {
            let outcome = outcome.await.unwrap();
            assert!(matches!(outcome, Outcome::Applied | Outcome::Duplicate), "{outcome:?}");
        }
        assert_eq!(self.store.faults_left(), 0);
        for (n, claim) in self.claims.into_iter().enumerate() {
            let keys = self.client.store().history(claim.run_id).await.unwrap();
            let count = |key| keys.iter().filter(|row| row.step_key == key).count();
            assert_eq!((count("held"), count("second")), (usize::from(n < MANY / 2), 1), "{keys:?}");
        }
        self.claim
    }
}

/// Runs a test on one thread: all tasks have their turn before the executor puts a batch in line.
async fn on_one_thread<T: Future<Output = ()>>(db: &Live, test: impl FnOnce(Connect) -> T + Send + 'static) {
    let connect = db.connect();
    let run = move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(test(connect));
    };
    tokio::task::spawn_blocking(run).await.unwrap();
}

pub async fn a_batch_in_line_is_committed_once(db: Live) {
    on_one_thread(&db, async |connect| {
        let in_line = InLine::new(connect).await;
        let answer = in_line.finish().await.await.unwrap();
        assert!(answer.outcome.unwrap().runs.is_empty(), "all runs are claimed");
    })
    .await;
}

/// The batch in line was closed while nothing was due, so it has no claim.
pub async fn a_pending_claim_takes_the_run_that_a_batch_before_the_one_in_line_made_due(db: Live) {
    on_one_thread(&db, async |connect| {
        let in_line = InLine::with(connect, Claiming::Pending).await;
        let claim = in_line.finish().await;
        let answer =
            tokio::time::timeout(Duration::from_secs(20), claim).await.expect("the claim is answered").unwrap();
        assert_eq!(answer.outcome.unwrap().runs.len(), 1);
    })
    .await;
}

pub async fn a_batch_in_line_whose_reply_was_lost_is_repeated_without_its_claims(db: Live) {
    on_one_thread(&db, async |connect| {
        let in_line = InLine::new(connect).await;
        // The fault applies when the batch is sent again, because its first call was already made.
        in_line.store.fail_next(is_step("held"), Fault::After(DatabaseErrorKind::Unreachable));
        in_line.store.fail_next(is_step("second"), Fault::After(DatabaseErrorKind::Busy));
        let answer = in_line.finish().await.await.unwrap();
        assert!(answer.outcome.is_err(), "it is unknown what was claimed");
    })
    .await;
}

pub async fn a_batch_in_line_waits_while_the_one_before_it_is_retried(db: Live) {
    on_one_thread(&db, async |connect| {
        let in_line = InLine::new(connect).await;
        let store = Arc::clone(&in_line.store);
        store.fail_next(is_step("held"), Fault::Before(DatabaseErrorKind::Busy));
        store.fail_next(is_step("held"), Fault::Before(DatabaseErrorKind::Unreachable));
        in_line.finish().await;
        let batches = store.batches();
        let (held, second) = (MANY / 2, MANY);
        assert_eq!(batches, [1, MANY, held, held, held, second], "in the order of the writes");
    })
    .await;
}

pub async fn a_batch_in_line_waits_while_a_bad_write_before_it_is_found(db: Live) {
    on_one_thread(&db, async |connect| {
        let in_line = InLine::new(connect).await;
        let store = Arc::clone(&in_line.store);
        store.fail_next(is_step("held"), Fault::Before(DatabaseErrorKind::Invalid));
        let answer = in_line.finish().await.await.unwrap();
        assert!(answer.outcome.is_ok(), "a claim in line is repeated: the failed batch had no effect");
        let (half, second) = (MANY / 4, MANY + 1);
        assert_eq!(store.batches(), [1, MANY, MANY / 2, half, half, second], "in the order of the writes");
    })
    .await;
}

#[workflow]
async fn noted(ctx: &Ctx<Probe>, n: u32) -> Result<u32> {
    for _ in 0..4 {
        ctx.step("note", async || Ok::<_, Error>(ctx.state().note(format!("run {n}")))).await?;
    }
    Ok(n)
}

/// Runs enough workflows at once that batches are put in line. Every kind of write loses a reply,
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
