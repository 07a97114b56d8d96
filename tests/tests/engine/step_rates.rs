//! Rates of limits for steps, over several workers.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use workflow_sdk::prelude::*;
use workflow_sdk::{Client, Explanation, LimitRule, Rate, RunStatus};
use workflow_tests::{Live, LocalWorker, Probe, until};
use workflow_worker::{Limit, Worker, WorkerError};

/// When the bodies began.
type Begins = Arc<Mutex<Vec<Instant>>>;

/// Returns the begins in their order, as times since `start`.
fn since(start: Instant, begins: &Begins) -> Vec<Duration> {
    let mut begins: Vec<Duration> = begins.lock().unwrap().iter().map(|at| at.duration_since(start)).collect();
    begins.sort();
    begins
}

#[workflow]
async fn call(ctx: &Ctx<Begins>, fails: u32) -> Result<u32> {
    let body = async || {
        ctx.state().lock().unwrap().push(Instant::now());
        if ctx.attempt() <= fails { Err(Error::msg("it fails")) } else { Ok(fails) }
    };
    ctx.step("call", body).limit("llm", "acct-42").retry(Retry::fixed(Duration::ZERO)).await
}

fn caller(client: Client, begins: &Begins, rate: Rate) -> Worker<Begins> {
    Worker::new(client, Arc::clone(begins)).register(call).limit(Limit::new("llm").rate(rate))
}

pub async fn bodies_begin_at_the_rate_of_their_limit_over_workers(db: Live) {
    const RUNS: u32 = 20;
    let interval = Duration::from_millis(50);
    let (begins, rate) = (Begins::default(), Rate::per_second(20).burst(3));
    let clients = [db.client.clone(), db.second_client().await];
    // One parks at once, the other one keeps its runs in memory.
    let lingers = [Duration::ZERO, Duration::from_secs(60)].into_iter();
    let workers = clients.into_iter().zip(lingers);
    let workers: Vec<_> =
        workers.map(|(client, linger)| LocalWorker::start(caller(client, &begins, rate).linger(linger))).collect();
    until("the limit is declared", async || db.client.limit("llm").record().await.unwrap()).await;
    let start = Instant::now();
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        runs.push(db.client.start(call, 0).await.unwrap());
    }
    for run in runs {
        run.result().await.unwrap();
    }
    let begins = since(start, &begins);
    assert_eq!(begins.len(), RUNS as usize);
    for (number, at) in (0..).zip(&begins) {
        let earliest = interval * u32::saturating_sub(number, 2);
        // The clocks of two processes may differ a little.
        assert!(*at + Duration::from_millis(5) >= earliest, "body {number} at {at:?}: {begins:?}");
    }
    assert_eq!(db.client.limit("llm").record().await.unwrap().unwrap().declared, Some(LimitRule::none().rate(rate)));
    for worker in workers {
        worker.stop().await;
    }
}

#[workflow]
async fn note(ctx: &Ctx<Probe>, name: String) -> Result<()> {
    ctx.step("note", async || ok(ctx.state().note(format!("begun {name}")))).limit("llm", "acct-42").await
}

#[workflow]
async fn plain(ctx: &Ctx<Probe>) -> Result<()> {
    ctx.step("plain", async || ok(())).await
}

fn noter(client: Client, probe: &Probe, rate: Rate) -> Worker<Probe> {
    let worker = Worker::new(client, probe.clone()).register(note).register(plain);
    worker.limit(Limit::new("llm").rate(rate))
}

/// Returns once a step of this run waits for a seat, and is parked.
async fn waits(db: &Live, run: RunId) -> Explanation {
    until("it waits for the rate", async || {
        let said = db.client.explain(run).await.unwrap();
        let is_parked = db.client.handle::<()>(run).await.unwrap().status().await.unwrap() == RunStatus::Parked;
        (is_parked && matches!(said, Explanation::WaitsForSeat { .. })).then_some(said)
    })
    .await
}

/// A run that waits for a rate occupies no permit: a worker with one permit drives another run.
pub async fn a_step_that_waits_for_a_rate_lets_others_go_on_and_is_explained(db: Live) {
    let (probe, rate) = (Probe::new(), Rate::per(Duration::from_secs(5), 1));
    let worker = noter(db.client.clone(), &probe, rate).concurrency(1).linger(Duration::ZERO);
    let worker = LocalWorker::start(worker);
    db.client.start(note, "first".into()).await.unwrap().result().await.unwrap();
    let mut waiting = Vec::new();
    for name in ["second", "third"] {
        let run = db.client.start(note, name.into()).await.unwrap();
        waits(&db, run.id()).await;
        waiting.push(run);
    }
    let said = waits(&db, waiting[1].id()).await;
    let Explanation::WaitsForSeat { begins_at: Some(begins_at), since, ahead: 1, .. } = said else {
        panic!("{said:?}")
    };
    let wait = begins_at.since(since);
    assert!(wait > Duration::from_secs(5) && wait <= Duration::from_secs(10), "{wait:?}");
    let expected = format!(
        "for a seat of limit llm for key acct-42: any number may be taken, the rate (1 per 5 s) lets it begin at \
         {begins_at}, and 1 step waits before it"
    );
    assert!(said.to_string().ends_with(&expected), "{said}");
    db.client.start(plain, ()).await.unwrap().result().await.unwrap();
    for run in waiting {
        run.result().await.unwrap();
    }
    assert_eq!(probe.notes(), ["begun first", "begun second", "begun third"]);
    worker.stop().await;
}

