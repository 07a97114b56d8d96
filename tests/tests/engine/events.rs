use std::time::Duration;

use workflow_sdk::prelude::*;
use workflow_sdk::sqlx::{Connection, PgConnection, SqliteConnection};
use workflow_sdk::{ClientError, EventName, Explanation, StepKind};
use workflow_tests::{Database, Live, LocalWorker, Probe};

use super::{failure, holds};

const HOUR: Duration = Duration::from_secs(3600);

#[workflow]
async fn ship(ctx: &Ctx, order: String) -> Result<Option<u64>> {
    ctx.event::<u64>("order.paid").key(&order).timeout(HOUR).await
}

#[workflow]
async fn ship_soon(ctx: &Ctx, order: String) -> Result<Option<u64>> {
    ctx.event::<u64>("order.paid").key(&order).timeout(Duration::from_millis(50)).await
}

#[workflow]
async fn pay(ctx: &Ctx, order: String) -> Result<u64> {
    ctx.emit_event("order.paid", &order, &500_u64).await
}

/// Waits until the history of the run has a wait.
async fn is_waiting<T>(run: &RunHandle<T>) {
    holds("the wait is registered", async || {
        run.history().await.unwrap().iter().any(|row| row.kind == StepKind::Event && row.position.is_none())
    })
    .await;
}

async fn waits_left(db: &Live) -> i64 {
    db.raw().await.number("SELECT count(*) FROM workflow_event_waits").await
}

pub async fn an_event_wakes_every_run_that_waits_for_it(db: Live) {
    let worker = LocalWorker::start(db.worker(()).register(ship).linger(Duration::ZERO));
    let mut runs = Vec::new();
    for order in ["42", "42", "43"] {
        runs.push(db.client.start(ship, order.into()).await.unwrap());
    }
    for run in &runs {
        is_waiting(run).await;
        holds("the run is parked", async || run.status().await.unwrap() == RunStatus::Parked).await;
    }
    let Explanation::Waiting { on, .. } = db.client.explain(runs[0].id()).await.unwrap() else {
        panic!("the run waits")
    };
    assert_eq!(on[0].event, Some(EventName { name: "order.paid".into(), key: "42".into() }));
    assert!(on[0].until.is_some_and(|until| until.since(on[0].since) == HOUR), "{on:?}");
    let text = on[0].to_string();
    assert!(text.starts_with("event \"order.paid\" with key \"42\", since ") && text.contains(", until "), "{text}");

    assert_eq!(db.second_client().await.emit("order.paid", "42", &500_u64).await.unwrap(), 2);
    assert_eq!(runs[0].result().await.unwrap(), Some(500));
    assert_eq!(runs[1].result().await.unwrap(), Some(500));
    assert_eq!(db.client.emit("order.paid", "42", &500_u64).await.unwrap(), 0);
    assert_eq!(runs[2].status().await.unwrap(), RunStatus::Parked);
    let row = &runs[0].history().await.unwrap()[0];
    assert_eq!(
        (row.kind, row.step_key.as_str(), row.output.as_deref()),
        (StepKind::Event, "order.paid", Some("[500]"))
    );
    runs[2].cancel().await.unwrap();
    assert!(matches!(runs[2].result().await.unwrap_err(), ClientError::RunCanceled { .. }));
    assert_eq!(waits_left(&db).await, 0);
    worker.stop().await;
}

pub async fn a_run_emits_an_event_to_runs(db: Live) {
    let worker = LocalWorker::start(db.worker(()).register(ship).register(pay));
    let run = db.client.start(ship, "42".into()).await.unwrap();
    is_waiting(&run).await;
    let payer = db.client.start(pay, "42".into()).await.unwrap();
    assert_eq!(payer.result().await.unwrap(), 1);
    assert_eq!(run.result().await.unwrap(), Some(500));
    let history = payer.history().await.unwrap();
    assert_eq!(history[0].step_key, "emit order.paid");
    assert_eq!(history[0].output.as_deref(), Some("1"));
    worker.stop().await;
}

pub async fn a_wait_for_an_event_ends_with_its_timeout(db: Live) {
    let worker = LocalWorker::start(db.worker(()).register(ship_soon).linger(Duration::ZERO));
    let run = db.client.start(ship_soon, "42".into()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), None);
    assert_eq!(db.client.emit("order.paid", "42", &500_u64).await.unwrap(), 0);
    assert_eq!(waits_left(&db).await, 0);
    worker.stop().await;
}

