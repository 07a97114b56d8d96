use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use workflow_engine::store::Write;
use workflow_sdk::prelude::*;
use workflow_sdk::{AttemptStatus, Client, ClientError, DEFAULT_PAYLOAD_LIMIT, ErrorKind, RunId, RunsWith, Workflow};
use workflow_tests::{FaultyStore, Live, LocalWorker, Probe, until};
use workflow_worker::Worker;

use crate::failure;

const HOUR: Duration = Duration::from_secs(3600);

/// Reserves, charges and ships. `charge` fails until the probe has the note "card is good".
#[workflow(name = "checkout")]
pub(crate) async fn checkout(ctx: &Ctx<Probe>, cents: u64) -> Result<String> {
    let probe = ctx.state();
    let hold = ctx.step("reserve", async || Ok::<_, Error>(probe.count("reserve"))).await?;
    let charge = async || charge(probe, cents);
    let paid = ctx.step("charge", charge).retry(Retry::none()).await?;
    let parcel = ctx.step("ship", async || Ok::<_, Error>(probe.count("ship"))).await?;
    Ok(format!("{hold} {paid} {parcel}"))
}

fn charge(probe: &Probe, cents: u64) -> Result<String> {
    probe.note("charge");
    if probe.times("card is good") == 0 { Err(Error::msg("card refused")) } else { Ok(format!("{cents} cents")) }
}

/// Starts a checkout whose charge fails, and returns the failed run.
pub(crate) async fn failed(db: &Live, probe: &Probe) -> RunHandle<String> {
    let worker = LocalWorker::start(db.worker(probe.clone()).register(checkout));
    let run = db.client.start(checkout, 42).key("order-42").tag("region", "eu").await.unwrap();
    assert_eq!(failure(run.result().await).to_string(), "step \"charge\": card refused");
    worker.stop().await;
    assert_eq!(probe.notes(), ["reserve", "charge"]);
    run
}

pub async fn a_failed_run_resumes_where_it_failed(db: Live) {
    let probe = Probe::new();
    let run = failed(&db, &probe).await;
    probe.note("card is good");
    let again = run.retry().await.unwrap();
    assert_eq!(again.id(), run.id());
    let row = run.run().await.unwrap();
    assert_eq!((row.status, row.attempt, row.error), (RunStatus::Pending, 2, None));

    let worker = LocalWorker::start(db.worker(probe.clone()).register(checkout));
    assert_eq!(again.result().await.unwrap(), "1 42 cents 1");
    worker.stop().await;
    assert_eq!(probe.notes(), ["reserve", "charge", "card is good", "charge", "ship"], "reserve did not run again");
    let charges = run.history().await.unwrap().into_iter().filter(|row| row.step_key == "charge");
    let charges: Vec<_> = charges.map(|row| (row.attempt, row.status, row.position)).collect();
    assert_eq!(charges, [(2, AttemptStatus::Succeeded, Some(2)), (1, AttemptStatus::Failed, None)]);
    let error = run.retry().await.unwrap_err();
    assert!(matches!(error, ClientError::NotFailed { run_id, status: RunStatus::Succeeded } if run_id == run.id()));
    assert_eq!(
        error.to_string(),
        format!(
            "run {} has succeeded, and only a failed run can be tried again; \
             fork it to do a part of it anew, or wait for its end",
            run.id()
        )
    );
}

pub async fn a_run_can_be_retried_more_than_once(db: Live) {
    let probe = Probe::new();
    let run = failed(&db, &probe).await;
    let worker = LocalWorker::start(db.worker(probe.clone()).register(checkout));
    for attempts in 2..5 {
        let again = db.client.retry(run.id()).await.unwrap();
        assert_eq!(failure(again.result().await).message, "card refused");
        assert_eq!(probe.times("charge"), attempts, "one attempt per retry, as the policy of the step says");
    }
    probe.note("card is good");
    let again = db.client.retry(run.id()).await.unwrap();
    assert_eq!(again.result().await.unwrap(), json!("1 42 cents 1"));
    assert_eq!((probe.times("reserve"), run.run().await.unwrap().attempt), (1, 5));
    worker.stop().await;
}

