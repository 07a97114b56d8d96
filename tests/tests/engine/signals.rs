use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use workflow_sdk::prelude::*;
use workflow_sdk::{AcceptedSignal, ClientError, DEFAULT_PAYLOAD_LIMIT, RunId, SignalOutcome, StepKind};
use workflow_tests::{FaultyStore, Live, LocalWorker, Probe};
use workflow_worker::Worker;

use super::{failure, holds};

const HOUR: Duration = Duration::from_secs(3600);

/// The paid amount, in cents.
const PAID: Signal<u64> = Signal::new("paid");

#[workflow]
async fn two_payments(ctx: &Ctx) -> Result<(Option<u64>, Option<u64>)> {
    let first = ctx.signal(PAID).await?;
    let second = ctx.signal(PAID).await?;
    Ok((first, second))
}

/// Signals are taken in the order in which they were accepted, before or after the wait began.
pub async fn signals_are_taken_in_order_before_and_after_the_wait(db: Live) {
    let run = db.client.start(two_payments, ()).await.unwrap();
    assert_eq!(run.signal(PAID, &1).await.unwrap(), SignalOutcome::Accepted);
    let working = LocalWorker::start(db.worker(()).register(two_payments).linger(Duration::ZERO));
    holds("the second wait is parked", async || {
        let waiting = run.history().await.unwrap().iter().any(|row| row.step_key == "paid:1");
        waiting && run.status().await.unwrap() == RunStatus::Parked
    })
    .await;
    assert_eq!(run.signal("paid", &2_u64).await.unwrap(), SignalOutcome::Accepted);
    assert_eq!(run.result().await.unwrap(), (Some(1), Some(2)));
    let history = run.history().await.unwrap();
    assert!(history.iter().all(|row| row.kind == StepKind::Signal), "{history:?}");
    assert_eq!(run.signal(PAID, &3).await.unwrap(), SignalOutcome::Finished);
    working.stop().await;
}

#[workflow]
async fn wait_a_moment(ctx: &Ctx, millis: u64) -> Result<Option<String>> {
    ctx.signal("late").timeout(Duration::from_millis(millis)).await
}

pub async fn a_wait_ends_with_its_timeout(db: Live) {
    let working = LocalWorker::start(db.worker(()).register(wait_a_moment).linger(Duration::ZERO));
    let short = db.client.start(wait_a_moment, 100).await.unwrap();
    assert_eq!(short.result().await.unwrap(), None);
    let none = db.client.start(wait_a_moment, 0).await.unwrap();
    assert_eq!(none.result().await.unwrap(), None);
    let met = db.client.start(wait_a_moment, 3_600_000).await.unwrap();
    met.signal("late", &"here".to_string()).await.unwrap();
    assert_eq!(met.result().await.unwrap(), Some("here".into()));
    working.stop().await;
}

#[workflow]
async fn beside_a_body(ctx: &Ctx<tokio::sync::Semaphore>) -> Result<Option<u64>> {
    let body = ctx.step("body", async || ctx.state().acquire().await.map(drop));
    let (paid, body) = futures::join!(ctx.signal(PAID), body);
    body?;
    paid
}

/// The run cannot park while a body runs, so its drive must be notified of the signal.
pub async fn a_running_run_receives_a_signal(db: Live) {
    let working = LocalWorker::start(db.worker(tokio::sync::Semaphore::new(0)).register(beside_a_body));
    for client in [db.client.clone(), db.second_client().await] {
        let run = db.client.start(beside_a_body, ()).await.unwrap();
        holds("the wait is written", async || run.history().await.unwrap().iter().any(|row| row.step_key == "paid"))
            .await;
        client.signal(run.id(), PAID, &7).await.unwrap();
        holds("the signal is taken", async || {
            run.history().await.unwrap().iter().any(|row| row.step_key == "paid" && row.position.is_some())
        })
        .await;
        assert_eq!(run.status().await.unwrap(), RunStatus::Running);
        run.cancel().await.unwrap();
    }
    working.stop().await;
}

#[workflow]
async fn race_then_wait(ctx: &Ctx) -> Result<Option<u64>> {
    let wait = ctx.signal(PAID);
    let nap = ctx.sleep(Duration::from_millis(50));
    let lost = matches!(futures::future::select(nap, wait).await, futures::future::Either::Left(_));
    assert!(lost, "no signal arrives before the nap is over");
    ctx.step("after", async || Ok::<_, Error>(())).await?;
    ctx.signal(PAID).await
}

