//! Limits for steps, over several workers.

use std::sync::Arc;
use std::time::Instant;

use futures::future::{Either, select};
use workflow_engine::model::LimitChange;
use workflow_engine::store::{LimitWrite, Write};
use workflow_sdk::prelude::*;
use workflow_sdk::{Client, Explanation, GateLimits, LimitRule, QueueLimits, RunStatus};
use workflow_tests::{Gauge, Live, LocalWorker, Probe, outcome, until};
use workflow_worker::{Limit, Queue, Worker, WorkerError};

use crate::gates;

const LIMIT: u32 = 3;

/// Two limited steps, of which the first fails once.
#[workflow]
async fn ask(ctx: &Ctx<Arc<Gauge>>, number: usize) -> Result<usize> {
    let body = async || {
        let _inside = ctx.state().enter();
        tokio::task::yield_now().await;
        if ctx.attempt() == 1 && number.is_multiple_of(7) { Err(Error::msg("it fails once")) } else { Ok(number) }
    };
    let first = ctx.step("first", body).limit("llm", "acct-42").retry(Retry::fixed(Duration::ZERO)).await?;
    ctx.step("second", body)
        .limit("llm", "acct-42")
        .retry(Retry::fixed(Duration::ZERO))
        .await
        .map(|second| first + second)
}

fn limited(client: Client, gauge: &Arc<Gauge>) -> Worker<Arc<Gauge>> {
    Worker::new(client, Arc::clone(gauge)).register(ask).limit(Limit::new("llm").concurrency(LIMIT))
}

pub async fn the_limit_of_steps_holds_over_workers(db: Live) {
    let gauge = Arc::new(Gauge::default());
    let clients = [db.client.clone(), db.second_client().await];
    // One parks at once, the other one keeps its runs in memory.
    let lingers = [Duration::ZERO, Duration::from_secs(60)].into_iter();
    let workers = clients.into_iter().zip(lingers);
    let workers: Vec<_> =
        workers.map(|(client, linger)| LocalWorker::start(limited(client, &gauge).linger(linger))).collect();
    until("the limit is declared", async || db.client.limit("llm").record().await.unwrap()).await;
    let mut runs = Vec::new();
    for number in 0..40 {
        runs.push(db.client.start(ask, number).await.unwrap());
    }
    for (number, run) in runs.iter().enumerate() {
        assert_eq!(run.result().await.unwrap(), 2 * number);
    }
    let most = gauge.most();
    assert!((1..=LIMIT as usize).contains(&most), "{most} bodies at once");
    let record = db.client.limit("llm").record().await.unwrap().unwrap();
    assert_eq!((record.declared, record.overridden), (Some(LimitRule::none().concurrency(LIMIT)), None));
    for run in runs {
        assert_eq!(db.client.store().seat_waits(run.id()).await.unwrap(), [], "no row is left");
    }
    for worker in workers {
        worker.stop().await;
    }
}

#[workflow]
async fn hold(ctx: &Ctx<Probe>, gate: String) -> Result<()> {
    ctx.step("hold", async || {
        ctx.state().note(format!("begun {gate}"));
        ok(ctx.state().pass(&gate).await)
    })
    .limit("llm", "acct-42")
    .await
}

#[workflow]
async fn plain(ctx: &Ctx<Probe>) -> Result<()> {
    ctx.step("plain", async || ok(())).await
}

fn holder(client: Client, probe: &Probe, bodies: u32) -> Worker<Probe> {
    let worker = Worker::new(client, probe.clone()).register(hold).register(plain).register(race);
    worker.limit(Limit::new("llm").concurrency(bodies))
}

/// Returns once a step of this run waits for a seat.
async fn waits(db: &Live, run: RunId) -> Explanation {
    until("it waits for a seat", async || {
        let said = db.client.explain(run).await.unwrap();
        matches!(said, Explanation::WaitsForSeat { .. }).then_some(said)
    })
    .await
}

