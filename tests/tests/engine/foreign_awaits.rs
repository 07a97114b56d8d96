//! Foreign awaits: awaits in a workflow that are not calls of its context.

use std::time::Duration;

use futures::future::{Either, select};
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::oneshot;
use tokio::task::coop::{consume_budget, has_budget_remaining};
use workflow_sdk::Explanation;
use workflow_sdk::prelude::*;
use workflow_tests::log_capture::log_lines;
use workflow_tests::{Live, LocalWorker, Probe, until};
use workflow_worker::ForeignAwait;

use crate::failure;

const SHORT: Duration = Duration::from_millis(20);
const HOUR: Duration = Duration::from_secs(3600);
/// Also the time after which a foreign await is reported. A loaded machine renews it in time: a run
/// with a lapsed lease is claimed again, and the new drive reports it again.
const LEASE: Duration = Duration::from_secs(3);

#[workflow(allow(tokio_time))]
async fn bare(ctx: &Ctx, name: String) -> Result<String> {
    tokio::time::sleep(SHORT).await;
    tokio::time::sleep(SHORT).await;
    ctx.step("greet", async || Ok::<_, Error>(format!("hello, {name}"))).await
}

pub async fn a_bare_sleep_is_logged_once(db: Live) {
    #[workflow(allow(tokio_time))]
    async fn also_bare(ctx: &Ctx) -> Result<()> {
        tokio::time::sleep(SHORT).await;
        ctx.step("end", async || Ok::<_, Error>(())).await
    }
    let worker = LocalWorker::start(db.worker(()).register(bare).register(also_bare));
    let mut ids = Vec::new();
    for name in ["ann", "bob"] {
        let run = db.client.start(bare, name.to_owned()).await.unwrap();
        assert_eq!(run.result().await.unwrap(), format!("hello, {name}"), "the run still ends");
        ids.push(run.id().to_string());
    }
    let other = db.client.start(also_bare, ()).await.unwrap();
    other.result().await.unwrap();
    worker.stop().await;

    let text = "workflow \"bare\" awaited something that is not durable, outside of its steps; \
                after a crash it may go another way: put it into a step, or use ctx.sleep";
    assert_eq!(log_lines(&["WARN", text, &ids[0]]).len(), 1);
    assert_eq!(log_lines(&[text, &ids[1]]).len(), 0, "one warning per workflow");
    let text = "workflow \"also_bare\" awaited something";
    assert_eq!(log_lines(&["WARN", text, &other.id().to_string()]).len(), 1, "each workflow has its own warning");
}

pub async fn a_bare_sleep_can_fail_the_run(db: Live) {
    let worker = LocalWorker::start(db.worker(()).register(bare).foreign_await(ForeignAwait::Fail));
    let run = db.client.start(bare, "ann".into()).await.unwrap();
    let error = failure(run.result().await);
    assert_eq!((error.kind, error.fatal), (ErrorKind::Refused, true));
    assert_eq!(
        error.message,
        "workflow \"bare\" awaited something that is not durable, outside of its steps; \
         after a crash it may go another way: put it into a step, or use ctx.sleep"
    );
    worker.stop().await;
}

/// Waits in a foreign await, a body, a signal and a sleep. Only the first is a stall.
#[workflow]
async fn waits(ctx: &Ctx<Probe>, what: String) -> Result<()> {
    ctx.step("charge", async || Ok::<_, Error>(())).await?;
    match what.as_str() {
        "foreign" => ctx.state().pass("foreign").await,
        "body" => ctx.step("body", async || Ok::<_, Error>(ctx.state().pass("body").await)).await?,
        "signal" => drop(ctx.signal(Signal::<()>::new("go")).await?),
        _ => ctx.sleep(HOUR).await?,
    }
    Ok(())
}

fn stalls_of<O>(run: &RunHandle<O>) -> usize {
    let id = run.id().to_string();
    log_lines(&["WARN", "has awaited something that is not a call of its context", &id]).len()
}

