use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use workflow_sdk::prelude::*;
use workflow_sdk::{ClientError, Either, RunHandle, StepKind};
use workflow_tests::{Live, LocalWorker, Probe, until};

use crate::{failure, reaches};

const HOUR: Duration = Duration::from_secs(3600);
/// Long enough to be a park on a busy machine, with a linger time of zero.
const NAP: Duration = Duration::from_secs(1);

async fn keys<O>(run: &RunHandle<O>) -> Vec<String> {
    let outcomes = run.history().await.unwrap().into_iter().filter(|row| row.position.is_some());
    outcomes.map(|row| row.step_key).collect()
}

/// Runs a step that makes a note when it begins, and ends when its gate is opened.
async fn gated(ctx: &Ctx<Probe>, name: &str, item: usize) -> Result<usize> {
    ctx.step(name, async || {
        let (probe, label) = (ctx.state(), format!("{name} {item}"));
        let _over = probe.on_drop(format!("{label} is over"));
        probe.note(&label);
        probe.pass(&label).await;
        Ok::<_, Error>(10 * item)
    })
    .await
}

fn begun(probe: &Probe) -> Vec<String> {
    probe.notes().into_iter().filter(|note| !note.ends_with("is over")).collect()
}

async fn begins(probe: &Probe, count: usize) {
    until(&format!("{count} bodies begin"), async || (begun(probe).len() >= count).then_some(())).await;
}

pub async fn a_map_is_bounded_and_returns_its_results_in_order(db: Live) {
    #[workflow]
    async fn bounded(ctx: &Ctx<Probe>, items: Vec<usize>) -> Result<Vec<usize>> {
        ctx.map(items, 3, |ctx, item| async move { gated(&ctx, "page", item).await }).name("pages").await
    }
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(bounded));
    let run = db.client.start(bounded, (0..8).collect::<Vec<_>>()).await.unwrap();
    let mut opened = Vec::new();
    for count in 3..=8 {
        begins(&probe, count).await;
        // The last body that began ends first, so the results arrive out of order.
        let last = (0..8).rev().find(|item| probe.times(&format!("page {item}")) == 1 && !opened.contains(item));
        assert_eq!(begun(&probe).len(), count, "one body ended, so one more may begin");
        opened.push(last.unwrap());
        probe.open(&format!("page {}", last.unwrap()));
    }
    (0..8).for_each(|item| probe.open(&format!("page {item}")));
    assert_eq!(run.result().await.unwrap(), [0, 10, 20, 30, 40, 50, 60, 70]);
    let keys = keys(&run).await;
    let ends: Vec<_> = [2, 3, 4, 5, 6].map(|item| format!("pages/{item}/page")).into();
    assert_eq!((&keys[..5], keys.len()), (&ends[..], 8));
    worker.stop().await;
}

pub async fn the_first_failure_drops_the_other_items(db: Live) {
    #[workflow]
    async fn failing(ctx: &Ctx<Probe>) -> Result<()> {
        let map = ctx.map(0..5, 3, |ctx, item| async move {
            match gated(&ctx, "page", item).await {
                Ok(10) => Err(Error::msg("this one fails")),
                other => other,
            }
        });
        let error = map.await.unwrap_err();
        // The map has ended, but the workflow has not.
        gated(ctx, "after", 0).await?;
        Err(error)
    }
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(failing));
    let run = db.client.start(failing, ()).await.unwrap();
    begins(&probe, 3).await;
    probe.open("page 1");
    probe.noted("after 0").await;
    for item in [0, 2] {
        assert_eq!(probe.times(&format!("page {item} is over")), 1);
    }
    probe.open("after 0");
    assert_eq!(failure(run.result().await).message, "this one fails");
    assert_eq!(begun(&probe), ["page 0", "page 1", "page 2", "after 0"]);
    assert_eq!(keys(&run).await, ["map/1/page", "after"]);
    worker.stop().await;
}

/// Runs a map in which every odd item fails.
#[workflow]
async fn odd_ones_fail(ctx: &Ctx<Probe>, collects: bool) -> Result<String> {
    let map = ctx.map(0..6_u32, 2, |ctx, item| async move {
        let body = async || if item % 2 == 0 { Ok(item) } else { Err(Error::fatal(format!("{item} is odd"))) };
        ctx.state().note(format!("item {item}"));
        ctx.step("page", body).await
    });
    if !collects {
        return map.finish_all().await.map(|values| format!("{values:?}"));
    }
    let results = map.collect_results().await?;
    let shown = |result: Result<u32>| result.map_or_else(|error| error.message().to_owned(), |value| value.to_string());
    Ok(results.into_iter().map(shown).collect::<Vec<_>>().join(", "))
}