pub async fn each_attempt_counts_for_the_rate(db: Live) {
    let interval = Duration::from_millis(300);
    let begins = Begins::default();
    let worker = LocalWorker::start(caller(db.client.clone(), &begins, Rate::per(interval, 1)));
    let start = Instant::now();
    db.client.start(call, 3).await.unwrap().result().await.unwrap();
    let begins = since(start, &begins);
    assert_eq!(begins.len(), 4);
    for (number, at) in (0..).zip(&begins) {
        assert!(*at + Duration::from_millis(5) >= interval * number, "{begins:?}");
    }
    worker.stop().await;
}

pub async fn a_rate_is_changed_without_a_restart(db: Live) {
    let (probe, hour) = (Probe::new(), Duration::from_secs(3600));
    let worker = noter(db.client.clone(), &probe, Rate::per(hour, 1)).linger(Duration::ZERO);
    let worker = LocalWorker::start(worker);
    db.client.start(note, "first".into()).await.unwrap().result().await.unwrap();
    let second = db.client.start(note, "second".into()).await.unwrap();
    waits(&db, second.id()).await;
    let llm = db.client.limit("llm");
    llm.set(LimitRule::none().rate(Rate::per_second(10))).await.unwrap();
    second.result().await.unwrap();
    llm.clear().await.unwrap();
    // The slower rate has its burst of one for the third.
    db.client.start(note, "third".into()).await.unwrap().result().await.unwrap();
    let fourth = db.client.start(note, "fourth".into()).await.unwrap();
    waits(&db, fourth.id()).await;
    llm.set(LimitRule::none()).await.unwrap();
    fourth.result().await.unwrap();
    worker.stop().await;
}

/// The worker dies, as far as the database can see, while it waits for the rate.
pub async fn a_step_of_a_worker_that_died_begins_at_the_rate(db: Live) {
    let (probe, rate) = (Probe::new(), Rate::per(Duration::from_secs(2), 1));
    let dying = noter(db.client.clone(), &probe, rate).lease(Duration::from_secs(3)).linger(Duration::from_secs(60));
    let dying = LocalWorker::start(dying);
    db.client.start(note, "first".into()).await.unwrap().result().await.unwrap();
    let second = db.client.start(note, "second".into()).await.unwrap();
    until("it waits for the rate", async || {
        matches!(second.explain().await.unwrap(), Explanation::WaitsForSeat { .. }).then_some(())
    })
    .await;
    dying.abort().await;
    let worker = LocalWorker::start(noter(db.second_client().await, &probe, rate).lease(Duration::from_secs(3)));
    second.result().await.unwrap();
    assert_eq!(probe.notes(), ["begun first", "begun second"]);
    worker.stop().await;
}

/// The step that leaves had told the one behind it a later time.
pub async fn a_step_behind_one_that_leaves_begins_earlier(db: Live) {
    let (probe, interval) = (Probe::new(), Duration::from_secs(4));
    let worker = noter(db.client.clone(), &probe, Rate::per(interval, 1)).linger(Duration::ZERO);
    let worker = LocalWorker::start(worker);
    db.client.start(note, "first".into()).await.unwrap().result().await.unwrap();
    let second = db.client.start(note, "second".into()).await.unwrap();
    waits(&db, second.id()).await;
    let third = db.client.start(note, "third".into()).await.unwrap();
    let said = waits(&db, third.id()).await;
    let Explanation::WaitsForSeat { begins_at: Some(later), .. } = said else { panic!("{said:?}") };
    second.cancel().await.unwrap();
    third.result().await.unwrap();
    let row = db.client.export(third.id()).await.unwrap();
    let began = row.steps.iter().find(|row| row.step_key == "note").expect("the step").started_at;
    assert!(later.since(began) > interval / 2, "it began at {began}, and would have at {later}");
    assert_eq!(probe.times("begun second"), 0);
    worker.stop().await;
}

pub async fn rates_of_limits_that_cannot_be_used_are_refused(db: Live) {
    let refused = db.client.limit("llm").set(LimitRule::none().rate(Rate::per_second(0))).await.unwrap_err();
    assert!(matches!(refused, ClientError::Rate(_)), "{refused:?}");
    assert!(refused.to_string().contains("0 per 1 s cannot be used: it lets nothing begin"), "{refused}");
    let declared = |limits: [Limit; 2]| {
        let worker = Worker::new(db.client.clone(), Probe::new()).register(note);
        limits.into_iter().fold(worker, Worker::limit).run_until(std::future::pending())
    };
    let limit = |rate: Rate| Limit::new("llm").concurrency(1).rate(rate);
    let refused = declared([limit(Rate::per_minute(5)), Limit::new("b").rate(Rate::per_minute(5).burst(0))]).await;
    let text = refused.as_ref().unwrap_err().to_string();
    assert!(matches!(refused, Err(WorkerError::Rate(_))) && text.contains("burst must be at least 1"), "{text}");
    let text = declared([limit(Rate::per_minute(5)), limit(Rate::per_minute(6))]).await.unwrap_err().to_string();
    assert!(text.contains("limit \"llm\" is declared with two rules"), "{text}");
    assert_eq!(db.client.limits().await.unwrap(), [], "nothing was written");
}
