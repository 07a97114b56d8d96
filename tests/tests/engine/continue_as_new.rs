//! Runs that continue as new, and runs that reach the limit of their history.

use std::time::{Duration, SystemTime};

use futures::StreamExt;
use workflow_sdk::prelude::*;
use workflow_tests::log_capture::log_lines;
use workflow_tests::{Live, LocalWorker, Probe};

use crate::{failure, reaches};

pub async fn every_replay_and_generation_has_the_time_of_the_creation(db: Live) {
    #[workflow]
    async fn dated(ctx: &Ctx<Probe>, generation: u32) -> Result<()> {
        ctx.state().note(format!("{:?}", ctx.created_at()));
        ctx.sleep(Duration::from_millis(1)).await?;
        ctx.step("work", async || ok(())).await?;
        if generation < 2 { ctx.continue_as_new(generation + 1) } else { Ok(()) }
    }
    let probe = Probe::new();
    // The first run is claimed by the commit that starts it, the second one later.
    let worker = LocalWorker::start(db.worker(probe.clone()).register(dated).linger(Duration::ZERO));
    for delay in [Duration::ZERO, Duration::from_millis(5)] {
        let run = db.client.start(dated, 0).delay(delay).await.unwrap();
        run.result().await.unwrap();
        let created = format!("{:?}", SystemTime::from(run.run().await.unwrap().created_at));
        assert!(probe.times(&created) >= 3, "{created}: {:?}", probe.notes());
    }
    let mut notes = probe.notes();
    notes.dedup();
    assert_eq!(notes.len(), 2, "each run has one time: {notes:?}");
    worker.stop().await;
}

pub async fn each_generation_has_all_attempts_of_the_policy(db: Live) {
    #[workflow(retry = Retry::fixed(Duration::from_millis(1)).max_attempts(2))]
    async fn polls(ctx: &Ctx<Probe>, generation: u32) -> Result<u32> {
        let looked = ctx.step("look", async || match ctx.state().count(&format!("look {generation}")) {
            1 => Err(Error::msg("busy")),
            _ => ok(()),
        });
        looked.retry(Retry::none()).await?;
        if generation < 2 { ctx.continue_as_new(generation + 1) } else { Ok(ctx.attempt()) }
    }
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(polls));
    let run = db.client.start(polls, 0).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 2, "the last generation has failed once, too");
    assert_eq!(probe.notes().len(), 6, "{:?}", probe.notes());
    worker.stop().await;
}

pub async fn a_run_that_continues_keeps_its_handle_and_returns_its_last_result(db: Live) {
    #[workflow]
    async fn count(ctx: &Ctx<Probe>, from: u64) -> Result<(u64, u64)> {
        let (key, draw) = (ctx.idempotency_key(), ctx.uuid());
        ctx.state().note(format!("{key} {draw}"));
        ctx.publish("progress", &from)?;
        let next = ctx.step("add", async || Ok::<_, Error>(from + 10)).await?;
        ctx.emit("log", &next)?;
        if ctx.generation() < 3 {
            return ctx.continue_as_new(next);
        }
        Ok((next, ctx.generation()))
    }
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(count));
    let run = db.client.start(count, 1).key("k").tag("tenant", "a").await.unwrap();
    assert_eq!(run.result().await.unwrap(), (41, 3));
    let row = run.run().await.unwrap();
    assert_eq!((row.generation, row.input.as_str(), row.key.as_deref()), (3, "31", Some("k")));
    assert_eq!(row.tags["tenant"], "a");
    let steps: Vec<_> = run.history().await.unwrap().into_iter().filter(|row| row.step_key == "add").collect();
    assert_eq!(steps.len(), 1, "the history has only the last generation");
    assert_eq!(run.state::<u64>("progress").await.unwrap(), Some(31));
    let items: Vec<_> = run.stream::<u64>("log").map(Result::unwrap).collect().await;
    assert_eq!(items, [11, 21, 31, 41]);
    // Each generation has its own keys and random values, so their notes differ.
    let mut notes = probe.notes();
    notes.sort_unstable();
    notes.dedup();
    assert_eq!(notes.len(), 4, "{notes:?}");
    assert!(notes[0].starts_with(&run.id().to_string()));
    // The key still finds the run. The store does not keep the first input, so a start with
    // another input returns this run, too.
    for input in [1, 31] {
        assert_eq!(db.client.start(count, input).key("k").await.unwrap().id(), run.id());
    }
    worker.stop().await;
}