pub async fn a_foreign_await_that_nothing_wakes_is_warned_of_once(db: Live) {
    let probe = Probe::new();
    // All runs stay in memory: the sleep of an hour does too if a clock is a little late.
    let worker = db.worker(probe.clone()).register(waits).lease(LEASE).linger(2 * HOUR);
    let worker = LocalWorker::start(worker);
    let mut others = Vec::new();
    for what in ["body", "signal", "sleep"] {
        others.push(db.client.start(waits, what.into()).await.unwrap());
    }
    // Two runs, one after the other: when the second one is warned of, the first one could have
    // been warned of again.
    let mut stalled = Vec::new();
    for _ in 0..2 {
        let run = db.client.start(waits, "foreign".into()).await.unwrap();
        until("the worker warns", async || (stalls_of(&run) > 0).then_some(())).await;
        stalled.push(run);
    }
    for run in &stalled {
        let text = "workflow \"waits\" has awaited something that is not a call of its context for 3s, \
                    after \"charge\"; it keeps its place in the worker until that wakes it: \
                    put it into a step, or use ctx.signal";
        assert_eq!(log_lines(&["WARN", text, &run.id().to_string()]).len(), 1);
        assert_eq!(run.status().await.unwrap(), RunStatus::Running);
    }
    assert_eq!(others.iter().map(stalls_of).collect::<Vec<_>>(), [0, 0, 0]);

    // As if a minute had passed.
    let mut raw = db.raw().await;
    for change in [
        "UPDATE workflow_runs SET created_at = created_at - 60000000, started_at = started_at - 60000000",
        "UPDATE step_attempts SET started_at = started_at - 60000000, completed_at = completed_at - 60000000",
    ] {
        raw.execute(change).await;
    }
    for run in &stalled {
        let said = run.explain().await.unwrap();
        let Explanation::Stalled { worker, since } = &said else { panic!("{said}") };
        assert_eq!(Some(*worker), run.run().await.unwrap().worker_id);
        assert_eq!(Some(*since), run.history().await.unwrap()[0].completed_at);
        let text = format!("but no step of it has begun or ended since {since}: its workflow awaits something");
        assert!(said.to_string().contains(&text), "{said}");
    }
    for run in &others {
        let said = run.explain().await.unwrap();
        assert!(matches!(said, Explanation::Running { .. }), "{said}");
    }
    probe.open("foreign");
    for run in stalled {
        run.result().await.unwrap();
    }
    worker.abort().await;
}

pub async fn a_foreign_await_that_nothing_wakes_can_fail_the_run(db: Live) {
    let worker = db.worker(Probe::new()).register(waits).lease(LEASE);
    let worker = LocalWorker::start(worker.foreign_await(ForeignAwait::Fail));
    let run = db.client.start(waits, "foreign".into()).await.unwrap();
    let error = failure(run.result().await);
    assert_eq!((error.kind, error.fatal), (ErrorKind::Refused, true));
    assert!(error.message.contains("has awaited something that is not a call of its context"), "{error}");
    worker.stop().await;
}

pub async fn calls_of_the_context_are_never_foreign(db: Live) {
    #[workflow]
    async fn clean(ctx: &Ctx) -> Result<u64> {
        let work = |n: u64| async move {
            tokio::time::sleep(Duration::from_millis(n % 7)).await;
            tokio::spawn(async move { n }).await
        };
        let mut sum = ctx.step("one", || work(1)).await?;
        let (two, slept, three) =
            futures::join!(ctx.step("two", || work(2)), ctx.sleep(SHORT), ctx.step("three", || work(3)));
        slept?;
        sum += two? + three?;
        let mut steps: FuturesUnordered<_> = (4..20).map(|n| ctx.step("many", move || work(n))).collect();
        while let Some(n) = steps.next().await {
            sum += n?;
        }
        let late = ctx.step("late", async || Ok::<_, Error>(std::future::pending::<u64>().await));
        match select(late, ctx.sleep(SHORT)).await {
            Either::Left((late, _)) => sum += late?,
            Either::Right((slept, _)) => slept?,
        }
        let flaky = async || if ctx.attempt() < 3 { Err(Error::msg("again")) } else { Ok(work(20).await?) };
        sum += ctx.step("flaky", flaky).retry(Retry::fixed(SHORT)).await?;
        let stuck = async || Ok::<_, Error>(std::future::pending::<u64>().await);
        sum += ctx.step("stuck", stuck).timeout(SHORT).retry(Retry::none()).await.unwrap_or(21);
        ctx.sleep(Duration::from_millis(150)).await?;
        Ok(sum)
    }
    let worker = db.worker(()).register(clean).foreign_await(ForeignAwait::Fail).linger(Duration::from_millis(100));
    let worker = LocalWorker::start(worker);
    let runs = db.client.start_many(clean, [(); 40]).await.unwrap();
    for run in runs {
        assert_eq!(run.result().await.unwrap(), (1..=21).sum::<u64>());
    }
    worker.stop().await;
}

