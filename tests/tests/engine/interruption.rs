//! A run that is canceled or passes its deadline cleans up, within the grace period.

use std::time::Duration;

use workflow_sdk::prelude::*;
use workflow_sdk::{CancelOutcome, ClientError, StepKind};
use workflow_tests::{Live, LocalWorker, Probe, until};

use crate::{failure, reaches};

const HOUR: Duration = Duration::from_secs(3600);

/// Notes the error of the pending call, cleans up, and returns the error.
async fn tidies(ctx: &Ctx<Probe>, pending: Result<()>) -> Result<()> {
    let Err(error) = pending else { return Ok(()) };
    ctx.step("clean up", async || {
        ctx.state().note(format!("clean up after {}", error.kind()));
        Ok::<_, Error>(())
    })
    .await?;
    Err(error)
}

#[workflow]
async fn works(ctx: &Ctx<Probe>) -> Result<()> {
    let body = async || {
        let _dropped = ctx.state().on_drop("dropped");
        ctx.state().note("begun");
        Ok::<_, Error>(std::future::pending::<()>().await)
    };
    let pending = ctx.step("work", body).await;
    tidies(ctx, pending).await
}

#[workflow]
async fn sleeps(ctx: &Ctx<Probe>) -> Result<()> {
    ctx.state().note("called");
    let pending = ctx.sleep(HOUR).await;
    tidies(ctx, pending).await
}

#[track_caller]
fn canceled<T: std::fmt::Debug>(result: Result<T, ClientError>) {
    assert!(matches!(result, Err(ClientError::RunCanceled { .. })), "{result:?}");
}

async fn kinds<O>(run: &RunHandle<O>) -> Vec<(String, StepKind)> {
    let history = run.history().await.unwrap().into_iter().filter(|row| row.position.is_some());
    history.map(|row| (row.step_key, row.kind)).collect()
}

pub async fn a_run_cleans_up_after_a_step(db: Live) {
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(works));
    let run = db.client.start(works, ()).await.unwrap();
    probe.noted("begun").await;
    assert_eq!(run.cancel().await.unwrap(), CancelOutcome::Requested);
    canceled(run.result().await);
    assert_eq!(probe.notes(), ["begun", "dropped", "clean up after canceled"]);
    let recorded = [("interruption".into(), StepKind::Interruption), ("clean up".into(), StepKind::Step)];
    assert_eq!(kinds(&run).await, recorded);
    worker.stop().await;
}

pub async fn a_run_cleans_up_after_a_sleep(db: Live) {
    for (linger, calls) in [(Duration::ZERO, 2), (2 * HOUR, 1)] {
        let probe = Probe::new();
        let worker = LocalWorker::start(db.worker(probe.clone()).register(sleeps).linger(linger));
        let run = db.client.start(sleeps, ()).await.unwrap();
        match calls {
            2 => reaches(&run, RunStatus::Parked).await,
            _ => probe.noted("called").await,
        }
        assert_eq!(run.cancel().await.unwrap(), CancelOutcome::Requested);
        canceled(run.result().await);
        assert_eq!(probe.times("clean up after canceled"), 1, "lingers for {linger:?}");
        assert_eq!(probe.times("called"), calls);
        worker.stop().await;
    }
}

pub async fn a_run_of_a_lost_worker_cleans_up_on_the_next(db: Live) {
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(sleeps).linger(Duration::ZERO));
    let run = db.client.start(sleeps, ()).await.unwrap();
    reaches(&run, RunStatus::Parked).await;
    worker.stop().await;
    assert_eq!(run.cancel().await.unwrap(), CancelOutcome::Requested);
    assert_eq!(run.status().await.unwrap(), RunStatus::Parked);
    let worker = LocalWorker::start(db.worker(probe.clone()).register(sleeps));
    canceled(run.result().await);
    assert_eq!(probe.times("clean up after canceled"), 1);
    worker.stop().await;
}

pub async fn a_canceled_run_may_return_any_result(db: Live) {
    #[workflow]
    async fn swallows(ctx: &Ctx<Probe>, well: bool) -> Result<String> {
        ctx.state().note("called");
        let slept = ctx.sleep(HOUR).await;
        assert!(slept.is_err() && ctx.is_canceled());
        ctx.sleep(Duration::from_millis(1)).await?;
        if well { Ok("half of it".into()) } else { Err(Error::msg("could not clean up")) }
    }
    for well in [true, false] {
        let probe = Probe::new();
        let worker = LocalWorker::start(db.worker(probe.clone()).register(swallows).linger(HOUR * 2));
        let run = db.client.start(swallows, well).await.unwrap();
        probe.noted("called").await;
        run.cancel().await.unwrap();
        match well {
            true => assert_eq!(run.result().await.unwrap(), "half of it"),
            false => assert_eq!(failure(run.result().await).message, "could not clean up"),
        }
        worker.stop().await;
    }
}

