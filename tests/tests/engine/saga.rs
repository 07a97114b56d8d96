//! Compensations: a run that fails or is canceled undoes its completed steps.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use workflow_engine::store::Write;
use workflow_sdk::prelude::*;
use workflow_sdk::{ClientError, QueueLimits, StepAttempt, StepKind};
use workflow_tests::{Live, LocalWorker, Probe, outcome, until};

use crate::{failure, reaches};

const HOUR: Duration = Duration::from_secs(3600);

/// The way in which [`books`] ends.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
enum End {
    Well,
    Fails,
    Panics,
    Sleeps,
}

/// Books a flight and a hotel, and undoes both if the run does not succeed. The compensation of
/// the flight succeeds at its second attempt.
#[workflow]
async fn books(ctx: &Ctx<Probe>, end: End) -> Result<String> {
    for name in ["flight", "hotel"] {
        ctx.step(name, async || Ok::<_, Error>(ctx.state().note(name))).await?;
        let body = move |probe: Arc<Probe>, ()| async move {
            let times = probe.count(&format!("undo {name}"));
            if name == "flight" && times == 1 { Err(Error::msg("busy")) } else { Ok(times) }
        };
        let _undo = ctx
            .compensate(format!("undo {name}"), (), body)?
            .undoes(name)?
            .retry(Retry::fixed(Duration::from_millis(20)));
    }
    match end {
        End::Well => Ok("booked".into()),
        End::Fails => Err(Error::msg("no car is left")),
        End::Panics => panic!("on purpose"),
        End::Sleeps => ctx.sleep(HOUR).await.map(|()| String::new()),
    }
}

const UNDONE: [&str; 5] = ["flight", "hotel", "undo hotel", "undo flight", "undo flight"];

async fn compensations<O>(run: &RunHandle<O>) -> Vec<StepAttempt> {
    let history = run.history().await.unwrap();
    history.into_iter().filter(|row| row.kind == StepKind::Compensation).collect()
}

pub async fn a_run_that_succeeds_undoes_nothing(db: Live) {
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(books));
    let run = db.client.start(books, End::Well).await.unwrap();
    assert_eq!(run.result().await.unwrap(), "booked");
    assert_eq!(probe.notes(), ["flight", "hotel"]);
    worker.stop().await;
}

pub async fn a_run_that_fails_or_panics_undoes_in_reverse_order(db: Live) {
    for (end, kind, message) in [
        (End::Fails, ErrorKind::Application, "no car is left"),
        (End::Panics, ErrorKind::Panic, "the workflow panicked: on purpose"),
    ] {
        let probe = Probe::new();
        let worker = LocalWorker::start(db.worker(probe.clone()).register(books));
        let run = db.client.start(books, end).await.unwrap();
        let error = failure(run.result().await);
        assert_eq!((error.kind, error.message.as_str(), error.causes.len()), (kind, message, 0));
        assert_eq!(probe.notes(), UNDONE);
        let keys: Vec<_> = compensations(&run).await.into_iter().map(|row| (row.step_key, row.attempt)).collect();
        let keys: Vec<_> = keys.iter().map(|(key, attempt)| (key.as_str(), *attempt)).collect();
        assert_eq!(
            keys,
            [("undo hotel", 1), ("undo flight", 2), ("undo flight", 1)],
            "rows with an outcome come first"
        );
        worker.stop().await;
    }
}

pub async fn a_run_that_is_canceled_undoes(db: Live) {
    let probe = Probe::new();
    // Each wait is a park, so the drives that run the compensations first replay everything
    // before them.
    let worker = LocalWorker::start(db.worker(probe.clone()).register(books).linger(Duration::ZERO));
    let run = db.client.start(books, End::Sleeps).await.unwrap();
    reaches(&run, RunStatus::Parked).await;
    run.cancel().await.unwrap();
    let result = run.result().await;
    assert!(matches!(result, Err(ClientError::RunCanceled { .. })), "{result:?}");
    assert_eq!(probe.notes(), UNDONE);
    worker.stop().await;
}

