//! Lists of runs, as an operator reads them.

use std::time::Duration;

use workflow_sdk::operate::{
    Cursor, Direction, ListRuns, OperateError, OperateErrorCode, Query, RunNow, RunPage, RunSummary,
};
use workflow_sdk::prelude::*;
use workflow_sdk::{Explanation, GateLimits, LimitRule, QueueLimits, RunId, SCHEDULE_TAG, Schedule};
use workflow_tests::{Live, LocalWorker, Probe, until};
use workflow_worker::{Queue, Rate};

#[workflow]
async fn settle(ctx: &Ctx<Probe>, how: String) -> Result<String> {
    match how.as_str() {
        "fail" => Err(Error::msg("no luck")),
        "wait" => ok(ctx.signal::<String>("go").await?.unwrap_or_default()),
        how => ok(how.to_owned()),
    }
}

fn query(text: &str) -> Query {
    text.parse().unwrap()
}

async fn found(db: &Live, text: &str) -> Vec<RunId> {
    let page = db.client.operate().runs(ListRuns::new(query(text))).await.unwrap();
    assert!(page.complete && page.searched_to.is_none(), "{text}: {page:?}");
    page.items.iter().map(|run| run.id).collect()
}

pub async fn queries_find_runs(db: Live) {
    let soon = db.client.start(settle, "wait".into()).key("order-1").tag("region", "eu").await.unwrap();
    let failed = db.client.start(settle, "fail".into()).key("order-2").tag("region", "us").await.unwrap();
    let done = db.client.start(settle, "done".into()).tag("region", "eu").tag("tier", "gold").await.unwrap();
    let working = LocalWorker::start(db.worker(Probe::new()).register(settle));
    done.result().await.unwrap();
    failed.result().await.unwrap_err();
    until("the run waits", async || (soon.status().await.unwrap() == RunStatus::Parked).then_some(())).await;
    working.stop().await;
    let later = db.client.start(settle, "x".into()).delay(Duration::from_secs(3600)).queue("slow").await.unwrap();
    let schedule = Schedule::every("nightly", Duration::from_secs(86_400)).start_by_name("clean_up", &1.into());
    let schedule = db.client.create_schedule(schedule).await.unwrap();
    let triggered = schedule.trigger().await.unwrap();
    db.client.pause(soon.id()).await.unwrap();

    let [soon, failed, done, later, triggered] = [soon.id(), failed.id(), done.id(), later.id(), triggered.id()];
    let mut all = vec![soon, failed, done, later, triggered];
    all.sort_by(|one, other| other.cmp(one));
    assert_eq!(found(&db, "").await, all);
    for (text, expected) in [
        ("status:failed", vec![failed]),
        ("status:failed status:succeeded workflow:settle", vec![done, failed]),
        ("-status:failed workflow:set*", vec![later, done, soon]),
        ("tag.region:eu", vec![done, soon]),
        ("tag.region:eu tag.tier:gold", vec![done]),
        ("tag.region:eu -tag.tier:gold", vec![soon]),
        ("tag.region:eu tag.region:us is:ended", vec![done, failed]),
        ("key:order-1", vec![soon]),
        ("key:order-*", vec![failed, soon]),
        ("is:open -is:paused workflow:settle", vec![later]),
        ("is:paused", vec![soon]),
        ("is:parked", vec![soon]),
        ("is:delayed", vec![later]),
        ("is:due", vec![triggered]),
        ("is:late", vec![]),
        ("is:stuck", vec![]),
        ("is:due -is:due", vec![]),
        ("is:paused -is:paused", vec![]),
        ("queue:slow started:>-1h", vec![later]),
        ("queue:slow started:<-1h", vec![]),
        ("queue:slow started:-1h..now", vec![later]),
        ("ended:>-1h", vec![done, failed]),
        ("is:unserved", vec![triggered]),
        ("-is:unserved is:open", vec![later, soon]),
        ("is:unserved -is:unserved", vec![]),
        ("duration:<1h", vec![done, failed]),
        ("duration:>1h", vec![]),
        ("duration:0s..1h -status:failed", vec![done]),
        ("schedule:nightly", vec![triggered]),
        (&format!("tag.{SCHEDULE_TAG}:nightly"), vec![triggered]),
        (&format!("parent:{soon}"), vec![]),
    ] {
        assert_eq!(found(&db, text).await, expected, "{text}");
    }
}