pub async fn a_map_can_finish_every_item(db: Live) {
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(odd_ones_fail));
    let all = db.client.start(odd_ones_fail, false).await.unwrap();
    let error = failure(all.result().await);
    assert_eq!((error.message.as_str(), error.step_key.as_deref()), ("1 is odd", Some("map/1/page")));
    let each = db.client.start(odd_ones_fail, true).await.unwrap();
    assert_eq!(each.result().await.unwrap(), "0, 1 is odd, 2, 3 is odd, 4, 5 is odd");
    for run in [all, each] {
        assert_eq!(keys(&run).await.len(), 6, "every item ended");
    }
    worker.stop().await;
}

/// Mails in a map, until the run is told to end. A map that begins after that goes on.
#[workflow]
async fn mails(ctx: &Ctx<Probe>, collects: bool) -> Result<usize> {
    let _undo = ctx.compensate("undo", (), async |probe: Arc<Probe>, ()| ok(probe.note("undone")))?;
    let map = ctx.map(0..20_u32, 2, |ctx, item| async move {
        ctx.step("mail", async || ok(ctx.state().note(format!("mail {item}")))).await?;
        ctx.sleep(HOUR).await
    });
    let ended = if collects { map.collect_results().await.map(drop) } else { map.finish_all().await.map(drop) };
    let told = ctx.map(0..3_u32, 1, |ctx, item| async move { ok(ctx.state().note(format!("told {item}"))) });
    told.finish_all().await?;
    ended.map(|()| 0)
}

pub async fn a_map_of_a_canceled_run_begins_no_further_item(db: Live) {
    for collects in [false, true] {
        let probe = Probe::new();
        let worker = LocalWorker::start(db.worker(probe.clone()).register(mails).linger(Duration::ZERO));
        let run = db.client.start(mails, collects).await.unwrap();
        reaches(&run, RunStatus::Parked).await;
        run.cancel().await.unwrap();
        assert!(matches!(run.result().await, Err(ClientError::RunCanceled { .. })));
        let notes = probe.notes();
        assert_eq!(notes.iter().filter(|note| note.starts_with("mail")).count(), 2, "{notes:?}");
        let after: Vec<_> = ["told 0", "told 1", "told 2", "undone"].map(|note| probe.times(note)).into();
        assert!(after.iter().all(|times| *times >= 1), "{notes:?}");
        worker.stop().await;
    }
}

pub async fn a_map_with_a_limit_of_0_is_refused(db: Live) {
    #[workflow]
    async fn limited(ctx: &Ctx<Probe>, limit: usize) -> Result<Vec<u32>> {
        ctx.map([1, 2], limit, |ctx, item| async move { ctx.step("page", async || Ok::<_, Error>(item)).await }).await
    }
    let worker = LocalWorker::start(db.worker(Probe::new()).register(limited));
    let refused = db.client.start(limited, 0).await.unwrap();
    let error = failure(refused.result().await);
    assert_eq!(error.kind, ErrorKind::Refused);
    assert!(error.message.contains("give ctx.map a limit of 1 or more"), "{error}");
    assert_eq!(refused.history().await.unwrap(), []);
    let fine = db.client.start(limited, usize::MAX).await.unwrap();
    assert_eq!(fine.result().await.unwrap(), [1, 2]);
    worker.stop().await;
}

pub async fn a_map_of_a_lost_worker_repeats_no_finished_body(db: Live) {
    #[workflow]
    async fn resumed(ctx: &Ctx<Probe>) -> Result<Vec<usize>> {
        let map = ctx.map(0..6, 2, |ctx, item| async move {
            let once = gated(&ctx, "first", item).await?;
            ctx.sleep(NAP).await?;
            Ok::<_, Error>(once + gated(&ctx, "second", item).await?)
        });
        map.await
    }
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(resumed).linger(Duration::ZERO));
    let run = db.client.start(resumed, ()).await.unwrap();
    (0..2).for_each(|item| probe.open(&format!("first {item}")));
    begins(&probe, 4).await;
    probe.open("second 0");
    probe.open("first 2");
    // The third item sleeps, and the second one is in its second step.
    let asleep = async || keys(&run).await.contains(&"map/2/first".to_owned()).then_some(());
    until("three items have their first value", asleep).await;
    worker.abort().await;
    (0..6).for_each(|item| {
        probe.open(&format!("first {item}"));
        probe.open(&format!("second {item}"));
    });
    let worker = LocalWorker::start(db.worker(probe.clone()).register(resumed).linger(Duration::ZERO));
    assert_eq!(run.result().await.unwrap(), [0, 20, 40, 60, 80, 100]);
    let times = |step: &str| (0..6).map(|item| probe.times(&format!("{step} {item}"))).collect::<Vec<_>>();
    assert_eq!((times("first"), times("second")), (vec![1; 6], vec![1, 2, 1, 1, 1, 1]));
    assert!(run.run().await.unwrap().epoch >= 3, "the run was parked and taken over");
    worker.stop().await;
}