/// Bodies and the workflow share the budget of one task. `select!` polls nothing without it.
pub async fn a_select_beside_a_body_that_uses_up_the_budget_is_not_foreign(db: Live) {
    #[workflow]
    async fn beside(ctx: &Ctx) -> Result<()> {
        let drain = ctx.step("drain", async || {
            tokio::time::sleep(SHORT).await;
            for _ in 0..1000 {
                consume_budget().await;
            }
            Ok::<_, Error>(())
        });
        let slept = async {
            tokio::select! {
                biased;
                slept = ctx.sleep(5 * SHORT) => slept,
            }
        };
        futures::try_join!(drain, slept).map(drop)
    }
    #[workflow]
    async fn after(ctx: &Ctx) -> Result<u32> {
        let work = async {
            ctx.step("stream", async || {
                tokio::time::sleep(SHORT).await;
                while has_budget_remaining() {
                    consume_budget().await;
                }
                Ok::<_, Error>(())
            })
            .await?;
            tokio::select! {
                biased;
                next = ctx.step("next", async || Ok::<_, Error>(7)) => next,
            }
        };
        ctx.timeout(HOUR, work).await
    }
    let worker = db.worker(()).register(beside).register(after).foreign_await(ForeignAwait::Fail);
    let worker = LocalWorker::start(worker);
    for _ in 0..5 {
        db.client.start(beside, ()).await.unwrap().result().await.unwrap();
        assert_eq!(db.client.start(after, ()).await.unwrap().result().await.unwrap(), 7);
    }
    worker.stop().await;
}

/// A workflow should not wait for a foreign future, but if it does, it must not hang.
pub async fn no_foreign_wake_is_lost(db: Live) {
    /// Answers from its own thread, with a delay that grows: some answers arrive just when the
    /// poll of the workflow returns.
    struct Oracle(std::sync::mpsc::Sender<(u32, oneshot::Sender<u32>)>);

    #[workflow]
    async fn asking(ctx: &Ctx<Oracle>) -> Result<u32> {
        let mut sum = 0;
        for question in 0..3000 {
            let (sender, answer) = oneshot::channel();
            ctx.state().0.send((question, sender))?;
            sum += answer.await?;
        }
        ctx.step("end", async || Ok::<_, Error>(sum)).await
    }
    let (questions, asked) = std::sync::mpsc::channel::<(u32, oneshot::Sender<u32>)>();
    let oracle = std::thread::spawn(move || {
        for (question, answer) in asked {
            for _ in 0..question {
                std::hint::spin_loop();
            }
            let _ = answer.send(1);
        }
    });
    let worker = LocalWorker::start(db.worker(Oracle(questions)).register(asking));
    let runs = db.client.start_many(asking, [(); 4]).await.unwrap();
    for run in runs {
        assert_eq!(run.result().await.unwrap(), 3000);
    }
    worker.stop().await;
    oracle.join().unwrap();
}

pub async fn a_workflow_that_wakes_itself_goes_on(db: Live) {
    #[workflow]
    async fn restless(ctx: &Ctx) -> Result<u32> {
        let mut polls = 0;
        std::future::poll_fn(|cx| {
            polls += 1;
            cx.waker().wake_by_ref();
            if polls < 50_000 { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
        })
        .await;
        ctx.step("end", async || Ok::<_, Error>(polls)).await
    }
    let worker = LocalWorker::start(db.worker(()).register(restless));
    let run = db.client.start(restless, ()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 50_000);
    worker.stop().await;
}