pub async fn a_wait_that_loses_a_race_consumes_nothing(db: Live) {
    let working = LocalWorker::start(db.worker(()).register(race_then_wait).linger(Duration::ZERO));
    let run = db.client.start(race_then_wait, ()).await.unwrap();
    holds("the step after the race has ended", async || {
        run.history().await.unwrap().iter().any(|row| row.step_key == "after" && row.position.is_some())
    })
    .await;
    run.signal(PAID, &5).await.unwrap();
    assert_eq!(run.result().await.unwrap(), Some(5));
    working.stop().await;
}

pub async fn a_key_makes_one_signal(db: Live) {
    let run = db.client.start(two_payments, ()).await.unwrap();
    let send = || run.signal(PAID, &1).key("payment-1");
    assert_eq!(send().await.unwrap(), SignalOutcome::Accepted);
    let SignalOutcome::Repeated(first) = run.signal(PAID, &7).key("payment-1").await.unwrap() else {
        panic!("the key was used before");
    };
    assert_eq!((first.run_id, first.name.as_str(), first.decode::<u64>().unwrap()), (run.id(), "paid", 1));
    assert_eq!(first.decision(), None);
    assert_eq!(run.signal(PAID, &2).await.unwrap(), SignalOutcome::Accepted);
    let working = LocalWorker::start(db.worker(()).register(two_payments));
    assert_eq!(run.result().await.unwrap(), (Some(1), Some(2)));
    working.stop().await;
}

#[workflow]
async fn pass_on(ctx: &Ctx, to: RunId) -> Result<SignalOutcome> {
    let sent = ctx.send_signal(to, PAID, &9).await?;
    ctx.sleep(Duration::from_millis(1)).await?;
    Ok(sent)
}

pub async fn a_workflow_sends_a_signal_once(db: Live) {
    let target = db.client.start(two_payments, ()).await.unwrap();
    let working = LocalWorker::start(db.worker(()).register(two_payments).register(pass_on).linger(Duration::ZERO));
    let sender = db.client.start(pass_on, target.id()).await.unwrap();
    assert_eq!(sender.result().await.unwrap(), SignalOutcome::Accepted);
    target.signal(PAID, &10).await.unwrap();
    assert_eq!(target.result().await.unwrap(), (Some(9), Some(10)));
    let late = db.client.start(pass_on, target.id()).await.unwrap();
    assert_eq!(late.result().await.unwrap(), SignalOutcome::Finished);
    let lost = db.client.start(pass_on, RunId::generate()).await.unwrap();
    let error = failure(lost.result().await);
    assert!(error.message.starts_with("there is no run"), "{error}");
    working.stop().await;
}

pub async fn a_signal_that_cannot_be_taken_is_refused(db: Live) {
    let unknown = RunId::generate();
    let error = db.client.signal(unknown, PAID, &1).await.unwrap_err();
    assert!(matches!(error, ClientError::UnknownRun { run_id } if run_id == unknown), "{error:?}");
    let run = db.client.start(wait_a_moment, 3_600_000).await.unwrap();
    let error = run.signal("", &1_u8).await.unwrap_err();
    assert!(matches!(error, ClientError::Name(_)), "{error:?}");
    let error = run.signal("late", &1_u8).key("a\nb").await.unwrap_err();
    assert!(matches!(error, ClientError::Name(_)), "{error:?}");
    let error = run.signal("late", &f64::NAN).await.unwrap_err();
    assert!(matches!(error, ClientError::Payload(_)), "{error:?}");
    // A signal sent by name has any payload, so only the receiver can check the type.
    run.signal("late", &1_u8).await.unwrap();
    let working = LocalWorker::start(db.worker(()).register(wait_a_moment));
    let error = failure(run.result().await);
    assert_eq!(error.kind, ErrorKind::Refused);
    assert!(
        error.message.contains("the payload of signal \"late\" does not decode as alloc::string::String"),
        "{error}"
    );
    working.stop().await;
}