pub async fn a_shielded_part_ends_before_the_run_is_canceled(db: Live) {
    #[workflow]
    async fn transfers(ctx: &Ctx<Probe>) -> Result<()> {
        let both = async {
            let gated = async || Ok::<_, Error>(ctx.state().pass("withdraw").await);
            ctx.step("withdraw", || {
                ctx.state().note("begun");
                gated()
            })
            .await?;
            ctx.step("deposit", async || Ok::<_, Error>(ctx.state().note("deposit"))).await
        };
        ctx.shield(both).await?;
        ctx.step("next", async || Ok::<_, Error>(ctx.state().note("next"))).await
    }
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(transfers));
    let run = db.client.start(transfers, ()).await.unwrap();
    probe.noted("begun").await;
    run.cancel().await.unwrap();
    until("the interruption is recorded", async || (!kinds(&run).await.is_empty()).then_some(())).await;
    probe.open("withdraw");
    canceled(run.result().await);
    assert_eq!(probe.notes(), ["begun", "deposit"]);
    worker.stop().await;
}

#[workflow]
async fn hangs_after(ctx: &Ctx<Probe>) -> Result<()> {
    ctx.state().note("called");
    let _ = ctx.sleep(HOUR).await;
    ctx.step("hang", async || {
        ctx.state().note("hangs");
        Ok::<_, Error>(std::future::pending::<()>().await)
    })
    .await
}

pub async fn the_grace_ends_a_clean_up_that_hangs(db: Live) {
    let probe = Probe::new();
    // The clean-up begins before the grace is over, also on a busy machine.
    let grace = Duration::from_secs(2);
    let worker = db.worker(probe.clone()).register(hangs_after).cancel_grace(grace);
    let worker = LocalWorker::start(worker);
    let run = db.client.start(hangs_after, ()).await.unwrap();
    probe.noted("called").await;
    run.cancel().await.unwrap();
    canceled(run.result().await);
    assert_eq!(probe.times("hangs"), 1);
    let (row, asked) = (run.run().await.unwrap(), &run.history().await.unwrap()[0]);
    assert!(
        row.completed_at.unwrap() >= asked.started_at + grace,
        "the run does not end before the grace period is over"
    );
    worker.stop().await;

    let worker = db.worker(probe.clone()).register(hangs_after).cancel_grace(grace);
    let worker = LocalWorker::start(worker);
    let run = db.client.start(hangs_after, ()).deadline(Duration::from_millis(300)).await.unwrap();
    assert_eq!(failure(run.result().await).kind, ErrorKind::Deadline);
    worker.stop().await;
}

pub async fn the_grace_ends_a_clean_up_that_is_parked(db: Live) {
    #[workflow]
    async fn sleeps_twice(ctx: &Ctx<Probe>) -> Result<()> {
        ctx.state().note("called");
        let _ = ctx.sleep(HOUR).await;
        ctx.sleep(HOUR).await
    }
    let probe = Probe::new();
    // Long enough to be seen parked on a busy machine.
    let grace = Duration::from_secs(5);
    let worker = db.worker(probe.clone()).register(sleeps_twice).cancel_grace(grace).linger(Duration::ZERO);
    let worker = LocalWorker::start(worker);
    // Long enough to begin before it on a busy machine.
    let deadline = Duration::from_secs(4);
    let runs = [
        db.client.start(sleeps_twice, ()).await.unwrap(),
        db.client.start(sleeps_twice, ()).deadline(deadline).await.unwrap(),
    ];
    reaches(&runs[0], RunStatus::Parked).await;
    runs[0].cancel().await.unwrap();
    for run in &runs {
        until("the clean-up is parked", async || {
            let (row, interrupted) = (run.run().await.unwrap(), run.history().await.unwrap());
            let interrupted = interrupted.iter().find(|row| row.kind == StepKind::Interruption)?;
            (row.status == RunStatus::Parked && row.available_at == interrupted.started_at + grace).then_some(())
        })
        .await;
    }
    canceled(runs[0].result().await);
    assert_eq!(failure(runs[1].result().await).kind, ErrorKind::Deadline);
    for run in runs {
        // The run is claimed at its start, for the interruption and at the end of the grace
        // period, and perhaps again for a wake that the drive did not see.
        let epoch = run.run().await.unwrap().epoch;
        assert!(epoch <= 5, "claimed {epoch} times");
    }
    worker.stop().await;
}

