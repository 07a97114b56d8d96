use std::fmt;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use workflow_sdk::prelude::*;
use workflow_sdk::{AttemptStatus, ClientError, StepAttempt};
use workflow_tests::log_capture::log_lines;
use workflow_tests::{Live, LocalWorker, Probe};
use workflow_worker::Worker;

use crate::failure;

const SOON: Duration = Duration::from_millis(20);

fn shape(history: &[StepAttempt]) -> Vec<(&str, i64, AttemptStatus, Option<i64>)> {
    history.iter().map(|row| (row.step_key.as_str(), row.attempt, row.status, row.position)).collect()
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Order {
    id: u64,
    /// Not stored, so neither the first run nor a replay may see it.
    #[serde(skip)]
    cached: u64,
}

pub async fn a_value_that_changes_in_json_is_warned_of_once_per_step(db: Live) {
    #[workflow]
    async fn lossy(ctx: &Ctx, _run: u64) -> Result<bool> {
        ctx.step("kept", async || Ok::<_, Error>((Some(1), None::<u8>))).await?;
        let mut seen = None;
        for _ in 0..3 {
            seen = ctx.step("lost", async || Ok::<_, Error>(Some(()))).await?;
        }
        Ok(seen.is_some())
    }
    let worker = LocalWorker::start(db.worker(()).register(lossy));
    let mut lines = Vec::new();
    for number in 0..2 {
        let run = db.client.start(lossy, number).await.unwrap();
        assert!(!run.result().await.unwrap(), "the workflow sees the stored value");
        lines.extend(log_lines(&["WARN", "changes in JSON", &run.id().to_string()]));
    }
    worker.stop().await;
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("step \"lost\", of type core::option::Option<()>,"), "{lines:?}");
    assert!(lines[0].contains("authoring.rs:"), "{lines:?}");
}

pub async fn a_step_returns_its_decoded_stored_value(db: Live) {
    #[workflow]
    async fn load(ctx: &Ctx) -> Result<(u64, u64)> {
        let order = ctx.step("load", async || Ok::<_, Error>(Order { id: 7, cached: 9 })).await?;
        Ok((order.id, order.cached))
    }
    let worker = LocalWorker::start(db.worker(()).register(load));
    let run = db.client.start(load, ()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), (7, 0));
    let history = run.history().await.unwrap();
    assert_eq!(shape(&history), [("load", 1, AttemptStatus::Succeeded, Some(1))]);
    assert_eq!(history[0].output.as_deref(), Some(r#"{"id":7}"#));
    worker.stop().await;
}

pub async fn a_failing_step_is_retried_by_its_policy(db: Live) {
    #[workflow]
    async fn stubborn(ctx: &Ctx<Probe>) -> Result<u32> {
        let body = async || match ctx.attempt() {
            3 => Ok(ctx.state().count("try")),
            attempt => {
                ctx.state().note("try");
                Err(Error::msg(format!("attempt {attempt} fails")))
            }
        };
        let tries = ctx.step("call", body).retry(Retry::fixed(SOON).max_attempts(5)).await?;
        assert_eq!(ctx.attempt(), 1, "the attempt outside of a step");
        Ok(u32::try_from(tries)?)
    }
    let worker = LocalWorker::start(db.worker(Probe::new()).register(stubborn));
    let run = db.client.start(stubborn, ()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 3);
    let history = run.history().await.unwrap();
    let failed = AttemptStatus::Failed;
    let expected =
        [("call", 3, AttemptStatus::Succeeded, Some(1)), ("call", 1, failed, None), ("call", 2, failed, None)];
    assert_eq!(shape(&history), expected);
    assert_eq!(history[1].error.as_ref().unwrap().message, "attempt 1 fails");
    assert_eq!(history[2].error.as_ref().unwrap().message, "attempt 2 fails");
    for (before, after) in [(&history[1], &history[2]), (&history[2], &history[0])] {
        let delay = after.started_at.since(before.completed_at.unwrap());
        assert!(delay >= SOON, "attempt {} came after {delay:?}", after.attempt);
    }
    worker.stop().await;
}

pub async fn retries_end_at_the_limit_of_the_policy(db: Live) {
    #[workflow]
    async fn hopeless(ctx: &Ctx<Probe>) -> Result<()> {
        let body = async || Err::<(), _>(format!("try {}", ctx.state().count("try")));
        ctx.step("call", body).retry(Retry::fixed(SOON).max_attempts(3)).await
    }
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(hopeless));
    let run = db.client.start(hopeless, ()).await.unwrap();
    let result = run.result().await;
    let text = format!("run {} failed: step \"call\": try 3", run.id());
    assert_eq!(result.as_ref().unwrap_err().to_string(), text);
    let error = failure(result);
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Application, "try 3"));
    assert_eq!(error.step_key.as_deref(), Some("call"));
    assert_eq!(probe.times("try"), 3);
    assert_eq!(run.status().await.unwrap(), RunStatus::Failed);
    worker.stop().await;
}