pub async fn a_signal_to_a_full_inbox_is_refused(db: Live) {
    #[workflow]
    async fn floods(ctx: &Ctx, to: RunId) -> Result<String> {
        let mut sent = Vec::new();
        for number in 0..2 {
            let signal = ctx.send_signal(to, PAID, &number).retry(Retry::none());
            sent.push(signal.await.map_err(|error| error.to_string()));
        }
        Ok(format!("{sent:?}"))
    }
    let client = db.connect().signal_limit(2).await.unwrap();
    let run = client.start(two_payments, ()).await.unwrap();
    run.signal(PAID, &1).await.unwrap();
    let working = LocalWorker::start(Worker::new(client.clone(), ()).register(floods));
    let flooded = client.start(floods, run.id()).await.unwrap().result().await.unwrap();
    assert!(flooded.starts_with("[Ok(Accepted), Err(") && flooded.contains("is full"), "{flooded}");
    let error = run.signal(PAID, &3).await.unwrap_err();
    assert!(matches!(error, ClientError::InboxFull { run_id, limit: 2 } if run_id == run.id()), "{error:?}");
    working.stop().await;
    // The run takes the signals, and other clients have other limits.
    let working = LocalWorker::start(db.worker(()).register(two_payments));
    assert_eq!(run.result().await.unwrap(), (Some(1), Some(0)));
    working.stop().await;
}

#[workflow]
async fn ship(ctx: &Ctx) -> Result<String> {
    let decision = match ctx.approval("ship").to("ops").timeout(HOUR).await? {
        Some(decision) => decision,
        None => return Ok("undecided".into()),
    };
    Ok(format!("{} {} {}", decision.approved, decision.by, decision.note.unwrap_or_default()))
}

pub async fn an_approval_is_listed_and_decided_once(db: Live) {
    let working = LocalWorker::start(db.worker(()).register(ship).linger(Duration::ZERO));
    let run = db.client.start(ship, ()).await.unwrap();
    holds("it is listed", async || !db.client.approvals().await.unwrap().is_empty()).await;
    let listed = db.client.approvals().await.unwrap();
    let json = serde_json::to_value(&listed).unwrap();
    assert!(json[0]["key"] == "ship" && json[0]["lane"]["workflow"] == "ship", "{json}");
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].run_id, listed[0].key.as_str(), listed[0].to.as_deref()), (run.id(), "ship", Some("ops")));
    assert_eq!(listed[0].until.unwrap().since(listed[0].since), HOUR);
    let error = db.client.approve(run.id(), "shipp", "ann").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("run {} does not wait for approval \"shipp\"; it waits for [\"ship\"]", run.id())
    );
    working.stop().await;
    let decided = db.client.approve(run.id(), "ship", "ann").note("fine").await.unwrap();
    assert_eq!(decided, SignalOutcome::Accepted);
    let by_ann = repeated(&db, run.id()).await;
    assert_eq!(by_ann.decision().unwrap().note.as_deref(), Some("fine"));
    let working = LocalWorker::start(db.worker(()).register(ship));
    assert_eq!(run.result().await.unwrap(), "true ann fine");
    assert!(db.client.approvals().await.unwrap().is_empty());
    // The run has taken the decision and has ended.
    let taken = repeated(&db, run.id()).await;
    assert_eq!((taken.name, taken.payload), (by_ann.name, by_ann.payload));
    working.stop().await;
}

/// Rejects what ann has approved, and returns what the answer tells of her decision.
async fn repeated(db: &Live, run_id: RunId) -> AcceptedSignal {
    match db.client.reject(run_id, "ship", "bob").await.unwrap() {
        SignalOutcome::Repeated(first) => {
            assert_eq!(first.decision().unwrap().to_string(), "approved by ann");
            first
        }
        other => panic!("expected Repeated, got {other:?}"),
    }
}

/// An approval for which nothing was decided in time is not answered as if something were.
pub async fn an_approval_that_timed_out_is_not_asked(db: Live) {
    let working = LocalWorker::start(db.worker(()).register(briefly));
    let run = db.client.start(briefly, ()).await.unwrap();
    assert!(run.result().await.unwrap());
    let error = db.client.approve(run.id(), "ship", "ann").await.unwrap_err();
    assert!(matches!(&error, ClientError::NotAsked { asked, .. } if asked.is_empty()), "{error:?}");
    working.stop().await;
}

#[workflow]
async fn briefly(ctx: &Ctx) -> Result<bool> {
    Ok(ctx.approval("ship").timeout(Duration::ZERO).await?.is_none())
}

#[workflow]
async fn escalate(ctx: &Ctx) -> Result<String> {
    let first = ctx.approval("first").to("ops");
    let nap = ctx.sleep(Duration::from_millis(100));
    match futures::future::select(first, nap).await {
        futures::future::Either::Left(_) => Ok("first".into()),
        futures::future::Either::Right((_, first)) => {
            drop(first);
            let second = ctx.approval("second").to("head").await?;
            Ok(second.map(|decision| decision.by).unwrap_or_default())
        }
    }
}