/// A run that waits for a seat occupies no permit: a worker with one permit drives another run.
pub async fn a_run_that_waits_for_a_seat_lets_others_go_on_and_is_explained(db: Live) {
    let probe = Probe::new();
    let other = LocalWorker::start(holder(db.second_client().await, &probe, 1).concurrency(1));
    let first = db.client.start(hold, "first".into()).await.unwrap();
    probe.noted("begun first").await;
    let worker = LocalWorker::start(holder(db.client.clone(), &probe, 1).concurrency(1).linger(Duration::ZERO));
    let mut waiting = Vec::new();
    for number in 0..3 {
        let run = db.client.start(hold, format!("{number}")).await.unwrap();
        waits(&db, run.id()).await;
        until("it is parked", async || (run.status().await.unwrap() == RunStatus::Parked).then_some(())).await;
        waiting.push(run);
    }
    let said = waits(&db, waiting[2].id()).await.to_string();
    let expected = "for a seat of limit llm for key acct-42: 1 of 1 are taken, and 2 steps wait before it";
    assert!(said.starts_with("step \"hold\" waits since ") && said.ends_with(expected), "{said}");
    db.client.start(plain, ()).await.unwrap().result().await.unwrap();

    // First come, first served.
    probe.open("first");
    first.result().await.unwrap();
    for (number, run) in waiting.iter().enumerate() {
        probe.noted(&format!("begun {number}")).await;
        let later = (number + 1..3).map(|later| probe.times(&format!("begun {later}")));
        assert_eq!(later.sum::<usize>(), 0, "{number} is the next");
        probe.open(&format!("{number}"));
        run.result().await.unwrap();
    }
    worker.stop().await;
    other.stop().await;
}

pub async fn a_limit_for_steps_is_raised_and_lowered_without_a_restart(db: Live) {
    let probe = Probe::new();
    let worker = LocalWorker::start(holder(db.client.clone(), &probe, 1));
    let gates = ["a", "b", "c", "d"];
    let mut runs = Vec::new();
    for gate in gates {
        let run = db.client.start(hold, gate.into()).await.unwrap();
        if gate == "a" {
            probe.noted("begun a").await
        } else {
            drop(waits(&db, run.id()).await)
        }
        runs.push(run);
    }
    let llm = db.client.limit("llm");
    // Without the look of the handle: the worker finds the free seats.
    let change = LimitChange::Override(Some(LimitRule::none().concurrency(3)));
    let raised = Write::Limit(LimitWrite { limit: "llm".into(), change });
    outcome::applied(&db.client.executor().commit(raised).await.unwrap());
    probe.noted("begun b").await;
    probe.noted("begun c").await;
    llm.set(LimitRule::none().concurrency(1)).await.unwrap();
    for gate in ["a", "b"] {
        probe.open(gate);
    }
    for run in &runs[..2] {
        run.result().await.unwrap();
    }
    let said = waits(&db, runs[3].id()).await;
    assert!(matches!(said, Explanation::WaitsForSeat { concurrency: Some(1), taken: 1, ahead: 0, .. }), "{said:?}");
    assert_eq!(probe.times("begun d"), 0);
    llm.clear().await.unwrap();
    for gate in ["c", "d"] {
        probe.open(gate);
    }
    for run in &runs[2..] {
        run.result().await.unwrap();
    }
    worker.stop().await;
}

/// Another process raises the limits of a queue, of a gate and of steps. The worker learns of a
/// change by its own looks only, so a change right after one waits for the next one: the first
/// change of each limit is not measured.
pub async fn a_changed_limit_holds_within_two_seconds(db: Live) {
    const WITHIN: Duration = Duration::from_secs(2);
    const MOST: u32 = 5;
    let (probe, kinds) = (Probe::new(), ["mail", "imports", "asks"]);
    let worker = Worker::new(db.client.clone(), probe.clone()).register(gates::hold);
    let imports = Queue::new("imports").per_gate(GateLimits::none().concurrency(1));
    let worker = LocalWorker::start(worker.queue(Queue::new("mail").concurrency(1)).queue(imports));
    let limited = LocalWorker::start(holder(db.client.clone(), &probe, 1));
    let begun = |kind: &str| {
        let note = format!("begun {kind} ");
        probe.notes().iter().filter(|begun| begun.starts_with(&note)).count()
    };
    // The worker has declared the limit of steps before it begins one.
    until("the limit is declared", async || db.client.limit("llm").record().await.unwrap()).await;
    let mut runs = Vec::new();
    for number in 0..MOST {
        let mail = db.client.start(gates::hold, format!("mail {number}")).queue("mail");
        runs.push(mail.await.unwrap());
        let imports = db.client.start(gates::hold, format!("imports {number}")).queue("imports");
        runs.push(imports.gate("acct-1").await.unwrap());
        runs.push(db.client.start(hold, format!("asks {number}")).await.unwrap());
    }
    until("one of each begins", async || kinds.into_iter().all(|kind| begun(kind) == 1).then_some(())).await;

    let operator = db.second_client().await;
    for kind in kinds {
        let mut fastest = Duration::MAX;
        for bodies in 2..=MOST {
            let changed = Instant::now();
            match kind {
                "mail" => {
                    let limits = QueueLimits::none().concurrency(bodies);
                    operator.queue(kind).set_limits(limits).await.unwrap();
                }
                "imports" => {
                    let limits = QueueLimits::none().per_gate(GateLimits::none().concurrency(bodies));
                    operator.queue(kind).set_limits(limits).await.unwrap();
                }
                _ => {
                    // Without the look of the handle: the worker finds the free seats.
                    let change = LimitChange::Override(Some(LimitRule::none().concurrency(bodies)));
                    let raised = Write::Limit(LimitWrite { limit: "llm".into(), change });
                    outcome::applied(&operator.executor().commit(raised).await.unwrap());
                }
            }
            let bodies = bodies as usize;
            until("one more begins", async || (begun(kind) >= bodies).then_some(())).await;
            if bodies > 2 {
                fastest = fastest.min(changed.elapsed());
            }
            assert_eq!(begun(kind), bodies, "{kind}");
        }
        assert!(fastest < WITHIN, "{kind}: {fastest:?}");
    }
    for number in 0..MOST {
        kinds.iter().for_each(|kind| probe.open(&format!("{kind} {number}")));
    }
    for run in runs {
        run.result().await.unwrap();
    }
    worker.stop().await;
    limited.stop().await;
}