#[workflow]
async fn ask_at_once(ctx: &Ctx<Probe>, order: String) -> Result<Option<u64>> {
    let paid = ctx.event::<u64>("order.paid").key(&order).timeout(Duration::ZERO).await?;
    ctx.step("gate", async || {
        ctx.state().note(&order);
        ok(ctx.state().pass(&order).await)
    })
    .await?;
    Ok(paid)
}

/// The wait ends in the commit that registers it, so no event reaches it.
pub async fn a_wait_with_a_timeout_of_zero_ends_at_once(db: Live) {
    let probe = Probe::new();
    for linger in [Duration::ZERO, HOUR] {
        let order = format!("42 {linger:?}");
        let worker = LocalWorker::start(db.worker(probe.clone()).register(ask_at_once).linger(linger));
        let run = db.client.start(ask_at_once, order.clone()).await.unwrap();
        probe.noted(&order).await;
        assert_eq!(waits_left(&db).await, 0);
        assert_eq!(db.client.emit("order.paid", &order, &500_u64).await.unwrap(), 0);
        // The replay finds the recorded end of the wait.
        worker.abort().await;
        let worker = LocalWorker::start(db.worker(probe.clone()).register(ask_at_once));
        probe.open(&order);
        assert_eq!(run.result().await.unwrap(), None);
        let history = run.history().await.unwrap();
        assert_eq!((history[0].kind, history[0].output.as_deref()), (StepKind::Event, Some("[]")));
        assert_eq!(waits_left(&db).await, 0);
        worker.stop().await;
    }
}

/// While another transaction emits the event, the wait cannot be registered. It ends nevertheless.
pub async fn a_timeout_of_zero_does_not_wait_for_an_open_emission(db: Live) {
    if db.database == Database::Postgres {
        let mut connection = PgConnection::connect(&db.url()).await.unwrap();
        let mut transaction = connection.begin().await.unwrap();
        assert_eq!(db.client.emit("order.paid", "42", &1_u64).within(&mut transaction).await.unwrap(), 0);
        let probe = Probe::new();
        let worker = LocalWorker::start(db.worker(probe.clone()).register(ask_at_once));
        let run = db.client.start(ask_at_once, "42".into()).await.unwrap();
        probe.noted("42").await;
        transaction.commit().await.unwrap();
        probe.open("42");
        assert_eq!(run.result().await.unwrap(), None);
        assert_eq!(waits_left(&db).await, 0);
        worker.stop().await;
    }
}

#[workflow]
async fn wait_then_look(ctx: &Ctx<Probe>, order: String) -> Result<u64> {
    let paid = ctx.event::<u64>("order.paid").key(&order);
    let look = ctx.step("look", async || workflow_sdk::ok(ctx.state().note("look")));
    match futures::future::select(paid, look).await {
        futures::future::Either::Left((paid, _)) => Ok(paid?.unwrap_or_default()),
        futures::future::Either::Right((_, paid)) => Ok(paid.await?.unwrap_or_default()),
    }
}

/// A step that is polled after a wait begins only once the wait is registered. While a transaction
/// that has emitted the event is open, the wait is not registered, so the run cannot miss what that
/// transaction has written.
pub async fn a_step_after_a_wait_begins_once_the_wait_is_registered(db: Live) {
    let probe = Probe::new();
    let run = db.client.start(wait_then_look, "42".into()).await.unwrap();
    let register = || db.worker(probe.clone()).register(wait_then_look).register(ship_with_probe);
    if db.database == Database::Postgres {
        let mut connection = PgConnection::connect(&db.url()).await.unwrap();
        let mut transaction = connection.begin().await.unwrap();
        assert_eq!(db.client.emit("order.paid", "42", &1_u64).within(&mut transaction).await.unwrap(), 0);
        let worker = LocalWorker::start(register());
        let beside = db.client.start(ship_with_probe, "43".into()).await.unwrap();
        is_waiting(&beside).await;
        holds("the run is claimed", async || run.status().await.unwrap() == RunStatus::Running).await;
        assert!(run.history().await.unwrap().is_empty(), "the wait was registered");
        assert_eq!(probe.times("look"), 0, "the body began before the wait was registered");
        transaction.commit().await.unwrap();
        probe.noted("look").await;
        worker.stop().await;
    }
    let worker = LocalWorker::start(register());
    is_waiting(&run).await;
    probe.noted("look").await;
    assert_eq!(db.client.emit("order.paid", "42", &500_u64).await.unwrap(), 1);
    assert_eq!(run.result().await.unwrap(), 500);
    worker.stop().await;
}