pub async fn a_second_cancel_or_a_termination_ends_a_clean_up_at_once(db: Live) {
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(hangs_after));
    let other = db.second_client().await;
    for (n, terminate) in [(1, false), (2, true)] {
        let run = db.client.start(hangs_after, ()).await.unwrap();
        // The number of calls is not compared: a cancel that arrives during the park is handled by
        // the next drive.
        until("the sleep is recorded", async || (!run.history().await.unwrap().is_empty()).then_some(())).await;
        assert_eq!(run.cancel().await.unwrap(), CancelOutcome::Requested);
        until("the clean-up begins", async || (probe.times("hangs") == n).then_some(())).await;
        let ended = if terminate { run.terminate().await } else { run.cancel().await };
        assert_eq!(ended.unwrap(), CancelOutcome::Canceled);
        assert_eq!(run.status().await.unwrap(), RunStatus::Canceled);
        canceled(run.result().await);
        canceled(other.handle::<()>(run.id()).await.unwrap().result().await);
        assert_eq!(run.cancel().await.unwrap(), CancelOutcome::Ended(RunStatus::Canceled));
    }
    // If the runs were not dropped, the worker could not stop before its grace period ends.
    worker.stop().await;
}

pub async fn a_termination_by_another_process_drops_the_run(db: Live) {
    let probe = Probe::new();
    let worker = db.worker(probe.clone()).register(works).lease(Duration::from_secs(3));
    let worker = LocalWorker::start(worker);
    let run = db.client.start(works, ()).await.unwrap();
    probe.noted("begun").await;
    let other = db.second_client().await;
    assert_eq!(other.terminate(run.id()).await.unwrap(), CancelOutcome::Canceled);
    probe.noted("dropped").await;
    canceled(run.result().await);
    assert_eq!(probe.notes(), ["begun", "dropped"], "the run does not clean up");
    worker.stop().await;
}

pub async fn two_cancels_at_once_are_one(db: Live) {
    let probe = Probe::new();
    let run = db.client.start(sleeps, ()).await.unwrap();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(sleeps).linger(Duration::ZERO));
    reaches(&run, RunStatus::Parked).await;
    worker.stop().await;
    let other = db.second_client().await;
    let writes = [&db.client, &other].map(|client| {
        let cancel = workflow_engine::store::Write::Cancel(run.id());
        client.executor().commit(cancel)
    });
    for outcome in futures::future::join_all(writes).await {
        assert_eq!(workflow_tests::outcome::canceled(&outcome.unwrap()), CancelOutcome::Requested);
    }
    let worker = LocalWorker::start(db.worker(probe.clone()).register(sleeps));
    canceled(run.result().await);
    assert_eq!(probe.times("clean up after canceled"), 1);
    worker.stop().await;
}

pub async fn a_run_cleans_up_after_its_deadline(db: Live) {
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(works).register(sleeps).linger(Duration::ZERO));
    let deadline = Duration::from_secs(3);
    let runs = [
        db.client.start(works, ()).deadline(deadline).await.unwrap(),
        db.client.start(sleeps, ()).deadline(deadline).await.unwrap(),
    ];
    for run in &runs {
        let error = failure(run.result().await);
        assert_eq!(
            (error.kind, error.message.as_str()),
            (ErrorKind::Deadline, "the run had not ended at its deadline")
        );
        assert_eq!(run.run().await.unwrap().cancel_requested_at, None);
    }
    assert_eq!(probe.times("clean up after deadline"), 2);
    worker.stop().await;
}

pub async fn a_run_that_returns_after_its_deadline_has_failed(db: Live) {
    #[workflow]
    async fn goes_on(ctx: &Ctx<Probe>, well: bool) -> Result<u32> {
        let _ = ctx.sleep(HOUR).await;
        if well { Ok(1) } else { Err(Error::msg("not tidied")) }
    }
    let worker = LocalWorker::start(db.worker(Probe::new()).register(goes_on).linger(2 * HOUR));
    for well in [true, false] {
        let run = db.client.start(goes_on, well).deadline(Duration::from_secs(2)).await.unwrap();
        let error = failure(run.result().await);
        assert_eq!((error.kind, error.causes.len()), (ErrorKind::Deadline, usize::from(!well)), "{error}");
    }
    worker.stop().await;
}

pub async fn a_worker_that_stops_leaves_the_clean_up_to_the_next(db: Live) {
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(hangs_after).grace(Duration::ZERO));
    let run = db.client.start(hangs_after, ()).await.unwrap();
    probe.noted("called").await;
    run.cancel().await.unwrap();
    probe.noted("hangs").await;
    worker.stop().await;
    assert_eq!(run.status().await.unwrap(), RunStatus::Parked);
    let worker = LocalWorker::start(db.worker(probe.clone()).register(hangs_after));
    until("the clean-up continues", async || (probe.times("hangs") == 2).then_some(())).await;
    run.terminate().await.unwrap();
    worker.stop().await;
}