pub async fn a_fatal_error_ends_the_retries(db: Live) {
    #[workflow]
    async fn stolen(ctx: &Ctx<Probe>) -> Result<()> {
        let body = async || {
            ctx.state().note("try");
            Err::<(), _>("the card was stolen").fatal()
        };
        ctx.step("charge", body).await
    }
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(stolen));
    let run = db.client.start(stolen, ()).await.unwrap();
    let error = failure(run.result().await);
    assert_eq!((error.message.as_str(), error.fatal), ("the card was stolen", true));
    assert_eq!(probe.times("try"), 1);
    worker.stop().await;
}

pub async fn an_error_can_set_the_next_delay(db: Live) {
    #[workflow]
    async fn limited(ctx: &Ctx) -> Result<u32> {
        let body = async || match ctx.attempt() {
            1 => Err("too many requests").retry_after(SOON),
            attempt => Ok(attempt),
        };
        ctx.step("call", body).retry(Retry::fixed(Duration::from_secs(3600))).await
    }
    let worker = LocalWorker::start(db.worker(()).register(limited));
    let run = db.client.start(limited, ()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 2);
    let history = run.history().await.unwrap();
    assert!(history[0].started_at.since(history[1].completed_at.unwrap()) >= SOON);
    worker.stop().await;
}

pub async fn a_step_times_out(db: Live) {
    #[workflow]
    async fn slow(ctx: &Ctx<Probe>) -> Result<(ErrorKind, String)> {
        let probe = ctx.state();
        let body = async || {
            let _dropped = probe.on_drop("dropped");
            probe.note("begun");
            std::future::pending::<Result<()>>().await
        };
        let retry = Retry::fixed(Duration::from_millis(1)).max_attempts(2);
        let error = ctx.step("wait", body).timeout(SOON).retry(retry).await.unwrap_err();
        assert_eq!((probe.times("begun"), probe.times("dropped")), (2, 2), "the bodies are dropped");
        Ok((error.kind(), error.message().to_owned()))
    }
    let worker = LocalWorker::start(db.worker(Probe::new()).register(slow));
    let run = db.client.start(slow, ()).await.unwrap();
    let text = "attempt 2 took longer than its timeout of 20ms".to_owned();
    assert_eq!(run.result().await.unwrap(), (ErrorKind::Timeout, text));
    worker.stop().await;
}

/// Wakes itself at once, until this note is left.
async fn spin_until(probe: &Probe, note: &str) {
    poll_fn(|context| {
        context.waker().wake_by_ref();
        if probe.times(note) > 0 { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

pub async fn a_busy_body_keeps_no_timer_waiting(db: Live) {
    #[workflow]
    async fn busy(ctx: &Ctx<Probe>) -> Result<ErrorKind> {
        let body = async || Ok::<_, Error>(spin_until(ctx.state(), "never left").await);
        let step = ctx.step("spin", body).timeout(SOON).retry(Retry::none());
        let (spun, slept) = futures::join!(step, ctx.sleep(SOON));
        slept?;
        Ok(spun.unwrap_err().kind())
    }
    let worker = LocalWorker::start(db.worker(Probe::new()).register(busy));
    let run = db.client.start(busy, ()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), ErrorKind::Timeout);
    worker.stop().await;
}

/// The worker has one thread. Its other tasks claim, drive and end the second run.
pub async fn a_body_that_wakes_itself_gives_the_thread_back(db: Live) {
    #[workflow]
    async fn spins(ctx: &Ctx<Probe>) -> Result<()> {
        let body = async || {
            ctx.state().note("spins");
            Ok::<_, Error>(spin_until(ctx.state(), "beside").await)
        };
        ctx.step("spin", body).await
    }
    #[workflow]
    async fn beside(ctx: &Ctx<Probe>) -> Result<()> {
        ctx.step("note", async || Ok::<_, Error>(ctx.state().note("beside"))).await
    }
    let (probe, connect) = (Probe::new(), db.connect());
    let (stop, stopped) = oneshot::channel::<()>();
    let state = probe.clone();
    // Not a thread of the test's runtime, which would wait for it after a failure.
    let worker = std::thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let worker = Worker::new(connect.await.unwrap(), state).register(spins).register(beside);
            let stop = async {
                let _ = stopped.await;
            };
            worker.run_until(stop).await.unwrap();
        });
    });
    let spinning = db.client.start(spins, ()).await.unwrap();
    probe.noted("spins").await;
    db.client.start(beside, ()).await.unwrap().result().await.unwrap();
    spinning.result().await.unwrap();
    stop.send(()).unwrap();
    tokio::task::spawn_blocking(|| worker.join()).await.unwrap().unwrap();
}