/// Counts the items that began, the bodies that ran, and the claims.
#[derive(Default)]
struct Counts {
    begun: AtomicUsize,
    bodies: AtomicUsize,
    running: AtomicUsize,
    most: AtomicUsize,
    claims: AtomicUsize,
}

pub async fn ten_thousand_items_end_and_are_replayed(db: Live) {
    const ITEMS: usize = 10_000;
    #[workflow]
    async fn many(ctx: &Ctx<Arc<Counts>>) -> Result<usize> {
        let counts = ctx.state();
        counts.claims.fetch_add(1, SeqCst);
        let values = ctx.map(0..ITEMS, 100, |ctx, item| {
            counts.begun.fetch_add(1, SeqCst);
            async move { item_of(&ctx, item).await }
        });
        let values = values.await?;
        assert!(values.iter().copied().eq(0..ITEMS));
        // The replay after this park delivers ten thousand outcomes.
        ctx.sleep(NAP).await?;
        Ok(values.len())
    }
    async fn item_of(ctx: &Ctx<Arc<Counts>>, item: usize) -> Result<usize> {
        let counts = ctx.state();
        ctx.step("page", async || {
            counts.bodies.fetch_add(1, SeqCst);
            counts.most.fetch_max(counts.running.fetch_add(1, SeqCst) + 1, SeqCst);
            tokio::task::yield_now().await;
            counts.running.fetch_sub(1, SeqCst);
            Ok::<_, Error>(item)
        })
        .await
    }
    let counts = Arc::new(Counts::default());
    let worker = LocalWorker::start(db.worker(Arc::clone(&counts)).register(many).linger(Duration::ZERO));
    let run = db.client.start(many, ()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), ITEMS);
    let count = |count: &AtomicUsize| count.load(SeqCst);
    assert_eq!(count(&counts.bodies), ITEMS, "no body ran again");
    assert_eq!(count(&counts.most), 100);
    let claims = count(&counts.claims);
    assert!(claims >= 2, "the sleep was a park");
    assert_eq!(count(&counts.begun), claims * ITEMS, "each claim begins each item once");
    assert_eq!(run.history().await.unwrap().len(), ITEMS + 1);
    worker.stop().await;
}

pub async fn scopes_are_part_of_the_step_keys(db: Live) {
    #[workflow(allow(repeated_name))]
    async fn scoped(ctx: &Ctx<Probe>) -> Result<()> {
        let note = async |ctx: &Ctx<Probe>| {
            let body = async || Ok::<_, Error>(ctx.state().note(ctx.idempotency_key()));
            ctx.step("note", body).await
        };
        let order = ctx.scope("order");
        note(&order).await?;
        note(&order.scope("mail")).await?;
        note(&order.scope("mail")).await?;
        note(&ctx.scope("order")).await?;
        order.sleep(NAP).await?;
        ctx.timeout(HOUR, note(ctx)).await?;
        // The longest possible key, made of random text that cannot be compressed.
        let long: String = (0..4).map(|_| format!("{:016x}", ctx.random())).collect();
        let long = |length: usize| long.repeat(4)[..length].to_owned();
        let deep = ctx.scope(long(255)).scope(long(255)).scope(long(255));
        ctx.state().note(deep.step(long(255), async || Ok::<_, Error>(1)).await?.to_string());
        let deep = deep.scope(long(200));
        ctx.state().note(deep.step(long(56), async || Ok::<_, Error>(1)).await.unwrap_err().kind().to_string());
        Ok(())
    }
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(scoped));
    let run = db.client.start(scoped, ()).await.unwrap();
    run.result().await.unwrap();
    let keys = keys(&run).await;
    let short = ["order/note", "order/mail/note", "order/mail:1/note", "order:1/note", "order/sleep", "note"];
    assert_eq!(keys[..6], short);
    assert_eq!((keys[6].len(), keys.len()), (1023, 7));
    let noted: Vec<_> = [0, 1, 2, 3, 5].map(|at| format!("{}/{}", run.id(), short[at])).into();
    assert_eq!((&probe.notes()[..5], &probe.notes()[5..]), (&noted[..], &["1".to_owned(), "refused".to_owned()][..]));
    worker.stop().await;
}