pub async fn a_run_that_passes_its_deadline_undoes(db: Live) {
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(books));
    let run = db.client.start(books, End::Sleeps).deadline(Duration::from_secs(3)).await.unwrap();
    assert_eq!(failure(run.result().await).kind, ErrorKind::Deadline);
    assert_eq!(probe.notes(), UNDONE);
    worker.stop().await;
}

/// The first run is paused, the queue of the second one is paused, and that of the third one full.
/// The search for runs that no worker serves leaves them to their worker.
pub async fn a_run_that_is_held_back_past_its_deadline_undoes(db: Live) {
    let probe = Probe::new();
    let queues = ["plain", "paused", "full"];
    let worker = db.worker(probe.clone()).register(books).linger(Duration::ZERO);
    let worker = LocalWorker::start(worker.queues(queues));
    let mut runs = Vec::new();
    for queue in queues {
        let run = db.client.start(books, End::Sleeps).queue(queue).deadline(Duration::from_secs(8));
        runs.push(run.await.unwrap());
    }
    for run in &runs {
        reaches(run, RunStatus::Parked).await;
    }
    runs[0].pause().await.unwrap();
    db.client.queue("paused").pause("the airline closes").await.unwrap();
    db.client.queue("full").set_limits(QueueLimits::none().concurrency(0)).await.unwrap();
    let deadline = runs[2].run().await.unwrap().deadline_at.unwrap();
    until("the deadlines have passed", async || (db.client.store().now().await.unwrap() > deadline).then_some(()))
        .await;

    let expire = Write::Expire { limit: 10, patience: Duration::ZERO };
    assert_eq!(outcome::changed(&db.client.executor().commit(expire).await.unwrap()), 0);
    assert_eq!(failure(runs[0].result().await).kind, ErrorKind::Deadline);
    assert_eq!((probe.times("undo hotel"), runs[1].status().await.unwrap()), (1, RunStatus::Parked));
    db.client.queue("paused").resume().await.unwrap();
    db.client.queue("full").clear_limits().await.unwrap();
    for run in &runs[1..] {
        assert_eq!(failure(run.result().await).kind, ErrorKind::Deadline);
    }
    assert_eq!(probe.times("undo hotel"), 3);
    worker.stop().await;
}

/// The client sees that the run has failed, so the payment must not be kept.
pub async fn a_run_that_returns_a_value_after_its_deadline_undoes(db: Live) {
    #[workflow]
    async fn ships_late(ctx: &Ctx<Probe>) -> Result<String> {
        ctx.step("charge", async || Ok::<_, Error>(ctx.state().note("charge"))).await?;
        let _refund = ctx.compensate("refund", (), async |probe, ()| ok(probe.note("refund")))?.undoes("charge")?;
        let ship = ctx.step("ship", async || Ok::<_, Error>(ctx.state().pass("ship").await));
        ctx.shield(ship).await?;
        Ok("receipt".into())
    }
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(ships_late));
    let run = db.client.start(ships_late, ()).deadline(Duration::from_secs(3)).await.unwrap();
    until("the deadline is recorded", async || {
        let history = run.history().await.unwrap();
        history.iter().any(|row| row.kind == StepKind::Interruption).then_some(())
    })
    .await;
    probe.open("ship");
    let error = failure(run.result().await);
    assert_eq!((error.kind, error.causes.len()), (ErrorKind::Deadline, 0), "{error}");
    assert_eq!(probe.notes(), ["charge", "refund"]);
    worker.stop().await;
}

/// The rows of the undo, and of the cancel before it, are above the limit.
pub async fn a_run_at_the_limit_of_its_history_undoes_all(db: Live) {
    for (end, kind) in [(End::Fails, Some(ErrorKind::Application)), (End::Sleeps, None)] {
        let probe = Probe::new();
        // Each wait is a park, so the next drive reads the rows.
        let worker = db.worker(probe.clone()).register(books).linger(Duration::ZERO).history_limit(2);
        let worker = LocalWorker::start(worker);
        let run = db.client.start(books, end).await.unwrap();
        if end == End::Sleeps {
            reaches(&run, RunStatus::Parked).await;
            run.cancel().await.unwrap();
        }
        match run.result().await {
            Err(ClientError::RunCanceled { .. }) => assert_eq!(kind, None),
            result => assert_eq!(Some(failure(result).kind), kind),
        }
        assert_eq!(probe.notes(), UNDONE);
        worker.stop().await;
    }
}