pub async fn a_panic_in_a_step_is_a_failed_attempt(db: Live) {
    #[workflow]
    async fn shaky(ctx: &Ctx) -> Result<u32> {
        let body = async || {
            assert!(ctx.attempt() > 1, "the first attempt breaks");
            Ok::<_, Error>(ctx.attempt())
        };
        ctx.step("shake", body).retry(Retry::fixed(SOON)).await
    }
    let worker = LocalWorker::start(db.worker(()).register(shaky));
    let run = db.client.start(shaky, ()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 2);
    let history = run.history().await.unwrap();
    let error = history[1].error.as_ref().unwrap();
    assert_eq!(error.kind, ErrorKind::Panic);
    assert_eq!(error.message, "the body of a step panicked: the first attempt breaks");
    worker.stop().await;
}

#[workflow]
async fn fine(ctx: &Ctx) -> Result<u32> {
    ctx.step("fine", async || Ok::<_, Error>(1)).await
}

pub async fn a_panic_in_a_workflow_fails_only_its_run(db: Live) {
    #[workflow]
    async fn broken(ctx: &Ctx, divisor: u32) -> Result<u32> {
        ctx.step("before", async || Ok::<_, Error>(())).await?;
        Ok(10_u32.checked_div(divisor).unwrap_or_else(|| panic!("no division by {divisor}")))
    }
    // With one permit: if the panic kept the permit, the worker would take no other run.
    let worker = LocalWorker::start(db.worker(()).register(broken).register(fine).concurrency(1));
    let run = db.client.start(broken, 0).await.unwrap();
    let error = failure(run.result().await);
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Panic, "the workflow panicked: no division by 0"));
    assert_eq!(db.client.start(fine, ()).await.unwrap().result().await.unwrap(), 1);
    assert_eq!(db.client.start(broken, 5).await.unwrap().result().await.unwrap(), 2);
    worker.stop().await;
}

#[derive(Serialize)]
struct Explosive(u32);

impl<'de> Deserialize<'de> for Explosive {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = u32::deserialize(deserializer)?;
        assert!(value != 13, "13 is not read");
        Ok(Self(value))
    }
}

pub async fn a_panic_in_a_decoder_fails_only_its_run(db: Live) {
    #[workflow]
    async fn explode(ctx: &Ctx, input: Explosive) -> Result<u32> {
        let _ = ctx;
        Ok(input.0)
    }
    let worker = LocalWorker::start(db.worker(()).register(explode).concurrency(1));
    let run = db.client.start_by_name("explode", &json!(13)).await.unwrap();
    let error = failure(run.result().await);
    assert_eq!(error.kind, ErrorKind::Refused);
    assert!(error.message.contains("Explosive: its Deserialize panicked;"), "{error}");
    assert_eq!(db.client.start(explode, Explosive(1)).await.unwrap().result().await.unwrap(), 1);
    worker.stop().await;
}

pub async fn the_final_error_of_a_step_can_be_handled(db: Live) {
    #[workflow]
    async fn fallback(ctx: &Ctx<Probe>) -> Result<String> {
        let probe = ctx.state();
        let body = async || {
            probe.note("charge");
            Err::<(), _>("card refused").fatal()
        };
        let refused = match ctx.step("charge", body).await {
            Err(error) if error.is_fatal() && error.message() == "card refused" => error,
            other => return Err(Error::msg(format!("unexpected: {other:?}"))),
        };
        ctx.sleep(Duration::from_secs(1)).await?;
        let invoice = ctx.step("invoice", async || Ok::<_, Error>("by post".to_owned())).await?;
        Ok(format!("{refused}; invoice {invoice}"))
    }
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(fallback).linger(Duration::ZERO));
    let run = db.client.start(fallback, ()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), "step \"charge\": card refused; invoice by post");
    assert_eq!(probe.times("charge"), 1, "the error is stored as an outcome");
    assert!(run.run().await.unwrap().epoch >= 2, "the error was handled again on replay");
    worker.stop().await;
}

#[derive(Debug)]
struct Chained(&'static str, Option<Box<Chained>>);

impl fmt::Display for Chained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Chained {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.1.as_deref().map(|source| source as _)
    }
}