pub async fn an_input_of_another_type_fails_the_run(db: Live) {
    #[workflow]
    async fn wrong(ctx: &Ctx, n: u64) -> Result<u64> {
        ctx.step("a", async || Ok::<_, Error>(n)).await?;
        ctx.continue_as_new("not a number")
    }
    #[workflow]
    async fn large(ctx: &Ctx, text: String) -> Result<u64> {
        ctx.continue_as_new("x".repeat(10_000_000) + &text)
    }
    let worker = LocalWorker::start(db.worker(()).register(wrong).register(large));
    let run = db.client.start(wrong, 1).await.unwrap();
    let error = failure(run.result().await);
    assert_eq!(error.kind, ErrorKind::Refused);
    assert!(error.message.contains("the input of ctx.continue_as_new does not decode as u64"), "{error}");
    assert!(!run.history().await.unwrap().is_empty(), "the history is kept");
    let error = failure(db.client.start(large, String::new()).await.unwrap().result().await);
    assert_eq!(error.kind, ErrorKind::Refused);
    assert!(error.message.contains("next input of run"), "{error}");
    worker.stop().await;
}

pub async fn a_history_that_reaches_its_limit_fails_the_run(db: Live) {
    #[workflow]
    async fn steps(ctx: &Ctx, count: u64) -> Result<u64> {
        for number in 0..count {
            ctx.step("page", async || Ok::<_, Error>("x".repeat(100) + &number.to_string())).await?;
        }
        Ok(count)
    }
    #[workflow]
    async fn emits(ctx: &Ctx, count: u64) -> Result<u64> {
        for number in 0..count {
            ctx.emit("log", &number)?;
        }
        ctx.step("page", async || Ok::<_, Error>(())).await?;
        Ok(count)
    }
    let worker = LocalWorker::start(db.worker(()).register(steps).register(emits).history_limit(20));
    assert_eq!(db.client.start(steps, 20).await.unwrap().result().await.unwrap(), 20);
    let run = db.client.start(steps, 21).await.unwrap();
    let error = failure(run.result().await);
    assert_eq!(error.kind, ErrorKind::HistoryLimit);
    for part in ["21 steps", "20 (history_limit)", "ctx.continue_as_new"] {
        assert!(error.message.contains(part), "{part:?} in {error}");
    }
    assert_eq!(run.history().await.unwrap().len(), 20);
    let error = failure(db.client.start(emits, 21).await.unwrap().result().await);
    assert_eq!(error.kind, ErrorKind::HistoryLimit);
    let id = run.id().to_string();
    assert_eq!(log_lines(&[&id, "WARN", "grows large"]).len(), 1, "one warning per drive");
    worker.stop().await;

    let worker = LocalWorker::start(db.worker(()).register(steps).history_bytes_limit(1030));
    assert_eq!(db.client.start(steps, 10).await.unwrap().result().await.unwrap(), 10);
    let error = failure(db.client.start(steps, 11).await.unwrap().result().await);
    assert_eq!(error.kind, ErrorKind::HistoryLimit);
    assert!(error.message.contains("1030 (history_bytes_limit)"), "{error}");
    worker.stop().await;
}

pub async fn a_history_above_its_limit_fails_before_the_workflow_is_called(db: Live) {
    #[workflow]
    async fn long(ctx: &Ctx<Probe>) -> Result<()> {
        ctx.state().note("called");
        for _ in 0..10 {
            ctx.step("page", async || Ok::<_, Error>(())).await?;
        }
        ctx.signal::<()>("go").await.map(drop)
    }
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(long).linger(Duration::ZERO));
    let run = db.client.start(long, ()).await.unwrap();
    reaches(&run, RunStatus::Parked).await;
    worker.stop().await;
    let calls = probe.times("called");
    let worker = LocalWorker::start(db.worker(probe.clone()).register(long).history_limit(9));
    run.signal("go", &()).await.unwrap();
    let error = failure(run.result().await);
    assert_eq!(error.kind, ErrorKind::HistoryLimit);
    assert!(error.message.contains("10 steps"), "{error}");
    assert_eq!(probe.times("called"), calls, "the workflow was not called again");
    worker.stop().await;
}

pub async fn a_limit_of_zero_is_refused(db: Live) {
    #[workflow]
    async fn nothing(ctx: &Ctx) -> Result<u64> {
        Ok(ctx.generation())
    }
    for worker in [db.worker(()).history_limit(0), db.worker(()).history_bytes_limit(0)] {
        let refused = worker.register(nothing).run_until(std::future::pending()).await;
        assert!(matches!(refused, Err(workflow_worker::WorkerError::ZeroHistoryLimit)), "{refused:?}");
    }
}

pub async fn a_run_that_is_asked_to_cancel_does_not_continue(db: Live) {
    #[workflow]
    async fn forever(ctx: &Ctx<Probe>, n: u64) -> Result<u64> {
        let next = ctx.step("add", async || Ok::<_, Error>(n + 1)).await?;
        ctx.state().note(format!("generation {}", ctx.generation()));
        ctx.continue_as_new(next)
    }
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(forever));
    let run = db.client.start(forever, 0).await.unwrap();
    probe.noted("generation 3").await;
    run.cancel().await.unwrap();
    assert!(matches!(run.result().await, Err(workflow_sdk::ClientError::RunCanceled { .. })));
    worker.stop().await;
}