#[workflow]
async fn ship_with_probe(ctx: &Ctx<Probe>, order: String) -> Result<Option<u64>> {
    ctx.event::<u64>("order.paid").key(&order).await
}

async fn end<D: workflow_sdk::sqlx::Database>(transaction: workflow_sdk::sqlx::Transaction<'_, D>, commit: bool) {
    let ended = if commit { transaction.commit().await } else { transaction.rollback().await };
    ended.unwrap();
}

/// Emits within a transaction, and commits it or rolls it back. Returns the number of runs.
async fn emit_within(db: &Live, key: &str, commit: bool) -> u64 {
    let emit = db.client.emit("order.paid", key, &500_u64);
    if db.database == Database::Sqlite {
        let mut connection = SqliteConnection::connect(&db.url()).await.unwrap();
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.unwrap();
        let runs = emit.within(&mut transaction).await.unwrap();
        end(transaction, commit).await;
        runs
    } else {
        let mut connection = PgConnection::connect(&db.url()).await.unwrap();
        let mut transaction = connection.begin().await.unwrap();
        let runs = emit.within(&mut transaction).await.unwrap();
        end(transaction, commit).await;
        runs
    }
}

pub async fn an_event_is_delivered_if_its_transaction_commits(db: Live) {
    let worker = db.worker(()).register(ship).poll_interval(HOUR).linger(Duration::ZERO);
    let worker = LocalWorker::start(worker);
    let run = db.client.start(ship, "42".into()).await.unwrap();
    is_waiting(&run).await;
    holds("the run is parked", async || run.status().await.unwrap() == RunStatus::Parked).await;
    assert_eq!(emit_within(&db, "42", false).await, 1);
    assert_eq!(waits_left(&db).await, 1);
    assert_eq!(run.status().await.unwrap(), RunStatus::Parked);
    assert_eq!(emit_within(&db, "42", true).await, 1);
    assert_eq!(run.result().await.unwrap(), Some(500));
    worker.stop().await;
}

/// A snapshot of such a transaction is older than waits that have begun since.
pub async fn an_emission_above_read_committed_is_refused(db: Live) {
    if db.database == Database::Postgres {
        for level in ["repeatable read", "serializable"] {
            let mut connection = PgConnection::connect(&db.url()).await.unwrap();
            let begin = workflow_sdk::sqlx::AssertSqlSafe(format!("BEGIN ISOLATION LEVEL {level}"));
            let mut transaction = connection.begin_with(begin).await.unwrap();
            let error = db.client.emit("order.paid", "42", &1_u64).within(&mut transaction).await.unwrap_err();
            assert!(matches!(&error, ClientError::Isolation { level: found } if *found == level), "{error:?}");
            transaction.rollback().await.unwrap();
        }
    }
}

/// The executor does not wait for a transaction of the application, so its other writes go on.
pub async fn an_emission_beside_an_open_one_is_busy(db: Live) {
    if db.database == Database::Postgres {
        let mut connection = PgConnection::connect(&db.url()).await.unwrap();
        let mut transaction = connection.begin().await.unwrap();
        db.client.emit("order.paid", "42", &1_u64).within(&mut transaction).await.unwrap();
        let mut beside = tokio::spawn(async move {
            let emit = db.client.emit("order.paid", "42", &2_u64).into_future();
            emit.await.map(|runs| (db, runs))
        });
        assert!(futures::poll!(&mut beside).is_pending());
        transaction.commit().await.unwrap();
        let (db, runs) = beside.await.unwrap().unwrap();
        assert_eq!(runs, 0);
        assert_eq!(db.client.emit("order.paid", "43", &2_u64).await.unwrap(), 0);
    }
}

#[workflow]
async fn bad_key(ctx: &Ctx, key: String) -> Result<Option<u64>> {
    ctx.event::<u64>("order.paid").key(&key).await
}

#[workflow]
async fn bad_emission(ctx: &Ctx, key: String) -> Result<u64> {
    ctx.emit_event("order.paid", &key, &1_u64).await
}