/// The worker that holds the seat dies, as far as the database can see.
pub async fn the_seat_of_a_worker_that_died_is_used_again(db: Live) {
    let probe = Probe::new();
    let dying = holder(db.client.clone(), &probe, 1).lease(Duration::from_secs(3));
    let dying = LocalWorker::start(dying);
    let first = db.client.start(hold, "first".into()).await.unwrap();
    probe.noted("begun first").await;
    let worker = LocalWorker::start(holder(db.second_client().await, &probe, 1).lease(Duration::from_secs(3)));
    let second = db.client.start(hold, "second".into()).await.unwrap();
    waits(&db, second.id()).await;
    dying.abort().await;
    // Both gates are open for the second body of each run only.
    probe.open("first");
    probe.open("second");
    first.result().await.unwrap();
    second.result().await.unwrap();
    worker.stop().await;
}

pub async fn a_canceled_run_leaves_the_line(db: Live) {
    let probe = Probe::new();
    let worker = LocalWorker::start(holder(db.client.clone(), &probe, 1).linger(Duration::ZERO));
    let first = db.client.start(hold, "first".into()).await.unwrap();
    probe.noted("begun first").await;
    let second = db.client.start(hold, "second".into()).await.unwrap();
    waits(&db, second.id()).await;
    let third = db.client.start(hold, "third".into()).await.unwrap();
    waits(&db, third.id()).await;
    db.client.cancel(second.id()).await.unwrap();
    until("it is canceled", async || (second.status().await.unwrap() == RunStatus::Canceled).then_some(())).await;
    let said = waits(&db, third.id()).await;
    assert!(matches!(said, Explanation::WaitsForSeat { ahead: 0, .. }), "{said:?}");
    // A run that is ended without its worker gives its seat back too.
    db.client.terminate(first.id()).await.unwrap();
    probe.noted("begun third").await;
    probe.open("third");
    third.result().await.unwrap();
    assert_eq!(probe.times("begun second"), 0);
    worker.stop().await;
}

/// A signal wins against a step that waits for its seat.
#[workflow]
async fn race(ctx: &Ctx<Probe>) -> Result<String> {
    let step = ctx.step("ask", async || ok("asked".to_owned())).limit("llm", "acct-42");
    let signal = std::pin::pin!(ctx.signal::<String>("skip"));
    let first = match select(step, signal).await {
        Either::Left((asked, _)) => asked?,
        Either::Right((skipped, _)) => skipped?.unwrap_or_default(),
    };
    ctx.sleep(Duration::from_millis(1)).await?;
    Ok(first)
}