/// The approval that lost the race is not listed.
pub async fn an_escalated_approval_is_no_longer_listed(db: Live) {
    let working = LocalWorker::start(db.worker(()).register(escalate).linger(Duration::ZERO));
    let run = db.client.start(escalate, ()).await.unwrap();
    holds("only the second is listed", async || {
        let keys: Vec<_> = db.client.approvals().await.unwrap().into_iter().map(|approval| approval.key).collect();
        keys == ["second"]
    })
    .await;
    db.client.approve(run.id(), "second", "zoe").await.unwrap();
    assert_eq!(run.result().await.unwrap(), "zoe");
    working.stop().await;
}

#[workflow]
async fn wait_beside_a_body(ctx: &Ctx<Probe>) -> Result<Option<u64>> {
    let body = ctx.step("body", async || {
        ctx.state().note("body");
        ctx.state().pass("body").await;
        Ok::<_, Error>(())
    });
    let (body, paid) = futures::join!(body, ctx.signal(PAID));
    body?;
    paid
}

/// A failed read of the inbox does not interrupt a running body.
pub async fn a_body_survives_an_inbox_that_cannot_be_read(db: Live) {
    let store = Arc::new(FaultyStore::new(Arc::clone(db.client.store())));
    store.fail_inboxes(2);
    let client = Client::over(Arc::clone(&store) as _, DEFAULT_PAYLOAD_LIMIT);
    let probe = Probe::new();
    let working = LocalWorker::start(Worker::new(client.clone(), probe.clone()).register(wait_beside_a_body));
    let run = client.start(wait_beside_a_body, ()).await.unwrap();
    probe.noted("body").await;
    run.signal(PAID, &7).await.unwrap();
    holds("the signal is taken", async || run.history().await.unwrap().iter().any(|row| row.step_key == "paid")).await;
    probe.open("body");
    assert_eq!(run.result().await.unwrap(), Some(7));
    assert_eq!((run.run().await.unwrap().epoch, probe.times("body")), (1, 1));
    working.stop().await;
}

#[workflow]
async fn look_once_beside_a_body(ctx: &Ctx<Probe>) -> Result<Option<u64>> {
    let body = ctx.step("body", async || Ok::<_, Error>(ctx.state().pass("body").await));
    let (body, paid) = futures::join!(body, ctx.signal(PAID).timeout(Duration::ZERO));
    body?;
    paid
}

/// A failed read of the inbox finds no signal, which does not say that none is there.
pub async fn a_wait_does_not_time_out_before_its_inbox_was_read(db: Live) {
    let store = Arc::new(FaultyStore::new(Arc::clone(db.client.store())));
    store.fail_inboxes(2);
    let client = Client::over(Arc::clone(&store) as _, DEFAULT_PAYLOAD_LIMIT);
    let probe = Probe::new();
    let runs = client.start_many(look_once_beside_a_body, vec![(); 2]).await.unwrap();
    runs[0].signal(PAID, &7).await.unwrap();
    let worker = Worker::new(client.clone(), probe.clone()).register(look_once_beside_a_body);
    let working = LocalWorker::start(worker);
    for run in &runs {
        let is_over =
            async || run.history().await.unwrap().iter().any(|row| row.step_key == "paid" && row.position.is_some());
        holds("the wait is over", is_over).await;
    }
    probe.open("body");
    assert_eq!(runs[0].result().await.unwrap(), Some(7));
    assert_eq!(runs[1].result().await.unwrap(), None);
    working.stop().await;
}

const ROUNDS: u64 = 10;

#[workflow]
async fn count_up(ctx: &Ctx) -> Result<u64> {
    let mut sum = 0;
    for _ in 0..ROUNDS {
        sum += ctx.signal(PAID).await?.unwrap_or_default();
    }
    Ok(sum)
}

/// Each wait is a park. The signals of another process arrive before, during and after the
/// park.
pub async fn a_signal_of_another_process_wakes_its_run(db: Live) {
    let working = LocalWorker::start(db.worker(()).register(count_up).linger(Duration::ZERO));
    let runs = db.client.start_many(count_up, vec![(); 20]).await.unwrap();
    let sender = db.second_client().await;
    for round in 0..ROUNDS {
        let sends = runs.iter().map(|run| sender.signal(run.id(), PAID, &round).into_future());
        for sent in futures::future::join_all(sends).await {
            assert_eq!(sent.unwrap(), SignalOutcome::Accepted);
        }
    }
    for run in &runs {
        assert_eq!(run.result().await.unwrap(), (0..ROUNDS).sum::<u64>());
    }
    working.stop().await;
}