pub async fn bad_names_of_events_are_refused(db: Live) {
    for (name, key) in [("", "42"), ("order.paid", ""), ("a\u{1}b", "42"), ("order.paid", "a\u{1}b")] {
        let error = db.client.emit(name, key, &1_u64).await.unwrap_err();
        assert!(matches!(error, ClientError::Name(_)), "{error:?}");
    }
    let worker = LocalWorker::start(db.worker(()).register(bad_key).register(bad_emission));
    for key in ["", "a\u{1}b"] {
        let error = failure(db.client.start(bad_key, key.into()).await.unwrap().result().await);
        assert_eq!(error.kind, ErrorKind::Refused, "{error}");
        assert!(error.message.contains("event key"), "{error}");
        let error = failure(db.client.start(bad_emission, key.into()).await.unwrap().result().await);
        assert!(error.message.contains("event key"), "{error}");
    }
    let wrong = LocalWorker::start(db.worker(()).register(ship));
    let run = db.client.start(ship, "42".into()).await.unwrap();
    is_waiting(&run).await;
    assert_eq!(db.client.emit("order.paid", "42", &"much".to_owned()).await.unwrap(), 1);
    let error = failure(run.result().await);
    assert!(error.message.contains("the payload of event \"order.paid\" does not decode as u64"), "{error}");
    wrong.stop().await;
    worker.stop().await;
}

#[workflow]
async fn wait_beside_a_failure(ctx: &Ctx<Probe>, order: String) -> Result<u64> {
    let paid = ctx.event::<u64>("order.paid").key(&order);
    let fails = ctx.step("fails once", async || match ctx.state().count("tries") {
        1 => Err(Error::fatal("no luck")),
        _ => Ok(()),
    });
    let (paid, ()) = futures::try_join!(paid, fails)?;
    Ok(paid.unwrap_or_default())
}

/// A failed run waits for nothing. Once it is tried again, its recorded wait is registered again.
pub async fn a_retried_run_waits_again(db: Live) {
    let worker = LocalWorker::start(db.worker(Probe::new()).register(wait_beside_a_failure));
    let run = db.client.start(wait_beside_a_failure, "42".into()).await.unwrap();
    failure(run.result().await);
    assert_eq!(waits_left(&db).await, 0);
    assert_eq!(db.client.emit("order.paid", "42", &1_u64).await.unwrap(), 0);
    db.client.retry(run.id()).await.unwrap();
    holds("the wait is registered", async || waits_left(&db).await == 1).await;
    assert_eq!(db.client.emit("order.paid", "42", &500_u64).await.unwrap(), 1);
    assert_eq!(run.result().await.unwrap(), 500);
    worker.stop().await;
}

/// The end of a run at its deadline ends its waits, also those that the worker does not know of.
pub async fn a_run_that_is_retried_after_its_deadline_waits_again(db: Live) {
    let worker = LocalWorker::start(db.worker(()).register(ship).linger(Duration::ZERO));
    let run = db.client.start(ship, "42".into()).deadline(Duration::from_secs(2)).await.unwrap();
    is_waiting(&run).await;
    assert_eq!(failure(run.result().await).kind, ErrorKind::Deadline);
    assert_eq!(waits_left(&db).await, 0);
    for attempt in 2..4 {
        db.client.retry(run.id()).deadline(HOUR).await.unwrap();
        holds("the wait is registered", async || waits_left(&db).await == 1).await;
        holds("the run is parked", async || run.status().await.unwrap() == RunStatus::Parked).await;
        assert_eq!(run.run().await.unwrap().attempt, attempt);
        if attempt == 2 {
            // The run fails once more, while no worker drives it.
            db.raw().await.execute("UPDATE workflow_runs SET deadline_at = 1, available_at = 1").await;
            assert_eq!(failure(run.result().await).kind, ErrorKind::Deadline);
            assert_eq!(waits_left(&db).await, 0);
        }
    }
    assert_eq!(db.client.emit("order.paid", "42", &500_u64).await.unwrap(), 1);
    assert_eq!(run.result().await.unwrap(), Some(500));
    assert_eq!(waits_left(&db).await, 0);
    worker.stop().await;
}

#[workflow]
async fn waits_beside_a_failure(ctx: &Ctx<Probe>, order: String) -> Result<(Option<u64>, Option<u64>, bool)> {
    let paid = ctx.event::<u64>("order.paid").key(&order);
    let late = ctx.event::<u64>("never").key(&order).timeout(Duration::from_secs(1));
    let approved = ctx.approval("ship");
    let fails = ctx.step("fails once", async || {
        ctx.state().pass("fail").await;
        if ctx.state().count("tries") == 1 { Err(Error::fatal("no luck")) } else { Ok(()) }
    });
    let (late, paid, approved, ()) = futures::try_join!(late, paid, approved, fails)?;
    // The replay after this park finds the outcomes of the waits.
    ctx.sleep(Duration::from_millis(1)).await?;
    Ok((late, paid, approved.is_some()))
}