pub async fn a_terminated_run_undoes_nothing(db: Live) {
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(books));
    let run = db.client.start(books, End::Sleeps).await.unwrap();
    reaches(&run, RunStatus::Parked).await;
    run.terminate().await.unwrap();
    assert!(matches!(run.result().await, Err(ClientError::RunCanceled { .. })));
    worker.stop().await;
    assert_eq!(probe.notes(), ["flight", "hotel"]);
}

/// Has two compensations. The one that runs first fails with a fatal error.
#[workflow]
async fn half_undone(ctx: &Ctx<Probe>, sleeps: bool) -> Result<()> {
    let _first = ctx.compensate("first", (), async |probe, ()| ok(probe.note("first")))?;
    let _second = ctx.compensate("second", (), |_, ()| async { Err::<(), _>(Error::fatal("the bank is closed")) })?;
    if sleeps {
        ctx.sleep(HOUR).await?;
    }
    Err(Error::msg("no luck"))
}

pub async fn a_failed_compensation_is_reported(db: Live) {
    for (sleeps, kind) in [(false, ErrorKind::Application), (true, ErrorKind::Compensation)] {
        let probe = Probe::new();
        let worker = LocalWorker::start(db.worker(probe.clone()).register(half_undone));
        let run = db.client.start(half_undone, sleeps).await.unwrap();
        if sleeps {
            reaches(&run, RunStatus::Parked).await;
            run.cancel().await.unwrap();
        }
        let error = failure(run.result().await);
        assert_eq!(error.kind, kind);
        assert_eq!(error.causes, ["compensation failed: step \"second\": the bank is closed"]);
        assert_eq!(probe.notes(), ["first"]);
        worker.stop().await;
    }
}

pub async fn a_compensation_for_a_step_that_never_ran_is_refused(db: Live) {
    #[workflow]
    async fn early(ctx: &Ctx<Probe>) -> Result<()> {
        let body = async |probe: Arc<Probe>, ()| ok(probe.note("refund"));
        // A key is that of a call in the scope, or the whole one.
        let trip = ctx.scope("trip");
        trip.step("book", async || ok(())).await?;
        for key in ["book", "trip/book"] {
            trip.compensate("cancel", (), body)?.undoes(key)?.disarm();
        }
        ctx.compensate("refund", (), body)?.undoes("charge")?.disarm();
        Ok(())
    }
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(early));
    let error = failure(db.client.start(early, ()).await.unwrap().result().await);
    assert_eq!(error.kind, ErrorKind::Refused);
    assert!(error.message.contains("\"charge\", but no call with that key has succeeded in this run"), "{error}");
    assert_eq!(probe.notes(), [""; 0]);
    worker.stop().await;
}

pub async fn the_grace_bounds_the_compensations_of_a_canceled_run(db: Live) {
    #[workflow]
    async fn endless(ctx: &Ctx<Probe>) -> Result<()> {
        let _undo = ctx.compensate("undo", (), async |probe, ()| {
            probe.note("undo");
            Ok::<_, Error>(std::future::pending::<()>().await)
        })?;
        ctx.sleep(HOUR).await
    }
    let probe = Probe::new();
    let worker = db.worker(probe.clone()).register(endless).cancel_grace(Duration::from_secs(2));
    let worker = LocalWorker::start(worker);
    let run = db.client.start(endless, ()).await.unwrap();
    reaches(&run, RunStatus::Parked).await;
    run.cancel().await.unwrap();
    assert!(matches!(run.result().await, Err(ClientError::RunCanceled { .. })));
    assert_eq!(probe.notes(), ["undo"]);
    worker.stop().await;
}