pub async fn an_error_keeps_its_causes(db: Live) {
    #[workflow]
    async fn chain(ctx: &Ctx) -> Result<()> {
        let refused = async || {
            let root = Chained("connection refused", None);
            let middle = Chained("the bank is away", Some(root.into()));
            Err::<(), _>(Chained("not charged", Some(middle.into())))
        };
        ctx.step("charge", refused).retry(Retry::none()).await
    }
    let worker = LocalWorker::start(db.worker(()).register(chain));
    let run = db.client.start(chain, ()).await.unwrap();
    let error = failure(run.result().await);
    assert_eq!(error.message, "not charged");
    assert_eq!(error.causes, ["the bank is away", "connection refused"]);
    assert_eq!(error.to_string(), "step \"charge\": not charged: the bank is away: connection refused");
    assert_eq!(run.run().await.unwrap().error, Some(error));
    worker.stop().await;
}

pub async fn a_step_knows_its_attempt_and_its_key(db: Live) {
    #[workflow]
    async fn keys(ctx: &Ctx<Probe>) -> Result<Vec<String>> {
        let id = ctx.run_id();
        let body = async || {
            assert_eq!(ctx.run_id(), id);
            ctx.state().note(format!("{} {} {}", ctx.idempotency_key(), ctx.random(), ctx.uuid()));
            if ctx.attempt() == 1 { Err(Error::msg("again")) } else { Ok(ctx.idempotency_key().to_owned()) }
        };
        let first = ctx.step("first", body).retry(Retry::fixed(SOON)).await?;
        let second = ctx.step("second", async || Ok::<_, Error>(ctx.idempotency_key().to_owned())).await?;
        Ok(vec![first, second, ctx.idempotency_key().to_owned()])
    }
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(keys));
    let run = db.client.start(keys, ()).await.unwrap();
    let id = run.id();
    assert_eq!(run.result().await.unwrap(), [format!("{id}/first"), format!("{id}/second"), id.to_string()]);
    let notes = probe.notes();
    assert_eq!(notes.len(), 2);
    assert_eq!(notes[0], notes[1], "every attempt gets the same key and the same random values");
    let other = db.client.start(keys, ()).await.unwrap();
    assert_ne!(other.result().await.unwrap()[0], format!("{id}/first"), "each run has its own keys");
    worker.stop().await;
}

pub async fn a_workflow_knows_its_name_and_its_version(db: Live) {
    #[workflow(name = "reports/daily", version = "7")]
    async fn report(ctx: &Ctx) -> Result<String> {
        let inside = ctx.step("look", async || ok(format!("{} {}", ctx.workflow(), ctx.version()))).await?;
        Ok(format!("{inside}, {} {}", ctx.scope("part").workflow(), ctx.version()))
    }
    let worker = LocalWorker::start(db.worker(()).register(report));
    let run = db.client.start(report, ()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), "reports/daily 7, reports/daily 7");
    worker.stop().await;
}

pub async fn a_body_borrows_its_key_and_may_be_infallible(db: Live) {
    async fn charge(key: &str, cents: u64) -> std::result::Result<String, std::convert::Infallible> {
        tokio::task::yield_now().await;
        Ok(format!("{key} {cents}"))
    }
    #[workflow]
    async fn pay(ctx: &Ctx, pay: u64) -> Result<Vec<String>> {
        let first = ctx.step("charge", || charge(ctx.idempotency_key(), pay)).await?;
        let more = ctx.map([1, 2], 2, |ctx, cents| async move {
            let charged = ctx.step("charge", || charge(ctx.idempotency_key(), cents)).await?;
            Ok(charged)
        });
        let mut all = vec![first];
        all.extend(more.await?);
        Ok(all)
    }
    let worker = LocalWorker::start(db.worker(()).register(pay));
    let run = db.client.start(pay, 5).await.unwrap();
    let id = run.id();
    let expected = [format!("{id}/charge 5"), format!("{id}/map/0/charge 1"), format!("{id}/map/1/charge 2")];
    assert_eq!(run.result().await.unwrap(), expected);
    worker.stop().await;
}

pub async fn a_repeated_name_is_another_step(db: Live) {
    #[workflow]
    async fn pages(ctx: &Ctx<Probe>) -> Result<Vec<usize>> {
        let mut numbers = Vec::new();
        for _ in 0..3 {
            numbers.push(ctx.step("page", async || Ok::<_, Error>(ctx.state().count("page"))).await?);
        }
        Ok(numbers)
    }
    let worker = LocalWorker::start(db.worker(Probe::new()).register(pages));
    let run = db.client.start(pages, ()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), [1, 2, 3]);
    let keys: Vec<String> = run.history().await.unwrap().into_iter().map(|row| row.step_key).collect();
    assert_eq!(keys, ["page", "page:1", "page:2"]);
    worker.stop().await;
}