#[workflow]
async fn ask(ctx: &Ctx<Probe>) -> Result<()> {
    ctx.step("ask", async || ok(())).limit("llm", "acct-42").await
}

/// `is:blocked` finds what waits behind a limit, whichever one holds it back, until the limit lets
/// it go on.
pub async fn a_search_finds_the_runs_that_limits_hold_back(db: Live) {
    let (none, gates) = (QueueLimits::none(), GateLimits::none());
    let of_hour = Rate::per(Duration::from_secs(3600), 1);
    let queue = |name: &str| db.client.queue(name);
    queue("paused").pause("a test").await.unwrap();
    queue("full").set_limits(none.concurrency(0)).await.unwrap();
    queue("gated").set_limits(none.per_gate(gates.concurrency(0))).await.unwrap();
    queue("rated").set_limits(none.rate(of_hour).per_gate(gates.rate(of_hour))).await.unwrap();
    db.client.limit("llm").set(LimitRule::none().concurrency(0)).await.unwrap();
    let worker = db.worker(Probe::new()).register(settle).register(ask).linger(Duration::ZERO);
    let names = ["default", "paused", "full", "gated", "rated"];
    let working = LocalWorker::start(names.into_iter().fold(worker, |worker, name| worker.queue(Queue::new(name))));

    let start = |name: &str| db.client.start(settle, "x".into()).queue(name);
    let (paused, full) = (start("paused").await.unwrap(), start("full").await.unwrap());
    let gated = start("gated").gate("acct-42").await.unwrap();
    start("gated").await.unwrap().result().await.unwrap();
    start("rated").gate("acct-42").await.unwrap().result().await.unwrap();
    let rated = start("rated").await.unwrap();
    let later = start("full").delay(Duration::from_secs(3600)).await.unwrap();
    let asking = db.client.start(ask, ()).await.unwrap();
    // A run that is being parked while a search reads may be missed by it.
    until("it is parked and waits for a seat", async || {
        let waits = matches!(asking.explain().await.unwrap(), Explanation::WaitsForSeat { .. });
        (waits && asking.status().await.unwrap() == RunStatus::Parked).then_some(())
    })
    .await;
    let mut all = vec![paused.id(), full.id(), gated.id(), rated.id(), asking.id()];
    all.sort_by(|one, other| other.cmp(one));
    assert_eq!(found(&db, "is:blocked").await, all);
    assert_eq!(found(&db, "-is:blocked is:open").await, [later.id()]);
    assert_eq!(found(&db, "is:blocked queue:gated").await, [gated.id()]);
    assert!(found(&db, "is:blocked status:succeeded").await.is_empty());

    // The queue has room again, and its gate has not.
    queue("rated").set_limits(none.per_gate(gates.rate(of_hour))).await.unwrap();
    rated.result().await.unwrap();
    let behind = start("rated").gate("acct-42").await.unwrap();
    queue("paused").resume().await.unwrap();
    queue("full").clear_limits().await.unwrap();
    db.client.limit("llm").set(LimitRule::none().concurrency(1)).await.unwrap();
    for run in [paused, full] {
        run.result().await.unwrap();
    }
    asking.result().await.unwrap();
    assert_eq!(found(&db, "is:blocked").await, [behind.id(), gated.id()]);
    working.stop().await;
}