/// The failure dropped the waits. They begin anew with the next attempt of the run, so a timeout
/// counts from there, and an approval is asked for again.
pub async fn dropped_waits_begin_anew_once_their_run_is_retried(db: Live) {
    let probe = Probe::new();
    let worker = db.worker(probe.clone()).register(waits_beside_a_failure).linger(Duration::ZERO);
    let worker = LocalWorker::start(worker);
    let run = db.client.start(waits_beside_a_failure, "42".into()).await.unwrap();
    let asked = async || db.client.approvals().await.unwrap().iter().any(|approval| approval.run_id == run.id());
    holds("the approval is asked for", asked).await;
    assert_eq!(waits_left(&db).await, 2);
    probe.open("fail");
    failure(run.result().await);
    assert!(!asked().await);
    let failed_at = run.run().await.unwrap().completed_at.unwrap();
    holds("the timeout has passed", async || {
        db.client.store().now().await.unwrap() > failed_at + Duration::from_secs(1)
    })
    .await;

    db.client.retry(run.id()).await.unwrap();
    holds("the approval is asked for again", asked).await;
    assert_eq!(db.client.emit("order.paid", "42", &500_u64).await.unwrap(), 1);
    db.client.approve(run.id(), "ship", "ann").await.unwrap();
    assert_eq!(run.result().await.unwrap(), (None, Some(500), true));
    let history = run.history().await.unwrap();
    let of_late = |attempt| history.iter().find(|row| row.step_key == "never" && row.attempt == attempt).unwrap();
    assert_eq!((of_late(1).position, of_late(1).output.as_deref()), (None, Some("[]")));
    assert!(of_late(2).started_at > failed_at && of_late(2).position.is_some());
    assert_eq!(waits_left(&db).await, 0);
    worker.stop().await;
}

#[workflow]
async fn race(ctx: &Ctx, order: String) -> Result<bool> {
    let paid = ctx.event::<u64>("order.paid").key(&order);
    let soon = ctx.sleep(Duration::from_millis(50));
    match futures::future::select(paid, soon).await {
        futures::future::Either::Left(_) => return Ok(true),
        futures::future::Either::Right((slept, _paid)) => slept?,
    }
    ctx.event::<u64>("order.shipped").key(&order).await?;
    Ok(false)
}

pub async fn a_wait_that_loses_a_race_is_not_left(db: Live) {
    let worker = LocalWorker::start(db.worker(()).register(race));
    let run = db.client.start(race, "42".into()).await.unwrap();
    holds("the second wait is registered", async || {
        run.history().await.unwrap().iter().any(|row| row.step_key == "order.shipped")
    })
    .await;
    assert_eq!(db.client.emit("order.paid", "42", &1_u64).await.unwrap(), 0);
    assert_eq!(db.client.emit("order.shipped", "42", &1_u64).await.unwrap(), 1);
    assert!(!run.result().await.unwrap());
    worker.stop().await;
}

/// An event is encoded once for all runs, and each run decodes it.
pub async fn an_event_passes_through_the_codec(db: Live) {
    let codec =
        || workflow_sdk::Encryption::new(workflow_sdk::EncryptionKey::new("k1", [7; 32]).unwrap()).refuse_plain();
    let client = db.connect().codec(codec()).await.unwrap();
    let worker = LocalWorker::start(workflow_worker::Worker::new(client.clone(), ()).register(ship).register(pay));
    let mut runs = Vec::new();
    for _ in 0..2 {
        runs.push(client.start(ship, "42".into()).await.unwrap());
    }
    for run in &runs {
        is_waiting(run).await;
    }
    let payer = client.start(pay, "42".into()).await.unwrap();
    assert_eq!(payer.result().await.unwrap(), 2);
    for run in &runs {
        assert_eq!(run.result().await.unwrap(), Some(500));
    }
    let plain = db.raw().await.number("SELECT count(*) FROM workflow_signals WHERE payload = '500'").await;
    assert_eq!(plain, 0, "the payload was stored as it is");
    worker.stop().await;
}