pub async fn a_step_that_loses_a_race_leaves_the_line(db: Live) {
    let probe = Probe::new();
    let worker = LocalWorker::start(holder(db.client.clone(), &probe, 1).linger(Duration::ZERO));
    let first = db.client.start(hold, "first".into()).await.unwrap();
    probe.noted("begun first").await;
    let racing = db.client.start(race, ()).await.unwrap();
    waits(&db, racing.id()).await;
    let last = db.client.start(hold, "last".into()).await.unwrap();
    waits(&db, last.id()).await;
    racing.signal("skip", &"skipped".to_owned()).await.unwrap();
    assert_eq!(racing.result().await.unwrap(), "skipped");
    let said = waits(&db, last.id()).await;
    assert!(matches!(said, Explanation::WaitsForSeat { ahead: 0, .. }), "{said:?}");
    probe.open("first");
    probe.open("last");
    first.result().await.unwrap();
    last.result().await.unwrap();
    worker.stop().await;
}

#[workflow]
async fn refused(ctx: &Ctx, (limit, key): (String, String)) -> Result<String> {
    let refused = ctx.step("ask", async || ok(())).limit(limit, key).await.unwrap_err();
    ctx.sleep(Duration::from_millis(10)).await?;
    Ok(refused.to_string())
}

/// One worker parks at once, the other one keeps its runs in memory.
pub async fn the_steps_that_wait_for_a_cleared_limit_are_refused(db: Live) {
    let llm = db.client.limit("llm");
    llm.set(LimitRule::none().concurrency(0)).await.unwrap();
    let clients = [db.client.clone(), db.second_client().await];
    let lingers = [Duration::ZERO, Duration::from_secs(60)].into_iter();
    let worker = |(client, linger)| LocalWorker::start(Worker::new(client, ()).register(refused).linger(linger));
    let workers: Vec<_> = clients.into_iter().zip(lingers).map(worker).collect();
    let mut runs = Vec::new();
    for number in 0..6 {
        let run = db.client.start(refused, ("llm".to_owned(), format!("acct-{}", number % 2))).await.unwrap();
        waits(&db, run.id()).await;
        runs.push(run);
    }
    llm.clear().await.unwrap();
    for run in runs {
        let said = run.result().await.unwrap();
        assert!(said.contains("no worker has declared the limit \"llm\""), "{said}");
        assert_eq!(db.client.store().seat_waits(run.id()).await.unwrap(), [], "no row is left");
    }
    for worker in workers {
        worker.stop().await;
    }
}

#[workflow]
async fn limited_twice(ctx: &Ctx) -> Result<String> {
    let refused = ctx.step("ask", async || ok(())).limit("llm", "a").limit("bank", "a").await.unwrap_err();
    Ok(refused.to_string())
}

/// The answer is the same after a park, because the refusal is the step's outcome.
pub async fn limits_that_are_not_declared_and_bad_names_are_refused(db: Live) {
    let worker = Worker::new(db.client.clone(), ()).register(refused).register(limited_twice);
    let worker = LocalWorker::start(worker.linger(Duration::ZERO));
    let says = async |limit: &str, key: &str| {
        let run = db.client.start(refused, (limit.to_owned(), key.to_owned())).await.unwrap();
        run.result().await.unwrap()
    };
    let said = says("llm", "a").await;
    assert!(said.contains("no worker has declared the limit \"llm\"; declare it with Worker::limit("), "{said}");
    assert!(says("", "a").await.contains("limit name \"\" is empty"));
    assert!(says("llm", "a\nb").await.contains("limit key \"a\\nb\" has the control character"));
    assert!(says("llm", &"k".repeat(256)).await.contains("is 256 bytes long; use 1 to 255 bytes"));
    let twice = db.client.start(limited_twice, ()).await.unwrap().result().await.unwrap();
    assert!(twice.contains("the step has the limit \"llm\" already, and \"bank\" would be a second one"), "{twice}");
    worker.stop().await;

    let text = db.client.limit("a\nb").set(LimitRule::none()).await.unwrap_err().to_string();
    assert!(text.contains("limit name \"a\\nb\" has the control character"), "{text}");
    let declared = |limits: [Limit; 2]| {
        let worker = Worker::new(db.client.clone(), ()).register(refused);
        limits.into_iter().fold(worker, Worker::limit).run_until(std::future::pending())
    };
    let [one, two] = [1, 2].map(|bodies| Limit::new("llm").concurrency(bodies));
    let text = declared([one, two]).await.unwrap_err().to_string();
    assert!(text.contains("limit \"llm\" is declared with two rules"), "{text}");
    assert!(matches!(declared([Limit::new("a"), Limit::new("")]).await, Err(WorkerError::Name(_))));
    assert_eq!(db.client.limits().await.unwrap(), [], "nothing was written");
}