#[workflow]
async fn limited(ctx: &Ctx<Probe>, limit: Duration) -> Result<usize> {
    let value = match ctx.timeout(limit, gated(ctx, "slow", 1)).await {
        Err(error) if error.kind() == ErrorKind::Timeout => {
            ctx.state().note(error.to_string());
            0
        }
        other => other?,
    };
    // The replay after this park must return the same value.
    ctx.sleep(NAP).await?;
    Ok(value)
}

pub async fn a_timeout_ends_slow_work(db: Live) {
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(limited).linger(Duration::ZERO));
    let run = db.client.start(limited, NAP).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 0);
    assert_eq!((probe.times("slow 1"), probe.times("slow 1 is over")), (1, 1), "the body ran once and was dropped");
    assert_eq!(keys(&run).await, ["timeout", "sleep"]);
    let text = "step \"timeout\": the future of ctx.timeout had not ended after 1s; \
                give it more time, or handle this error";
    let claims = run.run().await.unwrap().epoch;
    assert_eq!(
        i64::try_from(probe.times(text)).unwrap(),
        claims,
        "each replay gets the timeout again: {:?}",
        probe.notes()
    );
    let timeout = &run.history().await.unwrap()[0];
    assert_eq!(timeout.kind, StepKind::Sleep);
    assert!(timeout.completed_at.unwrap().since(timeout.started_at) >= NAP);
    worker.stop().await;
}

pub async fn a_timeout_lets_fast_work_finish(db: Live) {
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(limited).linger(Duration::ZERO));
    let run = db.client.start(limited, HOUR).await.unwrap();
    probe.open("slow 1");
    assert_eq!(run.result().await.unwrap(), 10);
    assert_eq!(keys(&run).await, ["slow", "sleep"]);
    assert!(run.run().await.unwrap().epoch >= 2, "the timer of the timeout does not prevent the park");
    worker.stop().await;
}

pub async fn a_timeout_survives_its_worker(db: Live) {
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(limited));
    let run = db.client.start(limited, 2 * NAP).await.unwrap();
    let begun = async || run.history().await.unwrap().into_iter().find(|row| row.step_key == "timeout");
    let begun = until("the timeout is recorded", begun).await;
    worker.abort().await;
    let worker = LocalWorker::start(db.worker(probe.clone()).register(limited));
    assert_eq!(run.result().await.unwrap(), 0);
    let history = run.history().await.unwrap();
    let ended = history.iter().find(|row| row.step_key == "timeout").unwrap();
    assert_eq!((ended.started_at, ended.attempt), (begun.started_at, 1), "the wait is the same");
    assert_eq!(ended.output, begun.output, "the wait ends at the same time");
    worker.stop().await;
}

pub async fn a_run_parks_within_a_timeout(db: Live) {
    #[workflow]
    async fn waits(ctx: &Ctx<Probe>) -> Result<String> {
        Ok(ctx.timeout(NAP, ctx.sleep(HOUR)).await.unwrap_err().kind().to_string())
    }
    let worker = LocalWorker::start(db.worker(Probe::new()).register(waits).linger(Duration::ZERO));
    let run = db.client.start(waits, ()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), "timeout");
    assert!(run.run().await.unwrap().epoch >= 2, "the run was parked");
    worker.stop().await;
}

pub async fn a_race_has_the_same_winner_after_a_park(db: Live) {
    #[workflow]
    async fn races(ctx: &Ctx<Probe>) -> Result<String> {
        let ready = ctx.select(std::future::ready("left"), std::future::ready("right")).await;
        let (number, value) = ctx.race((0..4).map(|item| gated(ctx, "racer", item))).await?;
        let side = match ctx.select(gated(ctx, "slow", 1), gated(ctx, "fast", 2)).await {
            Either::Left(value) => Either::Left(value?),
            Either::Right(value) => Either::Right(value?),
        };
        ctx.sleep(NAP).await?;
        Ok(format!("{ready:?} {number} {} {side:?}", value?))
    }
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(races).linger(Duration::ZERO));
    let run = db.client.start(races, ()).await.unwrap();
    begins(&probe, 4).await;
    probe.open("racer 2");
    probe.noted("fast 2").await;
    assert_eq!((0..4).filter(|item| probe.times(&format!("racer {item} is over")) == 1).count(), 4);
    probe.open("fast 2");
    assert_eq!(run.result().await.unwrap(), "Left(\"left\") 2 20 Right(20)");
    assert_eq!(begun(&probe).len(), 6, "no body ran again");
    assert!(run.run().await.unwrap().epoch >= 2);
    worker.stop().await;
}
