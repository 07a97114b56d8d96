use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{Either, join_all, select};
use workflow_sdk::RunFilter;
use workflow_sdk::prelude::*;
use workflow_tests::{Live, LocalWorker, Probe, until};

use crate::{failure, reaches};

const HOUR: Duration = Duration::from_secs(3600);
/// Long enough to be a park that is observed on a busy machine, with a linger time of zero.
const NAP: Duration = Duration::from_secs(2);

pub async fn a_step_beside_a_sleep_runs_once(db: Live) {
    #[workflow]
    async fn beside(ctx: &Ctx<Probe>) -> Result<usize> {
        let (count, slept) =
            futures::join!(ctx.step("step", async || Ok::<_, Error>(ctx.state().count("step"))), ctx.sleep(NAP));
        slept?;
        count
    }
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(beside).linger(Duration::ZERO));
    let run = db.client.start(beside, ()).await.unwrap();
    reaches(&run, RunStatus::Parked).await;
    assert_eq!(run.result().await.unwrap(), 1);
    assert_eq!(probe.times("step"), 1);
    assert!(run.run().await.unwrap().epoch >= 2);
    worker.stop().await;
}

pub async fn the_sibling_of_a_failing_step_keeps_its_success(db: Live) {
    #[workflow]
    async fn siblings(ctx: &Ctx<Probe>, heals: bool) -> Result<usize> {
        let probe = ctx.state();
        let good = ctx.step("good", async || Ok::<_, Error>(probe.count("good")));
        let bad = async || {
            probe.pass("the good step is recorded").await;
            if heals && ctx.attempt() == 2 { Ok(10) } else { Err("no luck") }
        };
        let bad = ctx.step("bad", bad).retry(Retry::fixed(NAP).max_attempts(2));
        let (good, bad) = futures::try_join!(good, bad)?;
        Ok(good + bad)
    }
    for (heals, parked) in [(true, 11), (false, 0)] {
        let probe = Probe::new();
        let worker = LocalWorker::start(db.worker(probe.clone()).register(siblings).linger(Duration::ZERO));
        let run = db.client.start(siblings, heals).await.unwrap();
        let stored = async || run.history().await.unwrap().iter().any(|row| row.step_key == "good").then_some(());
        until("the good step is recorded", stored).await;
        probe.open("the good step is recorded");
        let result = run.result().await;
        if heals {
            assert_eq!(result.unwrap(), parked);
        } else {
            assert_eq!(failure(result).step_key.as_deref(), Some("bad"));
        }
        assert_eq!(probe.times("good"), 1);
        let history = run.history().await.unwrap();
        assert_eq!((history[0].step_key.as_str(), history[0].output.as_deref()), ("good", Some("1")));
        assert!(run.run().await.unwrap().epoch >= 2, "the back-off was a park");
        worker.stop().await;
    }
}

pub async fn a_race_returns_the_faster_branch(db: Live) {
    #[workflow]
    async fn race(ctx: &Ctx<Probe>, limit: Duration) -> Result<String> {
        let probe = ctx.state();
        let body = async || {
            let _dropped = probe.on_drop("dropped");
            if limit < HOUR {
                std::future::pending::<()>().await;
            }
            Ok::<_, Error>("answer".to_owned())
        };
        let winner = match select(ctx.step("ask", body), ctx.sleep(limit)).await {
            Either::Left((answer, _)) => answer?,
            Either::Right((slept, _)) => slept.map(|()| "too late".to_owned())?,
        };
        // The replay after this park must find the same winner.
        ctx.sleep(NAP).await?;
        Ok(winner)
    }
    for (limit, winner) in [(HOUR, "answer"), (Duration::from_millis(50), "too late")] {
        let probe = Probe::new();
        let worker = LocalWorker::start(db.worker(probe.clone()).register(race).linger(Duration::ZERO));
        let run = db.client.start(race, limit).await.unwrap();
        assert_eq!(run.result().await.unwrap(), winner);
        assert_eq!(probe.times("dropped"), 1, "the body ran once");
        assert!(run.run().await.unwrap().epoch >= 2);
        worker.stop().await;
    }
}

pub async fn a_workflow_cannot_swallow_a_park(db: Live) {
    #[workflow]
    async fn careful(ctx: &Ctx<Probe>) -> Result<String> {
        let probe = ctx.state();
        let _dropped = probe.on_drop("dropped");
        let first = match ctx.sleep(NAP).await {
            Ok(()) => "slept",
            Err(_) => "caught",
        };
        probe.note(first);
        let second = match AssertUnwindSafe(ctx.sleep(NAP)).catch_unwind().await {
            Ok(Ok(())) => "slept",
            Ok(Err(_)) => "caught",
            Err(_) => "unwound",
        };
        Ok(format!("{first}, {second}"))
    }
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(careful).linger(Duration::ZERO));
    let run = db.client.start(careful, ()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), "slept, slept");
    assert_eq!(probe.times("caught"), 0);
    let claims = usize::try_from(run.run().await.unwrap().epoch).unwrap();
    assert!(claims >= 3, "each sleep was a park");
    assert_eq!(probe.times("dropped"), claims, "a park drops the workflow");
    worker.stop().await;
}

pub async fn sleeps_do_not_use_up_attempts(db: Live) {
    #[workflow]
    async fn patient(ctx: &Ctx) -> Result<u32> {
        for _ in 0..6 {
            ctx.sleep(NAP / 2).await?;
        }
        let body = async || if ctx.attempt() == 1 { Err("once") } else { Ok(ctx.attempt()) };
        ctx.step("last", body).retry(Retry::fixed(Duration::from_millis(50)).max_attempts(2)).await
    }
    let worker = LocalWorker::start(db.worker(()).register(patient).linger(Duration::ZERO).max_crashes(0));
    let run = db.client.start(patient, ()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 2);
    let run = run.run().await.unwrap();
    assert!(run.epoch >= 7, "claimed {} times", run.epoch);
    assert_eq!(run.crashes, 0);
    worker.stop().await;
}