/// The refund is refused until the deadline has passed.
pub async fn nothing_interrupts_the_undo_of_a_run_that_failed(db: Live) {
    const DEADLINE: Duration = Duration::from_secs(5);
    #[workflow]
    async fn unlucky(ctx: &Ctx<Probe>) -> Result<()> {
        ctx.step("charge", async || ok(ctx.state().note("charge"))).await?;
        let opens_at = ctx.created_at() + DEADLINE;
        let refund = async |probe: Arc<Probe>, opens_at: SystemTime| {
            probe.note("refund");
            if SystemTime::now() > opens_at { ok(probe.note("refunded")) } else { Err(Error::msg("busy")) }
        };
        let often = Retry::fixed(Duration::from_millis(50)).max_attempts(10_000);
        let _refund = ctx.compensate("refund", opens_at, refund)?.retry(often);
        Err(Error::msg("no carrier"))
    }
    for cancels in [false, true] {
        let probe = Probe::new();
        let worker = db.worker(probe.clone()).register(unlucky).linger(Duration::ZERO);
        let worker = LocalWorker::start(worker.cancel_grace(Duration::from_millis(1)));
        let run = db.client.start(unlucky, ()).deadline(DEADLINE).await.unwrap();
        until("the refund is refused", async || (probe.times("refund") > 0).then_some(())).await;
        if cancels {
            run.cancel().await.unwrap();
        }
        let error = failure(run.result().await);
        assert_eq!((error.message.as_str(), error.causes.len()), ("no carrier", 0));
        assert_eq!((probe.times("charge"), probe.times("refunded")), (1, 1));
        worker.stop().await;
    }
}

/// Ships at the second call. The first refund is refused.
async fn ships(ctx: &Ctx<Probe>) -> Result<()> {
    let refund = async |probe: Arc<Probe>, ()| match probe.count("refund") {
        1 => Err(Error::msg("busy")),
        _ => ok(()),
    };
    let _refund = ctx.compensate("refund", (), refund)?.retry(Retry::fixed(Duration::from_secs(4)));
    let ship = ctx.step("ship", async || match ctx.state().count("ship") {
        1 => Err(Error::msg("no carrier")),
        _ => ok(()),
    });
    ship.retry(Retry::none()).await
}

pub async fn a_run_that_is_being_undone_is_not_tried_again(db: Live) {
    #[workflow(name = "ships")]
    async fn once(ctx: &Ctx<Probe>) -> Result<()> {
        ships(ctx).await
    }
    #[workflow(name = "ships", retry = Retry::fixed(Duration::from_millis(1)).max_attempts(5))]
    async fn again(ctx: &Ctx<Probe>) -> Result<()> {
        ships(ctx).await
    }
    let probe = Probe::new();
    let worker = db.worker(probe.clone()).register(once).linger(Duration::ZERO);
    let worker = LocalWorker::start(worker);
    let run = db.client.start(once, ()).await.unwrap();
    until("the refund is refused", async || (probe.times("refund") == 1).then_some(())).await;
    reaches(&run, RunStatus::Parked).await;
    worker.stop().await;
    let worker = LocalWorker::start(db.worker(probe.clone()).register(again));
    assert_eq!(failure(run.result().await).message, "no carrier");
    assert_eq!(probe.notes(), ["ship", "refund", "refund"]);
    worker.stop().await;
}

pub async fn a_panic_in_the_destructor_of_a_compensation_is_contained(db: Live) {
    struct Bomb(Probe);
    impl Drop for Bomb {
        fn drop(&mut self) {
            self.0.note("dropped");
            panic!("on purpose, in a destructor");
        }
    }
    #[workflow]
    async fn armed(ctx: &Ctx<Probe>) -> Result<()> {
        let bomb = Bomb(ctx.state().clone());
        let _undo = ctx.compensate("undo", (), move |_, ()| {
            let _held = &bomb;
            async { Ok::<_, Error>(()) }
        })?;
        ctx.sleep(HOUR).await
    }
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(armed).linger(Duration::ZERO));
    let run = db.client.start(armed, ()).await.unwrap();
    reaches(&run, RunStatus::Parked).await;
    until("the closure is dropped with its drive", async || (probe.times("dropped") > 0).then_some(())).await;
    run.terminate().await.unwrap();
    worker.stop().await;
}
