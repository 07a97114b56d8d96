use std::time::Duration;

use workflow_sdk::prelude::*;
use workflow_sdk::{Explanation, Priority, QueueLimits, StepKind};
use workflow_tests::log_capture::log_lines;
use workflow_tests::{Live, LocalWorker, Probe, until};

use crate::{failure, reaches};

const HOUR: Duration = Duration::from_secs(3600);

#[workflow(name = "checkout")]
async fn checkout(ctx: &Ctx<Probe>) -> Result<String> {
    ctx.step("charge", async || Ok::<_, Error>(ctx.state().pass("charge").await)).await?;
    Ok("1".into())
}

#[workflow(name = "checkout", version = "2")]
async fn checkout_2(ctx: &Ctx<Probe>) -> Result<String> {
    ctx.step("pay", async || Ok::<_, Error>(ctx.state().note("paid"))).await?;
    Ok("2".into())
}

async fn why<O>(run: &RunHandle<O>) -> String {
    run.explain().await.unwrap().to_string()
}

pub async fn an_unserved_version_is_explained(db: Live) {
    let run = db.client.start(checkout_2, ()).await.unwrap();
    let due = run.run().await.unwrap().available_at;
    let unserved = format!("the run is due since {due}, but no worker serves checkout version 2 in queue default; ");
    assert_eq!(why(&run).await, format!("{unserved}no worker knows checkout"));

    let worker = LocalWorker::start(db.worker(Probe::new()).register(checkout));
    let elsewhere = LocalWorker::start(db.worker(Probe::new()).register(checkout_2).queues(["mail"]));
    let expected = format!("{unserved}workers serve version 1 and version 2 in queue mail");
    until("both workers are recorded", async || (why(&run).await == expected).then_some(())).await;
    let Explanation::Unserved { lane, served, .. } = run.explain().await.unwrap() else { panic!("unserved") };
    assert_eq!((lane.version.as_str(), served.len()), ("2", 2));
    elsewhere.stop().await;
    assert_eq!(why(&run).await, format!("{unserved}workers serve version 1"));
    assert_eq!(run.status().await.unwrap(), RunStatus::Pending, "the run stays due");

    let knows = LocalWorker::start(db.worker(Probe::new()).register(checkout_2));
    assert_eq!(run.result().await.unwrap(), "2");
    knows.stop().await;
    worker.stop().await;
    let at = run.run().await.unwrap().completed_at.unwrap();
    assert_eq!(why(&run).await, format!("the run succeeded at {at}"));
}

pub async fn a_fork_to_an_unserved_version_stays_due(db: Live) {
    let probe = Probe::new();
    probe.open("charge");
    let worker = LocalWorker::start(db.worker(probe).register(checkout));
    let source = db.client.start(checkout, ()).await.unwrap();
    assert_eq!(source.result().await.unwrap(), "1");
    let fork = source.fork().from("charge").version("9").await.unwrap();
    let said = why(&fork).await;
    assert!(said.ends_with("no worker serves checkout version 9 in queue default; workers serve version 1"), "{said}");
    assert_eq!(fork.status().await.unwrap(), RunStatus::Pending);
    worker.stop().await;
}

pub async fn a_worker_warns_of_due_unserved_versions(db: Live) {
    #[workflow(name = "forgotten by its workers")]
    async fn old(ctx: &Ctx) -> Result<()> {
        let _ = ctx;
        Ok(())
    }
    #[workflow(name = "forgotten by its workers", version = "2")]
    async fn newer(ctx: &Ctx) -> Result<()> {
        let _ = ctx;
        Ok(())
    }
    let queue = db.url() + db.schema().unwrap_or_default();
    let run = db.client.start(old, ()).queue(&queue[queue.len() - 20..]).await.unwrap();
    let queue = run.run().await.unwrap().lane.queue;
    let worker = LocalWorker::start(db.worker(()).register(newer).queues([queue.clone()]));
    let lines = || log_lines(&["runs are due that no worker serves", "forgotten by its workers", &queue]);
    until("the worker warns", async || (!lines().is_empty()).then_some(())).await;
    worker.stop().await;
    assert_eq!(lines().len(), 1);
    assert!(lines()[0].contains("version=\"1\""), "{lines:?}", lines = lines());
}