pub async fn time_and_random_values_survive_a_park(db: Live) {
    const NAP: Duration = Duration::from_secs(1);

    #[workflow]
    async fn nap(ctx: &Ctx<Probe>) -> Result<(u128, u64)> {
        let begun = ctx.now();
        let drawn = (ctx.run_id(), ctx.random(), ctx.random(), ctx.uuid());
        ctx.state().note(format!("{begun:?} {drawn:?}"));
        assert_ne!(drawn.1, drawn.2);
        ctx.sleep(NAP).await?;
        Ok((ctx.now().duration_since(begun)?.as_millis(), ctx.random()))
    }
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(nap).linger(Duration::ZERO));
    let run = db.client.start(nap, ()).await.unwrap();
    let (slept, _) = run.result().await.unwrap();
    assert!(slept >= NAP.as_millis(), "ctx.now() advances with the outcomes: {slept} ms");
    let notes = probe.notes();
    assert!(notes.len() >= 2, "the function was called again");
    assert!(notes.iter().all(|note| *note == notes[0]), "{notes:#?}");
    worker.stop().await;
}

pub async fn a_workflow_needs_neither_input_nor_state(db: Live) {
    #[workflow]
    async fn stateful(ctx: &Ctx<Probe>) -> Result<usize> {
        Ok(ctx.state().count("run"))
    }
    let worker = LocalWorker::start(db.worker(Probe::new()).register(fine).register(stateful));
    assert_eq!(db.client.start(fine, ()).await.unwrap().result().await.unwrap(), 1);
    assert_eq!(db.client.start(stateful, ()).await.unwrap().result().await.unwrap(), 1);
    assert_eq!(db.client.start_by_name("fine", &json!(null)).await.unwrap().result().await.unwrap(), json!(1));
    worker.stop().await;
}

pub async fn an_output_that_cannot_be_stored_fails_the_run(db: Live) {
    #[workflow]
    async fn ratio(ctx: &Ctx, of: f64) -> Result<f64> {
        let _ = ctx;
        Ok(of / 0.0)
    }
    #[workflow]
    async fn report(ctx: &Ctx, bytes: usize) -> Result<String> {
        let _ = ctx;
        Ok("x".repeat(bytes))
    }
    let client = db.connect().payload_limit(1000).await.unwrap();
    let worker = workflow_worker::Worker::new(client.clone(), ()).register(ratio).register(report);
    let worker = LocalWorker::start(worker);

    let run = client.start(ratio, 0.0).await.unwrap();
    let error = failure(run.result().await);
    assert_eq!((error.kind, error.fatal), (ErrorKind::Refused, true));
    let text = format!(
        "output of run {} of type f64 can be written but not read back \
         (invalid type: null, expected f64 at line 1 column 4); \
         it may hold a NaN, an infinite number, or a nesting deeper than 127",
        run.id()
    );
    assert_eq!(error.message, text);

    let run = client.start(report, 1000).await.unwrap();
    let error = failure(run.result().await);
    assert_eq!(error.kind, ErrorKind::Refused);
    let text = format!(
        "output of run {} is 1002 bytes, the limit is 1000; \
         keep large data elsewhere and pass a reference, or raise payload_limit",
        run.id()
    );
    assert_eq!(error.message, text);
    let largest = client.start(report, 998).await.unwrap();
    assert_eq!(largest.result().await.unwrap().len(), 998, "the limit itself is accepted");
    worker.stop().await;
}

pub async fn an_input_that_does_not_decode_fails_the_run(db: Live) {
    #[workflow]
    async fn square(ctx: &Ctx, side: u32) -> Result<u32> {
        let _ = ctx;
        Ok(side * side)
    }
    let worker = LocalWorker::start(db.worker(()).register(square).concurrency(1));
    let run = db.client.start_by_name("square", &json!("four")).await.unwrap();
    let result = run.result().await;
    assert!(matches!(&result, Err(ClientError::RunFailed { run_id, .. }) if *run_id == run.id()));
    let error = failure(result);
    assert_eq!(error.kind, ErrorKind::Refused);
    assert_eq!(
        error.message,
        "the input of workflow \"square\" does not decode as u32: invalid type: string, expected u32 at line 1 column 6; \
         start the run again with an input of that type"
    );
    let run = db.client.start_by_name("square", &json!(4)).await.unwrap();
    assert_eq!(run.result().await.unwrap(), json!(16));
    worker.stop().await;
}