pub async fn a_listed_run_says_what_it_does_now(db: Live) {
    let waiting = db.client.start(settle, "wait".into()).await.unwrap();
    let failed = db.client.start(settle, "fail".into()).await.unwrap();
    let working = LocalWorker::start(db.worker(Probe::new()).register(settle));
    failed.result().await.unwrap_err();
    until("the run waits", async || (waiting.status().await.unwrap() == RunStatus::Parked).then_some(())).await;
    working.stop().await;
    let due = db.client.start(settle, "x".into()).await.unwrap();
    let later = db.client.start(settle, "x".into()).delay(Duration::from_secs(3600)).await.unwrap();
    let paused = db.client.start(settle, "x".into()).await.unwrap();
    db.client.pause(paused.id()).await.unwrap();

    let page = db.client.operate().runs(ListRuns::default()).await.unwrap();
    let of = |id: RunId| page.items.iter().find(|run| run.id == id).unwrap();
    assert_eq!(of(waiting.id()).now, RunNow::Waits);
    assert_eq!(of(waiting.id()).awaited().as_deref(), Some(r#"signal "go""#));
    assert!(matches!(of(failed.id()).now, RunNow::Ended { at: Some(_) }));
    assert!(of(failed.id()).error.as_ref().unwrap().message.contains("no luck"));
    assert!(matches!(of(due.id()).now, RunNow::Due { .. }));
    let RunNow::WaitsUntil { until } = of(later.id()).now else { panic!("{:?}", of(later.id())) };
    assert!(until > of(later.id()).created_at);
    assert!(matches!(of(paused.id()).now, RunNow::Paused { .. }));

    // Requests and answers pass a network unchanged.
    let text = serde_json::to_string(&page).unwrap();
    assert_eq!(serde_json::from_str::<RunPage>(&text).unwrap(), page);
    assert!(text.contains(r#""now":{"state":"waits"}"#), "{text}");
}

pub async fn pages_lead_to_older_and_newer_runs(db: Live) {
    let runs = db.client.start_many(settle, (0..5).map(|number| number.to_string())).await.unwrap();
    let mut ids: Vec<RunId> = runs.iter().map(|run| run.id()).collect();
    ids.sort();
    let list = ListRuns::new(query("is:open")).limit(2);
    let ids_of = |page: &RunPage| page.items.iter().map(|run: &RunSummary| run.id).collect::<Vec<_>>();
    let read = async |list: &ListRuns| db.client.operate().runs(list.clone()).await.unwrap();
    let first = read(&list).await;
    assert_eq!((ids_of(&first), first.complete), (vec![ids[4], ids[3]], false));
    let second = read(&list.clone().cursor(first.next.clone().unwrap())).await;
    assert_eq!((ids_of(&second), second.complete), (vec![ids[2], ids[1]], false));
    let last = read(&list.clone().cursor(second.next.clone().unwrap())).await;
    assert_eq!((ids_of(&last), last.complete, last.next.clone()), (vec![ids[0]], true, None));

    let newer = list.clone().direction(Direction::Newer);
    let back = read(&newer.clone().cursor(last.previous.unwrap())).await;
    assert_eq!((ids_of(&back), back.complete), (vec![ids[2], ids[1]], false));
    let back = read(&newer.clone().cursor(back.previous.unwrap())).await;
    assert_eq!((ids_of(&back), back.complete), (vec![ids[4], ids[3]], true));
    // Nothing is newer yet. Both ways lead on from an empty page.
    let none = read(&newer.clone().cursor(back.previous.unwrap())).await;
    assert_eq!((ids_of(&none), none.complete), (vec![], true));
    let again = read(&list.clone().cursor(none.next.unwrap())).await;
    assert_eq!(ids_of(&again), [ids[4], ids[3]]);
    let new = db.client.start(settle, "new".into()).await.unwrap();
    let page = read(&newer.cursor(none.previous.unwrap())).await;
    assert_eq!(ids_of(&page), [new.id()]);
}

pub async fn a_bad_request_for_a_list_says_what_is_wrong(db: Live) {
    db.client.start_many(settle, ["a".to_owned(), "b".to_owned()]).await.unwrap();
    let page = db.client.operate().runs(ListRuns::default().limit(1)).await.unwrap();
    let cursor = page.next.unwrap();
    for (list, code, says) in [
        (ListRuns::default().limit(0), OperateErrorCode::BadLimit, "1 to 1000"),
        (ListRuns::default().limit(1001), OperateErrorCode::BadLimit, "1 to 1000"),
        (ListRuns::default().cursor(Cursor::new("nonsense")), OperateErrorCode::BadCursor, "not a cursor"),
        (ListRuns::new(query("is:open")).cursor(cursor), OperateErrorCode::BadCursor, "another query"),
    ] {
        let error = db.client.operate().runs(list).await.unwrap_err();
        assert_eq!(error.code, code);
        assert!(error.to_string().contains(says), "{error}");
        let text = serde_json::to_string(&error).unwrap();
        assert_eq!(serde_json::from_str::<OperateError>(&text).unwrap(), error);
    }
    db.client.store().close().await;
    let error = db.client.operate().runs(ListRuns::default()).await.unwrap_err();
    assert_eq!(error.code, OperateErrorCode::Unavailable, "{error}");
    let refused = OperateError::from("status:x".parse::<Query>().unwrap_err());
    assert_eq!((refused.code, refused.query.map(|query| query.byte)), (OperateErrorCode::BadQuery, Some(7)));
}