/// No notification announces the wake time of a parked run.
pub async fn a_parked_run_resumes_at_its_wake_time(db: Live) {
    #[workflow]
    async fn naps(ctx: &Ctx) -> Result<()> {
        for _ in 0..3 {
            ctx.sleep(Duration::from_millis(500)).await?;
        }
        Ok(())
    }
    let worker = LocalWorker::start(db.worker(()).register(naps).linger(Duration::ZERO));
    let run = db.client.start(naps, ()).await.unwrap();
    until("the run ends", async || run.status().await.unwrap().is_terminal().then_some(())).await;
    worker.stop().await;
}

pub async fn a_short_wait_stays_in_memory(db: Live) {
    #[workflow]
    async fn short(ctx: &Ctx<Probe>) -> Result<usize> {
        let calls = ctx.state().count("called");
        ctx.sleep(Duration::from_millis(50)).await?;
        let body = async || if ctx.attempt() == 1 { Err("once") } else { Ok(()) };
        ctx.step("retried", body).retry(Retry::fixed(Duration::from_millis(50))).await?;
        Ok(calls)
    }
    let worker = LocalWorker::start(db.worker(Probe::new()).register(short).linger(Duration::from_secs(60)));
    let run = db.client.start(short, ()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 1);
    assert_eq!(run.run().await.unwrap().epoch, 1);
    worker.stop().await;
}

pub async fn a_long_back_off_parks(db: Live) {
    #[workflow]
    async fn backing_off(ctx: &Ctx<Probe>) -> Result<u32> {
        let body = async || {
            ctx.state().note("try");
            if ctx.attempt() == 1 { Err("busy") } else { Ok(ctx.attempt()) }
        };
        ctx.step("call", body).retry(Retry::fixed(NAP)).await
    }
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(backing_off).linger(Duration::from_millis(10)));
    let run = db.client.start(backing_off, ()).await.unwrap();
    reaches(&run, RunStatus::Parked).await;
    let parked = run.run().await.unwrap();
    assert_eq!((parked.worker_id, parked.error), (None, None), "a back-off is an ordinary wait");
    assert_eq!(run.result().await.unwrap(), 2);
    assert_eq!(probe.times("try"), 2);
    let history = run.history().await.unwrap();
    assert!(history[0].started_at.since(history[1].completed_at.unwrap()) >= NAP);
    worker.stop().await;
}

pub async fn a_saturated_worker_takes_the_next_run_at_once(db: Live) {
    #[workflow]
    async fn sleeper(ctx: &Ctx<Probe>) -> Result<()> {
        ctx.step("begin", async || Ok::<_, Error>(())).await?;
        ctx.state().note("asleep");
        ctx.sleep(HOUR / 2).await
    }
    #[workflow]
    async fn quick(ctx: &Ctx<Probe>) -> Result<u32> {
        ctx.step("quick", async || Ok::<_, Error>(1)).await
    }
    let probe = Probe::new();
    let worker = db.worker(probe.clone()).register(sleeper).register(quick).concurrency(1).linger(HOUR);
    let worker = LocalWorker::start(worker);
    let asleep = db.client.start(sleeper, ()).await.unwrap();
    probe.noted("asleep").await;
    // The sleeper has the only permit and would linger for half an hour.
    assert_eq!(db.client.start(quick, ()).await.unwrap().result().await.unwrap(), 1);
    assert_eq!(asleep.status().await.unwrap(), RunStatus::Parked);
    assert_eq!(db.client.start(quick, ()).await.unwrap().result().await.unwrap(), 1);
    asleep.cancel().await.unwrap();
    worker.stop().await;
}

pub async fn a_parked_run_holds_no_permit(db: Live) {
    const RUNS: usize = 50;

    #[workflow]
    async fn sleep_until(ctx: &Ctx, wake: std::time::SystemTime) -> Result<()> {
        ctx.sleep_until(wake).await
    }
    let worker = LocalWorker::start(db.worker(()).register(sleep_until).concurrency(1).linger(Duration::ZERO));
    let wake = std::time::SystemTime::now() + Duration::from_secs(12);
    let runs = db.client.start_many(sleep_until, vec![wake; RUNS]).await.unwrap();
    let parked = RunFilter::new().status(RunStatus::Parked);
    let all = async || (db.client.list(&parked).await.unwrap().len() == RUNS).then_some(());
    until("every run is parked at once", all).await;
    for run in &runs {
        run.result().await.unwrap();
    }
    worker.stop().await;
}

pub async fn a_thousand_runs_of_parallel_steps_end(db: Live) {
    const RUNS: u64 = 1000;

    #[workflow]
    async fn fan_out(ctx: &Ctx, seed: u64) -> Result<u64> {
        let steps = (0..5).map(|n| ctx.step("part", move || async move { Ok::<_, Error>(seed * n) }));
        let mut sum = 0;
        for part in join_all(steps).await {
            sum += part?;
        }
        Ok(sum)
    }
    let worker = LocalWorker::start(db.worker(()).register(fan_out));
    let runs = db.client.start_many(fan_out, 0..RUNS).await.unwrap();
    for (seed, run) in (0..).zip(&runs) {
        assert_eq!(run.result().await.unwrap(), seed * 10);
    }
    for run in [&runs[0], &runs[999]] {
        assert_eq!(run.history().await.unwrap().len(), 5);
        assert_eq!(run.run().await.unwrap().epoch, 1);
    }
    worker.stop().await;
}