pub async fn a_retried_run_keeps_the_outcomes_of_siblings_and_handlers(db: Live) {
    #[workflow]
    async fn both(ctx: &Ctx<Probe>) -> Result<String> {
        let probe = ctx.state();
        let failing = async || {
            probe.note("a");
            if probe.times("good") == 0 { Err(Error::msg("no")) } else { Ok(1) }
        };
        let slow = async || {
            probe.pass("failed").await;
            Ok::<_, Error>(probe.count("b"))
        };
        let a = async {
            let a = ctx.step("a", failing).retry(Retry::none()).await.map(|_| ());
            probe.open("failed");
            a
        };
        let (a, b) = futures::join!(a, ctx.step("b", slow));
        if a.is_err() {
            ctx.step("apologize", async || Ok::<_, Error>(probe.note("apologize"))).await?;
        }
        a?;
        Ok(format!("{}", b?))
    }
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(both));
    let run = db.client.start(both, ()).await.unwrap();
    assert_eq!(failure(run.result().await).step_key.as_deref(), Some("a"));
    probe.note("good");
    // The retry does not ask for the outcome of "apologize". That is not a divergence.
    assert_eq!(run.retry().await.unwrap().result().await.unwrap(), "1");
    worker.stop().await;
    assert_eq!(probe.notes(), ["a", "b", "apologize", "good", "a"]);
}

pub async fn a_retry_gives_a_step_all_its_attempts_again(db: Live) {
    #[workflow]
    async fn flaky(ctx: &Ctx<Probe>) -> Result<u32> {
        let policy = Retry::fixed(Duration::from_millis(1)).max_attempts(3);
        let body = async || {
            ctx.state().note("attempt");
            if ctx.attempt() < 5 { Err(Error::msg("no")) } else { Ok(ctx.attempt()) }
        };
        ctx.step("flaky", body).retry(policy).await
    }
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(flaky));
    let run = db.client.start(flaky, ()).await.unwrap();
    failure(run.result().await);
    assert_eq!(probe.times("attempt"), 3);
    assert_eq!(run.retry().await.unwrap().result().await.unwrap(), 5, "the attempt number continues");
    worker.stop().await;
}

pub async fn a_run_that_failed_outside_of_a_step_is_called_again(db: Live) {
    #[workflow(name = "decide")]
    async fn decide_wrongly(ctx: &Ctx<Probe>) -> Result<usize> {
        let _: usize = ctx.step("ask", async || Ok::<_, Error>(ctx.state().count("ask"))).await?;
        panic!("a fault of the code");
    }
    #[workflow(name = "decide")]
    async fn decide(ctx: &Ctx<Probe>) -> Result<usize> {
        ctx.step("ask", async || Ok::<_, Error>(ctx.state().count("ask"))).await
    }
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(decide_wrongly));
    let run = db.client.start(decide_wrongly, ()).await.unwrap();
    assert_eq!(failure(run.result().await).kind, ErrorKind::Panic);
    assert_eq!(failure(run.retry().await.unwrap().result().await).kind, ErrorKind::Panic, "the code is unchanged");
    worker.stop().await;
    let worker = LocalWorker::start(db.worker(probe.clone()).register(decide));
    assert_eq!(run.retry().await.unwrap().result().await.unwrap(), 1);
    worker.stop().await;
    assert_eq!(probe.notes(), ["ask"]);
}

pub async fn a_retry_after_the_deadline_needs_a_new_deadline(db: Live) {
    let run = db.client.start(checkout, 1).deadline(Duration::ZERO).await.unwrap();
    let worker = LocalWorker::start(db.worker(Probe::new()).register(checkout));
    assert_eq!(failure(run.result().await).kind, ErrorKind::Deadline);
    let passed = run.run().await.unwrap().deadline_at.unwrap();
    let error = run.retry().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("the deadline of run {} passed at {passed}; try it again with another one: .deadline(..)", run.id())
    );
    assert!(matches!(run.retry().deadline_at(passed).await, Err(ClientError::DeadlinePassed { .. })));
    assert_eq!(run.status().await.unwrap(), RunStatus::Failed, "nothing was changed");
    let again = run.retry().deadline(HOUR).await.unwrap();
    assert_eq!(failure(again.result().await).message, "card refused");
    worker.stop().await;
}