pub async fn versions_live_side_by_side(db: Live) {
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(checkout));
    let old = db.client.start(checkout, ()).await.unwrap();
    reaches(&old, RunStatus::Running).await;
    worker.abort().await;
    // The next worker serves both versions. The run that began as version 1 continues as
    // version 1.
    let worker = LocalWorker::start(db.worker(probe.clone()).register(checkout).register(checkout_2));
    let new = db.client.start(checkout_2, ()).await.unwrap();
    probe.open("charge");
    assert_eq!((old.result().await.unwrap(), new.result().await.unwrap()), ("1".into(), "2".into()));
    assert_eq!(probe.notes(), ["paid"]);
    worker.stop().await;
}

pub async fn every_status_of_a_run_is_explained(db: Live) {
    #[workflow]
    async fn naps(ctx: &Ctx<Probe>) -> Result<()> {
        ctx.sleep(HOUR).await
    }
    #[workflow]
    async fn backs_off(ctx: &Ctx<Probe>) -> Result<()> {
        let body = async || Err::<(), _>(Error::msg("no"));
        ctx.step("call", body).retry(Retry::fixed(HOUR)).await
    }
    #[workflow]
    async fn fails(ctx: &Ctx<Probe>) -> Result<()> {
        let _ = ctx;
        Err(Error::msg("no luck"))
    }
    let probe = Probe::new();
    let worker = db.worker(probe.clone()).register(naps).register(backs_off).register(fails).register(checkout);
    let worker = LocalWorker::start(worker);

    let delayed = db.client.start(naps, ()).delay(HOUR).await.unwrap();
    let at = delayed.run().await.unwrap().available_at;
    assert_eq!(why(&delayed).await, format!("the run starts at {at}"));

    let sleeping = db.client.start(naps, ()).await.unwrap();
    reaches(&sleeping, RunStatus::Parked).await;
    let at = sleeping.run().await.unwrap().available_at;
    assert_eq!(why(&sleeping).await, format!("the run waits for sleep \"sleep\", until {at}"));
    let Explanation::Waiting { on, until: Some(until_at) } = sleeping.explain().await.unwrap() else { panic!("waits") };
    assert_eq!((on[0].kind, on[0].key.as_str(), until_at), (StepKind::Sleep, "sleep", at));

    let waiting = db.client.start(backs_off, ()).await.unwrap();
    reaches(&waiting, RunStatus::Parked).await;
    let at = waiting.run().await.unwrap().available_at;
    assert_eq!(why(&waiting).await, format!("the run waits for attempt 2 of step \"call\", until {at}"));

    let running = db.client.start(checkout, ()).await.unwrap();
    until("the running step is recorded", async || running.history().await.unwrap().first().map(drop)).await;
    let row = running.run().await.unwrap();
    let (holder, since) = (row.worker_id.unwrap(), row.started_at.unwrap());
    let expected =
        format!("the run is running on worker {holder}, first claimed at {since}, in attempt 1 of step \"charge\"");
    assert_eq!(why(&running).await, expected);
    running.cancel().await.unwrap();
    until("the run is canceled", async || running.run().await.unwrap().completed_at).await;
    let at = running.run().await.unwrap().completed_at.unwrap();
    assert_eq!(why(&running).await, format!("the run was canceled at {at}"));

    let failed = db.client.start(fails, ()).await.unwrap();
    failure(failed.result().await);
    let at = failed.run().await.unwrap().completed_at.unwrap();
    assert_eq!(why(&failed).await, format!("the run failed at {at}: no luck"));
    worker.stop().await;
}

pub async fn a_divergence_is_explained(db: Live) {
    #[workflow(name = "diverges")]
    async fn before(ctx: &Ctx<Probe>) -> Result<()> {
        ctx.step("a", async || Ok::<_, Error>(())).await?;
        // Long enough to be seen parked on a busy machine.
        ctx.sleep(Duration::from_secs(3)).await
    }
    #[workflow(name = "diverges")]
    async fn after(ctx: &Ctx<Probe>) -> Result<()> {
        let _ = ctx;
        Ok(())
    }
    let worker = LocalWorker::start(db.worker(Probe::new()).register(before).linger(Duration::ZERO));
    let run = db.client.start(before, ()).await.unwrap();
    reaches(&run, RunStatus::Parked).await;
    worker.abort().await;
    let worker = LocalWorker::start(db.worker(Probe::new()).register(after));
    let said = until("the run diverges", async || {
        let said = why(&run).await;
        said.contains("other code").then_some(said)
    })
    .await;
    worker.stop().await;
    let at = run.run().await.unwrap().available_at;
    let expected = format!(
        "the run waits for other code and is tried again at {at}: the code does not fit the run's history: \
         nothing asks for step \"a\""
    );
    assert_eq!(said, expected);
}

