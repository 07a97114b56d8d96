use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use workflow_sdk::prelude::*;
use workflow_sdk::{
    AttemptStatus, ClientError, ErrorKind, FORKED_FROM, NameSubject, RunFilter, RunId, RunsWith, Workflow,
};
use workflow_tests::{Live, Probe, Working};

use crate::{failure, reaches};

const HOUR: Duration = Duration::from_secs(3600);

/// Reserves, charges and ships; `charge` fails until the gate of the same name is open.
#[workflow(name = "checkout")]
async fn checkout(ctx: &Ctx<Probe>, cents: u64) -> Result<String> {
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

#[workflow(name = "checkout", version = "2")]
async fn checkout_2(ctx: &Ctx<Probe>, cents: u64) -> Result<String> {
    let probe = ctx.state();
    let hold = ctx.step("reserve", async || Ok::<_, Error>(probe.count("reserve"))).await?;
    let invoice = ctx.step("invoice", async || Ok::<_, Error>(format!("invoice of {cents} cents"))).await?;
    Ok(format!("{hold} {invoice}"))
}

async fn failed(db: &Live, probe: &Probe) -> RunHandle<String> {
    let worker = Working::start(db.worker(probe.clone()).register(checkout));
    let run = db.client.start(checkout, 42).key("order-42").tag("region", "eu").await.unwrap();
    assert_eq!(failure(run.result().await).to_string(), "step \"charge\": card refused");
    worker.stop().await;
    assert_eq!(probe.notes(), ["reserve", "charge"]);
    run
}

pub async fn a_failed_run_goes_on_where_it_failed(db: Live) {
    let probe = Probe::new();
    let run = failed(&db, &probe).await;
    probe.note("card is good");
    let again = run.retry().await.unwrap();
    assert_eq!(again.id(), run.id());
    let row = run.run().await.unwrap();
    assert_eq!((row.status, row.attempt, row.error), (RunStatus::Pending, 2, None));

    let worker = Working::start(db.worker(probe.clone()).register(checkout));
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
            "run {} is succeeded, and only a failed run can be tried again; \
             fork it to do a part of it anew, or wait for its end",
            run.id()
        )
    );
}

pub async fn a_run_can_be_retried_more_than_once(db: Live) {
    let probe = Probe::new();
    let run = failed(&db, &probe).await;
    let worker = Working::start(db.worker(probe.clone()).register(checkout));
    for attempts in 2..5 {
        let again = db.client.retry(run.id()).await.unwrap();
        assert_eq!(failure(again.result().await).message, "card refused");
        assert_eq!(probe.times("charge"), attempts, "one attempt each, as the step's policy says");
    }
    probe.note("card is good");
    let again = db.client.retry(run.id()).await.unwrap();
    assert_eq!(again.result().await.unwrap(), json!("1 42 cents 1"));
    assert_eq!((probe.times("reserve"), run.run().await.unwrap().attempt), (1, 5));
    worker.stop().await;
}

pub async fn a_retried_run_keeps_what_its_siblings_and_handlers_did(db: Live) {
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
    let worker = Working::start(db.worker(probe.clone()).register(both));
    let run = db.client.start(both, ()).await.unwrap();
    assert_eq!(failure(run.result().await).step_key.as_deref(), Some("a"));
    probe.note("good");
    // It does not diverge for the apology that it does not ask for any more.
    assert_eq!(run.retry().await.unwrap().result().await.unwrap(), "1");
    worker.stop().await;
    assert_eq!(probe.notes(), ["a", "b", "apologize", "good", "a"]);
}

pub async fn a_retry_gives_a_step_its_attempts_once_more(db: Live) {
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
    let worker = Working::start(db.worker(probe.clone()).register(flaky));
    let run = db.client.start(flaky, ()).await.unwrap();
    failure(run.result().await);
    assert_eq!(probe.times("attempt"), 3);
    assert_eq!(run.retry().await.unwrap().result().await.unwrap(), 5, "attempts go on counting");
    worker.stop().await;
}