pub async fn a_run_that_cannot_be_retried_is_refused(db: Live) {
    let unknown = RunId::generate();
    assert!(matches!(db.client.retry(unknown).await, Err(ClientError::UnknownRun { run_id }) if run_id == unknown));
    let pending = db.client.start(checkout, 1).await.unwrap();
    assert!(matches!(pending.retry().await, Err(ClientError::NotFailed { status: RunStatus::Pending, .. })));
    pending.cancel().await.unwrap();
    assert!(matches!(pending.retry().await, Err(ClientError::NotFailed { status: RunStatus::Canceled, .. })));

    let run = failed(&db, &Probe::new()).await;
    let compensated = "UPDATE step_attempts SET kind = 'compensation' WHERE step_key = 'reserve'";
    db.raw().await.execute(compensated).await;
    let error = run.retry().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "run {} has undone steps by their compensations, so it cannot go on where it failed; \
             fork it from the first step that is to be done again",
            run.id()
        )
    );
}

pub async fn two_retries_at_once_are_one(db: Live) {
    let run = failed(&db, &Probe::new()).await;
    let other = db.second_client().await;
    for result in futures::future::join_all((0..8).map(|n| {
        let client = if n % 2 == 0 { db.client.clone() } else { other.clone() };
        let id = run.id();
        async move { client.retry(id).await.map(drop) }
    }))
    .await
    {
        assert!(
            matches!(result, Ok(()) | Err(ClientError::NotFailed { status: RunStatus::Pending, .. })),
            "{result:?}"
        );
    }
    assert_eq!(run.run().await.unwrap().attempt, 2);
}

/// Fails until its third attempt.
struct Patient;

impl Workflow for Patient {
    type State = Probe;
    type Input = bool;
    type Output = String;
    const NAME: &'static str = "patient";
    const VERSION: &'static str = "1";
    const RETRY: Option<Retry> = Some(Retry::fixed(Duration::from_millis(50)).max_attempts(3));

    async fn run(ctx: &Ctx<Probe>, fatally: bool) -> Result<String> {
        let probe = ctx.state();
        probe.note(format!("attempt {}", ctx.attempt()));
        let hold = ctx.step("reserve", async || Ok::<_, Error>(probe.count("reserve"))).await?;
        let paid = ctx.step("charge", async || charge(probe, 1)).retry(Retry::none()).await;
        match paid {
            Err(error) if fatally => Err(Error::fatal(error)),
            Err(error) => {
                if probe.times("charge") == 2 {
                    probe.note("card is good");
                }
                Err(error)
            }
            Ok(paid) => Ok(format!("{hold} {paid} in attempt {}", ctx.attempt())),
        }
    }
}

impl RunsWith<Probe> for Patient {
    fn project(worker: &Arc<Probe>) -> Arc<Probe> {
        Arc::clone(worker)
    }
}

pub async fn a_workflow_with_a_policy_resumes_where_it_failed(db: Live) {
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(Patient));
    let run = db.client.start(Patient, false).await.unwrap();
    assert_eq!(run.result().await.unwrap(), "1 1 cents in attempt 3");
    worker.stop().await;
    assert_eq!((probe.times("reserve"), probe.times("charge")), (1, 3));
    let row = run.run().await.unwrap();
    assert_eq!((row.attempt, row.error), (3, None));
}

pub async fn a_policy_that_is_used_up_fails_the_run(db: Live) {
    struct Hopeless;
    impl Workflow for Hopeless {
        type State = Probe;
        type Input = ();
        type Output = Value;
        const NAME: &'static str = "hopeless";
        const VERSION: &'static str = "1";
        const RETRY: Option<Retry> = Some(Retry::fixed(Duration::ZERO).max_attempts(3));

        async fn run(ctx: &Ctx<Probe>, _: ()) -> Result<Value> {
            let body = async || Err::<Value, _>(format!("no {}", ctx.state().count("body")));
            ctx.step("body", body).retry(Retry::none()).await
        }
    }
    impl RunsWith<Probe> for Hopeless {
        fn project(worker: &Arc<Probe>) -> Arc<Probe> {
            Arc::clone(worker)
        }
    }
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(Hopeless));
    let run = db.client.start(Hopeless, ()).await.unwrap();
    assert_eq!(failure(run.result().await).to_string(), "step \"body\": no 3");
    assert_eq!((probe.times("body"), run.run().await.unwrap().attempt), (3, 3));
    worker.stop().await;
}

