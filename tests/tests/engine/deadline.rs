use std::time::Duration;

use workflow_sdk::StoredError;
use workflow_sdk::prelude::*;
use workflow_tests::{Live, LocalWorker, Probe};

use crate::failure;

const HOUR: Duration = Duration::from_secs(3600);
/// Runs begin before their deadline, also on a busy machine.
const SHORT: Duration = Duration::from_secs(2);

#[workflow]
async fn asleep(ctx: &Ctx<Probe>) -> Result<()> {
    ctx.state().note("called");
    ctx.sleep(HOUR).await
}

#[track_caller]
fn is_deadline(error: &StoredError) {
    let told = (error.kind, error.message.as_str(), error.step_key.as_deref());
    assert_eq!(told, (ErrorKind::Deadline, "the run had not ended at its deadline", None));
}

async fn fails_as_deadline(run: &workflow_sdk::RunHandle<()>) {
    is_deadline(&failure(run.result().await));
    let row = run.run().await.unwrap();
    assert!(row.completed_at.unwrap() >= row.deadline_at.unwrap(), "the run does not end before its deadline");
}

pub async fn a_run_without_a_worker_fails_at_its_deadline(db: Live) {
    #[workflow]
    async fn unknown(ctx: &Ctx) -> Result<()> {
        ctx.sleep(HOUR).await
    }
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(asleep));
    let run = db.client.start(unknown, ()).deadline(SHORT).await.unwrap();
    fails_as_deadline(&run).await;
    assert_eq!(run.run().await.unwrap().epoch, 0, "the run was never claimed");
    worker.stop().await;
}

pub async fn a_delayed_run_fails_at_its_deadline(db: Live) {
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(asleep));
    let run = db.client.start(asleep, ()).delay(HOUR).deadline(SHORT).await.unwrap();
    fails_as_deadline(&run).await;
    assert_eq!(probe.times("called"), 0);
    worker.stop().await;
}

pub async fn a_parked_run_fails_at_its_deadline(db: Live) {
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(asleep).linger(Duration::ZERO));
    let deadline = std::time::SystemTime::now() + 2 * SHORT;
    let run = db.client.start(asleep, ()).deadline_at(deadline).await.unwrap();
    crate::reaches(&run, RunStatus::Parked).await;
    fails_as_deadline(&run).await;
    assert_eq!(probe.times("called"), 2, "the run is called again, to clean up");
    worker.stop().await;
}

pub async fn a_running_body_is_dropped_at_the_deadline(db: Live) {
    #[workflow]
    async fn endless(ctx: &Ctx<Probe>) -> Result<()> {
        let body = async || {
            let _dropped = ctx.state().on_drop("dropped");
            Ok::<_, Error>(std::future::pending::<()>().await)
        };
        ctx.step("wait", body).await
    }
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(endless));
    let run = db.client.start(endless, ()).deadline(SHORT).await.unwrap();
    fails_as_deadline(&run).await;
    assert_eq!(probe.notes(), ["dropped"]);
    worker.stop().await;
}

pub async fn no_body_begins_after_the_deadline(db: Live) {
    #[workflow]
    async fn late(ctx: &Ctx<Probe>) -> Result<()> {
        let blocking = async || {
            // Blocks the thread beyond the deadline, so the worker cannot drop the body in time.
            std::thread::sleep(2 * SHORT);
            Ok::<_, Error>(ctx.state().note("first"))
        };
        let next = async |note: &'static str| Ok::<_, Error>(ctx.state().note(note));
        let (first, beside) = futures::join!(ctx.step("first", blocking), ctx.step("beside", || next("beside")));
        first.and(beside)?;
        ctx.step("after", || next("after")).await
    }
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(late));
    let run = db.client.start(late, ()).deadline(SHORT).await.unwrap();
    fails_as_deadline(&run).await;
    assert_eq!(probe.notes(), ["first"]);
    worker.stop().await;
}

pub async fn a_run_that_ends_in_time_has_no_deadline(db: Live) {
    #[workflow]
    async fn quick(ctx: &Ctx<Probe>) -> Result<()> {
        ctx.step("quick", async || Ok::<_, Error>(())).await
    }
    let worker = LocalWorker::start(db.worker(Probe::new()).register(quick));
    let run = db.client.start(quick, ()).deadline(Duration::from_secs(60)).await.unwrap();
    run.result().await.unwrap();
    assert_eq!(run.status().await.unwrap(), RunStatus::Succeeded);
    worker.stop().await;
}
