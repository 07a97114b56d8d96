use std::time::{Duration, Instant};

use workflow_sdk::prelude::*;
use workflow_sdk::{AttemptStatus, RunFilter};
use workflow_tests::log_capture::log_lines;
use workflow_tests::{Live, LocalWorker, Probe, until};

use crate::{failure, reaches};

/// Longer than any case takes: an open circuit stays open.
const HOUR: Duration = Duration::from_secs(3600);
/// How long a circuit stays open in the cases that close it again.
const PAUSE: Duration = Duration::from_millis(300);

/// Starts runs that each fail once, and waits until they have ended.
async fn fail_runs<W: Workflow<Input = bool>>(db: &Live, workflow: fn() -> W, runs: usize) {
    for run in db.client.start_many(workflow(), vec![false; runs]).await.unwrap() {
        assert!(run.result().await.is_err());
    }
}

pub async fn an_open_circuit_parks_runs_and_calls_no_body(db: Live) {
    const BANK: Breaker = Breaker::new("bank").failures(5).open_for(HOUR);
    const HELD: usize = 20;

    #[workflow]
    async fn pay_bank(ctx: &Ctx<Probe>, works: bool) -> Result<usize> {
        let body = async || {
            let calls = ctx.state().count("call");
            if works { Ok(calls) } else { Err("the bank is down") }
        };
        ctx.step("charge", body).breaker(BANK).retry(Retry::none()).await
    }
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(pay_bank).linger(Duration::ZERO));
    fail_runs(&db, || pay_bank, 4).await;
    let run = db.client.start(pay_bank, true).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 5, "four failures do not open the circuit");
    fail_runs(&db, || pay_bank, 1).await;
    let held = db.client.start_many(pay_bank, vec![true; HELD]).await.unwrap();
    for run in &held {
        reaches(run, RunStatus::Parked).await;
    }
    assert_eq!(probe.times("call"), 6, "no body of the parked runs was called");
    let run = held[0].run().await.unwrap();
    assert_eq!((run.worker_id, run.error), (None, None), "the run waits as in a back-off");
    assert_eq!(held[0].history().await.unwrap(), [], "a step that has not begun is not in the history");
    for run in &held {
        run.cancel().await.unwrap();
    }
    worker.stop().await;
}

pub async fn one_probe_at_a_time_tests_an_open_circuit(db: Live) {
    const BANK: Breaker = Breaker::new("bank").failures(5).open_for(PAUSE);
    const RUNS: usize = 30;

    #[workflow]
    async fn pay_later(ctx: &Ctx<Probe>, works: bool) -> Result<u32> {
        let probe = ctx.state();
        let body = async || {
            // The first two probes find that the bank is still down.
            if !works || probe.count("probe") <= 2 {
                return Err("the bank is down");
            }
            probe.pass("answer").await;
            probe.note("worked");
            Ok(ctx.attempt())
        };
        let attempts = if works { 100 } else { 1 };
        let retry = Retry::fixed(Duration::from_millis(1)).max_attempts(attempts);
        ctx.step("charge", body).breaker(BANK).retry(retry).await
    }
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(pay_later).linger(Duration::ZERO));
    fail_runs(&db, || pay_later, 5).await;
    let opened = Instant::now();
    let runs = db.client.start_many(pay_later, vec![true; RUNS]).await.unwrap();
    until("a probe waits for its answer", async || (probe.times("probe") >= 3).then_some(())).await;
    let parked = RunFilter::new().workflow("pay_later").status(RunStatus::Parked);
    let some = async || (db.client.list(&parked).await.unwrap().len() > RUNS / 2).then_some(());
    until("most of the others are parked", some).await;
    // After PAUSE, a probe without an answer makes room for another one. A slow machine has
    // more probes.
    let probes = probe.times("probe");
    let most = 2 + opened.elapsed().as_millis() / PAUSE.as_millis();
    assert!(probes as u128 <= most, "{probes} probes, at most {most} if they run one at a time");
    probe.open("answer");
    let mut second_attempts = 0;
    for run in &runs {
        second_attempts += usize::from(run.result().await.unwrap() > 1);
        let history = run.history().await.unwrap();
        let succeeded = history.iter().filter(|row| row.status == AttemptStatus::Succeeded).count();
        assert_eq!(succeeded, 1, "{history:#?}");
    }
    assert!((1..=2).contains(&second_attempts), "only a called body uses an attempt");
    assert_eq!((probe.times("worked"), probe.times("probe")), (RUNS, RUNS + 2));
    worker.stop().await;
}

pub async fn a_fatal_error_does_not_open_a_circuit(db: Live) {
    const BANK: Breaker = Breaker::new("bank").failures(1).open_for(HOUR);

    #[workflow]
    async fn pay_wrongly(ctx: &Ctx, works: bool) -> Result<()> {
        let body = async || if works { Ok(()) } else { Err(Error::fatal("no such account")) };
        ctx.step("charge", body).breaker(BANK).await
    }
    let worker = LocalWorker::start(db.worker(()).register(pay_wrongly));
    fail_runs(&db, || pay_wrongly, 3).await;
    db.client.start(pay_wrongly, true).await.unwrap().result().await.unwrap();
    worker.stop().await;
}

pub async fn steps_of_one_name_share_a_circuit_and_others_do_not(db: Live) {
    #[workflow]
    async fn call_by_name(ctx: &Ctx<Probe>, (step, service): (String, String)) -> Result<()> {
        let breaker = Breaker::named(service).failures(1).open_for(HOUR);
        let body = async || {
            ctx.state().note(&step);
            if step == "bad" { Err("down") } else { Ok(()) }
        };
        ctx.step(&step, body).breaker(breaker).retry(Retry::none()).await
    }
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(call_by_name).linger(Duration::ZERO));
    let start = async |step: &str, service: &str| {
        db.client.start(call_by_name, (step.to_owned(), service.to_owned())).await.unwrap()
    };
    assert_eq!(failure(start("bad", "bank").await.result().await).message, "down");
    let held = start("other step", "bank").await;
    reaches(&held, RunStatus::Parked).await;
    start("good", "post").await.result().await.unwrap();
    assert_eq!(probe.notes(), ["bad", "good"]);
    held.cancel().await.unwrap();
    worker.stop().await;
}

pub async fn an_opening_is_logged_once(db: Live) {
    #[workflow]
    async fn print(ctx: &Ctx, service: String) -> Result<()> {
        let breaker = Breaker::named(format!("printer of {service}")).failures(2).open_for(HOUR);
        ctx.step("print", async || Err("out of paper")).breaker(breaker).retry(Retry::none()).await
    }
    let worker = LocalWorker::start(db.worker(()).register(print).linger(Duration::ZERO));
    let service = db.database.name().to_owned();
    for _ in 0..2 {
        let run = db.client.start(print, service.clone()).await.unwrap();
        assert_eq!(failure(run.result().await).message, "out of paper");
    }
    let held = db.client.start(print, service.clone()).await.unwrap();
    reaches(&held, RunStatus::Parked).await;
    let lines = log_lines(&["circuit", &service]);
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(lines[0].contains("WARN") && lines[0].contains("circuit opened"), "{lines:#?}");
    assert!(lines[0].contains("step \"print\": application"), "{lines:#?}");
    held.cancel().await.unwrap();
    worker.stop().await;
}