pub async fn a_fatal_error_is_not_retried_by_the_workflow(db: Live) {
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(Patient));
    let run = db.client.start(Patient, true).await.unwrap();
    assert_eq!(failure(run.result().await).message, "card refused");
    worker.stop().await;
    assert_eq!(run.run().await.unwrap().attempt, 1);
}

pub async fn a_run_that_waits_for_its_next_attempt_can_be_canceled(db: Live) {
    struct Slow;
    impl Workflow for Slow {
        type State = ();
        type Input = ();
        type Output = ();
        const NAME: &'static str = "slow";
        const VERSION: &'static str = "1";
        const RETRY: Option<Retry> = Some(Retry::fixed(HOUR));

        async fn run(_: &Ctx, _: ()) -> Result<()> {
            Err(Error::msg("not today"))
        }
    }
    impl RunsWith<()> for Slow {
        fn project(worker: &Arc<()>) -> Arc<()> {
            Arc::clone(worker)
        }
    }
    let worker = LocalWorker::start(db.worker(()).register(Slow));
    let run = db.client.start(Slow, ()).await.unwrap();
    let row = workflow_tests::until("the run waits for its second attempt", async || {
        let row = run.run().await.unwrap();
        (row.attempt == 2).then_some(row)
    })
    .await;
    assert_eq!((row.status, row.error.unwrap().message.as_str()), (RunStatus::Pending, "not today"));
    let why = run.explain().await.unwrap().to_string();
    assert_eq!(why, format!("the run failed and is tried again at {}, as attempt 2: not today", row.available_at));
    run.cancel().await.unwrap();
    assert!(matches!(run.result().await, Err(ClientError::RunCanceled { .. })));
    worker.stop().await;
}

/// The workflow fails while the executor's queue is full, so the record of its step is unsent. The
/// retry must not be written before that record.
pub async fn a_retry_waits_for_records_that_are_unsent(db: Live) {
    struct Hasty;
    impl Workflow for Hasty {
        type State = Probe;
        type Input = ();
        type Output = usize;
        const NAME: &'static str = "hasty";
        const VERSION: &'static str = "1";
        const RETRY: Option<Retry> = Some(Retry::fixed(Duration::ZERO).max_attempts(2));

        async fn run(ctx: &Ctx<Probe>, _: ()) -> Result<usize> {
            let probe = ctx.state();
            let mail = ctx.step("mail", async || {
                probe.note("mail begins");
                probe.pass("mail").await;
                ok(probe.count("mailed"))
            });
            if ctx.attempt() > 1 {
                return mail.await;
            }
            let _dropped = probe.on_drop("failed");
            // A foreign await, because every call of the context waits for its commit.
            futures::future::select(mail, Box::pin(probe.pass("fail"))).await;
            Err(Error::msg("no patience"))
        }
    }
    impl RunsWith<Probe> for Hasty {
        fn project(worker: &Arc<Probe>) -> Arc<Probe> {
            Arc::clone(worker)
        }
    }
    let store = Arc::new(FaultyStore::new(Arc::clone(db.client.store())));
    let client = Client::over(Arc::clone(&store) as _, DEFAULT_PAYLOAD_LIMIT);
    let probe = Probe::new();
    let worker = LocalWorker::start(Worker::new(client.clone(), probe.clone()).register(Hasty));
    let run = client.start(Hasty, ()).await.unwrap();
    probe.noted("mail begins").await;

    // More writes than two batches and the queue hold. As long as some of them wait for room, there
    // is none for a record.
    let gate = store.block(|_| true);
    let executor = client.executor().clone();
    let crowd = tokio::spawn(async move {
        let send = |_| executor.send(Write::Cancel(RunId::generate()));
        futures::future::join_all((0..20_000).map(send)).await
    });
    gate.reached().await;
    let full = async || client.executor().try_reserve().unwrap().is_none().then_some(());
    until("the queue is full", full).await;
    probe.open("mail");
    probe.noted("mailed").await;
    probe.open("fail");
    probe.noted("failed").await;
    gate.open();
    assert_eq!(run.result().await.unwrap(), 1);
    assert_eq!(probe.times("mailed"), 1, "the outcome of the first attempt is kept");
    assert_eq!(run.run().await.unwrap().attempt, 2);
    crowd.await.unwrap();
    worker.stop().await;
}