pub async fn a_wait_for_a_free_worker_is_explained(db: Live) {
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(checkout).concurrency(1));
    let first = db.client.start(checkout, ()).await.unwrap();
    reaches(&first, RunStatus::Running).await;
    let second = db.client.start(checkout, ()).await.unwrap();
    let third = db.client.start(checkout, ()).await.unwrap();
    for (run, before) in [(&second, "no due run"), (&third, "1 due run")] {
        let due = run.run().await.unwrap().available_at;
        let expected = format!("the run is due since {due}; 1 worker serves it and takes it once it has room");
        assert_eq!(why(run).await, format!("{expected}; {before} of its lane and gate is before it"));
    }
    let urgent = db.client.start(checkout, ()).priority(Priority::Urgent);
    let explained = db.client.explain_start(urgent).await.unwrap();
    let Explanation::Due { ahead, .. } = explained else { panic!("{explained:?}") };
    assert_eq!(ahead.map(|count| (count.runs, count.at_least)), Some((0, false)), "it would go first");
    probe.open("charge");
    for run in [second, third] {
        assert_eq!(run.result().await.unwrap(), "1");
    }
    worker.stop().await;
}

pub async fn a_run_that_is_held_back_is_explained(db: Live) {
    let probe = Probe::new();
    let mut runs = Vec::new();
    for _ in 0..20 {
        runs.push(db.client.start(checkout, ()).await.unwrap());
    }
    // As if their worker had died four times. Then two of them begin, a second later four, and so
    // on: the last ones wait for three seconds.
    db.raw().await.execute("UPDATE workflow_runs SET crashes = 4").await;
    let worker = LocalWorker::start(db.worker(probe.clone()).register(checkout));
    let (held_back, explanation) = until("a run is held back", async || {
        for (number, run) in runs.iter().enumerate() {
            let explanation = run.explain().await.unwrap();
            if matches!(explanation, Explanation::Suspected { .. }) {
                return Some((number, explanation));
            }
        }
        None
    })
    .await;
    let Explanation::Suspected { at, crashes: 4 } = &explanation else { panic!("{explanation:?}") };
    let expected =
        format!("the run may be what killed its worker 4 times; it waits to be driven among fewer runs, until {at}");
    assert_eq!(explanation.to_string(), expected);
    let is_own = |line: &&String| runs.iter().any(|run| line.contains(&run.id().to_string()));
    let lines = log_lines(&["WARN", "the run is held back"]);
    assert_eq!(lines.iter().filter(is_own).count(), 1, "once per minute and worker: {lines:?}");
    probe.open("charge");
    assert_eq!(runs[held_back].result().await.unwrap(), "1");
    worker.stop().await;
}

pub async fn a_worker_that_works_once_waits_for_runs_that_it_holds_back(db: Live) {
    let mut runs = Vec::new();
    for _ in 0..20 {
        runs.push(db.client.start(checkout, ()).await.unwrap());
    }
    // As if their worker had died four times: they begin in waves, of which the last one is due
    // after the first drives have ended.
    db.raw().await.execute("UPDATE workflow_runs SET crashes = 4").await;
    let probe = Probe::new();
    probe.open("charge");
    db.worker(probe).register(checkout).run_once().await.unwrap();
    for run in &runs {
        assert_eq!(run.status().await.unwrap(), RunStatus::Succeeded);
    }
}

pub async fn a_worker_that_works_once_leaves_runs_that_may_not_begin(db: Live) {
    db.client.queue("night").pause("the night has not begun").await.unwrap();
    db.client.queue("closed").set_limits(QueueLimits::none().concurrency(0)).await.unwrap();
    let start = async |queue: &str| db.client.start(checkout, ()).queue(queue).await.unwrap();
    let runs = [start("night").await, start("closed").await, start("open").await];
    let probe = Probe::new();
    probe.open("charge");
    let worker = db.worker(probe).register(checkout).queues(["night", "closed", "open"]);
    worker.run_once().await.unwrap();
    let [paused, full, open] = runs;
    assert_eq!(open.status().await.unwrap(), RunStatus::Succeeded);
    assert_eq!(paused.status().await.unwrap(), RunStatus::Pending);
    assert_eq!(full.status().await.unwrap(), RunStatus::Pending);
}