pub async fn a_run_that_failed_by_itself_is_called_again(db: Live) {
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
    let worker = Working::start(db.worker(probe.clone()).register(decide_wrongly));
    let run = db.client.start(decide_wrongly, ()).await.unwrap();
    assert_eq!(failure(run.result().await).kind, ErrorKind::Panic);
    assert_eq!(failure(run.retry().await.unwrap().result().await).kind, ErrorKind::Panic, "the same code");
    worker.stop().await;
    let worker = Working::start(db.worker(probe.clone()).register(decide));
    assert_eq!(run.retry().await.unwrap().result().await.unwrap(), 1);
    worker.stop().await;
    assert_eq!(probe.notes(), ["ask"]);
}

pub async fn a_retry_after_the_deadline_needs_another_one(db: Live) {
    let run = db.client.start(checkout, 1).deadline(Duration::ZERO).await.unwrap();
    let worker = Working::start(db.worker(Probe::new()).register(checkout));
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

pub async fn only_what_can_be_retried_is_retried(db: Live) {
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

pub async fn a_fork_keeps_the_history_before_its_step(db: Live) {
    let probe = Probe::new();
    let source = failed(&db, &probe).await;
    let before = (source.run().await.unwrap(), source.history().await.unwrap());
    probe.note("card is good");
    let fork = source.fork().from("charge").input(&7_u64).tag("why", "repair").await.unwrap();
    assert_ne!(fork.id(), source.id());
    let row = fork.run().await.unwrap();
    let tags = [("region", "eu"), ("why", "repair"), (FORKED_FROM, &source.id().to_string())];
    assert_eq!(row.tags, tags.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect());
    assert_eq!((row.lane, row.key, row.input.as_str(), row.parent), (before.0.lane.clone(), None, "7", None));

    let worker = Working::start(db.worker(probe.clone()).register(checkout));
    assert_eq!(fork.result().await.unwrap(), "1 7 cents 1");
    worker.stop().await;
    assert_eq!(probe.notes(), ["reserve", "charge", "card is good", "charge", "ship"]);
    assert_eq!((source.run().await.unwrap(), source.history().await.unwrap()), before, "it stays as it is");
    let of_source = RunFilter::new().tag(FORKED_FROM, source.id().to_string());
    let found = db.client.list(&of_source).await.unwrap();
    assert_eq!(found.iter().map(|run| run.id).collect::<Vec<_>>(), [fork.id()]);
}

pub async fn a_fork_can_take_another_version_and_queue(db: Live) {
    let probe = Probe::new();
    let source = failed(&db, &probe).await;
    let worker = db.worker(probe.clone()).register(checkout).register(checkout_2).queues(["default", "repairs"]);
    let worker = Working::start(worker);
    let fork = db.client.fork(source.id()).from("charge").version("2").queue("repairs").await.unwrap();
    assert_eq!(fork.result().await.unwrap(), json!("1 invoice of 42 cents"));
    let lane = fork.run().await.unwrap().lane;
    assert_eq!((lane.version.as_str(), lane.queue.as_str()), ("2", "repairs"));
    worker.stop().await;
    assert_eq!(probe.notes(), ["reserve", "charge"], "the outcome of reserve was taken over");
}

pub async fn a_fork_without_a_step_begins_anew(db: Live) {
    let probe = Probe::new();
    let source = failed(&db, &probe).await;
    probe.note("card is good");
    let worker = Working::start(db.worker(probe.clone()).register(checkout));
    assert_eq!(source.fork().await.unwrap().result().await.unwrap(), "2 42 cents 1");
    worker.stop().await;
}

pub async fn a_run_of_any_status_can_be_forked(db: Live) {
    #[workflow]
    async fn naps(ctx: &Ctx<Probe>) -> Result<usize> {
        let first = ctx.step("first", async || Ok::<_, Error>(ctx.state().count("first"))).await?;
        ctx.sleep(HOUR).await?;
        Ok(first)
    }
    let probe = Probe::new();
    let worker = Working::start(db.worker(probe.clone()).register(naps));
    let source = db.client.start(naps, ()).await.unwrap();
    reaches(&source, RunStatus::Parked).await;
    // The sleep has no outcome yet: all that has one is kept, and it begins anew.
    let fork = source.fork().from("sleep").await.unwrap();
    reaches(&fork, RunStatus::Parked).await;
    source.cancel().await.unwrap();
    let second = source.fork().from("sleep").await.unwrap();
    reaches(&second, RunStatus::Parked).await;
    worker.stop().await;
    assert_eq!(probe.notes(), ["first"]);
    assert_eq!(fork.status().await.unwrap(), RunStatus::Parked);
}

pub async fn a_step_that_does_not_exist_is_refused_with_near_names(db: Live) {
    let source = failed(&db, &Probe::new()).await;
    let error = db.client.fork(source.id()).from("charg").await.unwrap_err();
    let ClientError::UnknownStep { run_id, key, near } = &error else { panic!("{error}") };
    assert_eq!(
        (*run_id, key.as_str(), &near[..]),
        (source.id(), "charg", &["charge".to_owned(), "reserve".into()][..])
    );
    assert_eq!(
        error.to_string(),
        format!("run {} has no step \"charg\"; did you mean \"charge\" or \"reserve\"?", source.id())
    );
    let new = db.client.start(checkout, 1).await.unwrap();
    assert_eq!(
        new.fork().from("charge").await.unwrap_err().to_string(),
        format!("run {} has no step \"charge\", for it has no history; fork it without .from(..)", new.id())
    );
    assert_eq!(db.client.list(&RunFilter::new()).await.unwrap().len(), 2, "nothing was started");
}

pub async fn a_fork_refuses_what_cannot_be_stored(db: Live) {
    let source = db.client.start(checkout, 1).await.unwrap();
    let unknown = RunId::generate();
    assert!(matches!(db.client.fork(unknown).await, Err(ClientError::UnknownRun { run_id }) if run_id == unknown));
    let names = [
        (source.fork().version(""), NameSubject::Version),
        (source.fork().queue("\n"), NameSubject::Queue),
        (source.fork().key(""), NameSubject::Key),
        (source.fork().tag("", "x"), NameSubject::Tag),
    ];
    for (fork, subject) in names {
        let error = fork.await.unwrap_err();
        assert!(matches!(&error, ClientError::Name(name) if name.subject == subject), "{error}");
    }
    let error = source.fork().input(&"x".repeat(3 << 20)).await.unwrap_err();
    assert!(matches!(error, ClientError::Payload(_)), "{error}");
    assert_eq!(db.client.list(&RunFilter::new()).await.unwrap().len(), 1);
}

pub async fn the_key_of_a_fork_gives_the_same_fork(db: Live) {
    let source = failed(&db, &Probe::new()).await;
    let fork = source.fork().from("charge").key("again").await.unwrap();
    assert_eq!(source.fork().from("charge").key("again").await.unwrap().id(), fork.id());
    let other_input = source.fork().key("again").input(&43).await.unwrap_err();
    assert!(matches!(other_input, ClientError::KeyConflict { run_id, .. } if run_id == fork.id()), "{other_input}");
    // The key of the run itself would otherwise give that run back.
    let own = source.fork().key("order-42").await.unwrap_err();
    assert!(matches!(own, ClientError::KeyConflict { run_id, .. } if run_id == source.id()), "{own}");
}

/// Fails as a whole until the card is good.
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

pub async fn a_workflow_with_a_policy_goes_on_where_it_failed(db: Live) {
    let probe = Probe::new();
    let worker = Working::start(db.worker(probe.clone()).register(Patient));
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
    let worker = Working::start(db.worker(probe.clone()).register(Hopeless));
    let run = db.client.start(Hopeless, ()).await.unwrap();
    assert_eq!(failure(run.result().await).to_string(), "step \"body\": no 3");
    assert_eq!((probe.times("body"), run.run().await.unwrap().attempt), (3, 3));
    worker.stop().await;
}

pub async fn a_fatal_error_is_not_retried_by_the_workflow(db: Live) {
    let probe = Probe::new();
    let worker = Working::start(db.worker(probe.clone()).register(Patient));
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
    let worker = Working::start(db.worker(()).register(Slow));
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
