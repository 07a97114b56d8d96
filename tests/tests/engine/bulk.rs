//! Bulk operations: ordered by an operator, executed by any worker.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use serde_json::json;

use workflow_engine::model::{NewRun, derived_run_id};
use workflow_engine::store::{BulkWrite, Write};
use workflow_sdk::operate::{
    Action, BulkAction, BulkId, BulkStatus, BulkView, ListAudit, ListBulks, OperateError, OperateErrorCode, Order,
    OrderOutcome, Payload, Query, StartBulk,
};
use workflow_sdk::prelude::*;
use workflow_sdk::{DEFAULT_PAYLOAD_LIMIT, DatabaseErrorKind, Encryption, EncryptionKey, Priority, RunId};
use workflow_tests::builders::new_run;
use workflow_tests::faulty::{Fault, FaultyStore};
use workflow_tests::{Live, LocalWorker, Probe, until};
use workflow_worker::Worker;

#[workflow]
async fn unrelated(_ctx: &Ctx<Probe>) -> Result<u32> {
    ok(1)
}

/// Waits twice for a signal of one name.
#[workflow]
async fn listen(ctx: &Ctx<Probe>) -> Result<Vec<Option<String>>> {
    let first = ctx.signal::<String>("go").await?;
    ctx.step("heard", async || ok(1)).await?;
    let second = ctx.signal::<String>("go").await?;
    ok(vec![first, second])
}

/// Fails until the probe was told to let it pass.
#[workflow]
async fn fail_once(ctx: &Ctx<Probe>) -> Result<u32> {
    ctx.step("work", async || Err::<u32, _>(Error::msg("no luck"))).retry(Retry::none()).await
}

/// Starts runs that no worker serves, with a tag.
async fn start(db: &Live, runs: usize, tag: &str) -> Vec<RunId> {
    let starts = (0..runs).map(|n| db.client.start_by_name("unserved", &json!(n)).tag("group", tag));
    let started = join_all(starts.map(IntoFuture::into_future)).await;
    started.into_iter().map(|run| run.unwrap().id()).collect()
}

fn query(text: &str) -> Query {
    text.parse().unwrap()
}

async fn perform(db: &Live, action: Action) -> Result<OrderOutcome, OperateError> {
    let order = Order::new(action).actor("ada").reason("because");
    db.client.operate().perform(order).await.map(|done| done.outcome)
}

async fn order(db: &Live, text: &str, apply: BulkAction) -> BulkId {
    let start = Action::StartBulk(Box::new(StartBulk::new(query(text), apply)));
    match perform(db, start).await.unwrap() {
        OrderOutcome::BulkStarted { bulk } => bulk,
        other => panic!("{other:?}"),
    }
}

async fn view(db: &Live, bulk: BulkId) -> BulkView {
    db.client.operate().bulk(bulk).await.unwrap()
}

async fn ended(db: &Live, bulk: BulkId) -> BulkView {
    until("the operation ends", async || {
        let view = view(db, bulk).await;
        (view.status != BulkStatus::Running).then_some(view)
    })
    .await
}

fn counts(view: &BulkView) -> (u64, u64, u64) {
    (view.done, view.skipped, view.failed)
}

/// Returns the targets of the audit rows with this verb.
async fn audited(db: &Live, verb: &str) -> Vec<String> {
    let page = db.client.operate().audit(ListAudit::new().verb(verb).limit(1000)).await.unwrap();
    page.items.into_iter().map(|row| row.target).collect()
}

fn worker(db: &Live) -> LocalWorker {
    LocalWorker::start(db.worker(Probe::new()).register(unrelated))
}

async fn status(db: &Live, run: RunId) -> RunStatus {
    db.client.run(run).await.unwrap().status
}

pub async fn each_run_of_a_query_is_canceled_once(db: Live) {
    let (mut meant, others) = (start(&db, 40, "old").await, start(&db, 3, "new").await);
    db.client.cancel(meant[0]).await.unwrap();
    let bulk = order(&db, "tag.group:old", BulkAction::CancelRun).await;
    let late = start(&db, 2, "old").await;
    assert_eq!((view(&db, bulk).await.status, view(&db, bulk).await.matched), (BulkStatus::Running, Some(40)));
    let working = worker(&db);
    let view = ended(&db, bulk).await;
    assert_eq!((view.status, counts(&view)), (BulkStatus::Done, (39, 1, 0)), "{view:?}");
    assert_eq!(
        (view.verb.as_str(), view.actor.as_deref(), view.query.as_str()),
        ("run.cancel", Some("ada"), "tag.group:old")
    );
    assert!(view.ended_at.is_some() && view.worker.is_some());
    for run in &meant {
        assert_eq!(status(&db, *run).await, RunStatus::Canceled);
    }
    for run in others.iter().chain(&late) {
        assert_eq!(status(&db, *run).await, RunStatus::Pending);
    }
    meant.remove(0);
    let rows = audited(&db, "run.cancel").await;
    let targets: BTreeSet<String> = meant.iter().map(|run| format!("run:{run}")).collect();
    assert_eq!(rows.len(), targets.len());
    assert_eq!(rows.into_iter().collect::<BTreeSet<_>>(), targets);
    let row =
        db.client.operate().audit(ListAudit::new().target(format!("run:{}", meant[0]))).await.unwrap().items.remove(0);
    assert_eq!((row.actor.as_deref(), row.reason.as_deref()), (Some("ada"), Some("because")));
    assert_eq!(row.arguments, json!({ "bulk": bulk }));
    assert_eq!(audited(&db, "bulk.").await, [format!("bulk:{bulk}")]);
    working.stop().await;
}

/// The clock of the client that starts a run may be ahead, and so the id of the run.
pub async fn a_run_whose_id_is_ahead_is_changed_too(db: Live) {
    let day = Duration::from_secs(86_400);
    let now = RunId::generate().time();
    let ahead = derived_run_id(RunId::generate(), "ahead", now + day);
    let tags = BTreeMap::from([("group".to_owned(), "old".to_owned())]);
    let run = NewRun { id: ahead, tags, ..new_run() };
    db.client.store().commit(&[Write::Start(run)]).await.unwrap();
    let meant = start(&db, 1, "old").await[0];
    let bulk = order(&db, "tag.group:old", BulkAction::CancelRun).await;
    let late = start(&db, 2, "old").await;
    let working = worker(&db);
    assert_eq!(counts(&ended(&db, bulk).await), (2, 0, 0));
    for run in [ahead, meant] {
        assert_eq!(status(&db, run).await, RunStatus::Canceled);
    }
    for run in late {
        assert_eq!(status(&db, run).await, RunStatus::Pending);
    }
    working.stop().await;
}

pub async fn a_preview_counts_and_shows_examples(db: Live) {
    start(&db, 12, "a").await;
    start(&db, 3, "b").await;
    let preview = db.client.operate().bulk_preview(&query("tag.group:a")).await.unwrap();
    assert_eq!((preview.runs.runs, preview.runs.at_least, preview.examples.len()), (12, false, 10));
    assert!(preview.examples.iter().all(|run| run.tags["group"] == "a") && preview.searched_to.is_none());
    let none = db.client.operate().bulk_preview(&query("tag.group:c")).await.unwrap();
    assert_eq!((none.runs.runs, none.examples.len()), (0, 0));
}

pub async fn each_action_does_what_the_single_order_does(db: Live) {
    let runs = start(&db, 3, "a").await;
    let working = worker(&db);
    let all = async |apply| {
        let bulk = order(&db, "tag.group:a workflow:unserved", apply).await;
        counts(&ended(&db, bulk).await)
    };
    assert_eq!(all(BulkAction::PauseRun).await, (3, 0, 0));
    assert!(db.client.run(runs[0]).await.unwrap().paused_at.is_some());
    assert_eq!(all(BulkAction::PauseRun).await, (0, 3, 0));
    assert_eq!(all(BulkAction::ResumeRun).await, (3, 0, 0));
    assert_eq!(all(BulkAction::ResumeRun).await, (0, 3, 0));
    assert_eq!(all(BulkAction::SetPriority { priority: Priority::Low }).await, (3, 0, 0));
    assert_eq!(all(BulkAction::SetPriority { priority: Priority::Low }).await, (0, 3, 0));
    assert_eq!(all(BulkAction::MoveTo { queue: "slow".into() }).await, (3, 0, 0));
    assert_eq!(all(BulkAction::MoveTo { queue: "slow".into() }).await, (0, 3, 0));
    let moved = db.client.run(runs[0]).await.unwrap();
    assert_eq!((moved.lane.queue.as_str(), moved.priority), ("slow", Some(Priority::Low)));
    assert_eq!(all(BulkAction::RetryRun { deadline_ms: None }).await, (0, 3, 0));
    let bulk = order(&db, "tag.group:a", BulkAction::DeleteRun).await;
    let view = ended(&db, bulk).await;
    assert_eq!(counts(&view), (0, 0, 3));
    assert!(view.failures.iter().all(|failure| failure.reason.contains("pending")), "{view:?}");
    let named: BTreeSet<RunId> = view.failures.iter().map(|failure| failure.run).collect();
    assert_eq!(named, runs.iter().copied().collect());
    let fork = BulkAction::ForkRun { from: None, version: None, queue: Some("again".into()) };
    assert_eq!(all(fork).await, (3, 0, 0));
    let forks = db.client.list(&RunFilter::new().queue("again")).await.unwrap();
    assert_eq!(forks.len(), 3, "a fork has the tags of its run and is not forked again");
    let unknown_step = BulkAction::ForkRun { from: Some("charge".into()), version: None, queue: None };
    assert_eq!(all(unknown_step).await, (0, 0, 6));
    assert_eq!(all(BulkAction::TerminateRun).await, (6, 0, 0));
    assert_eq!(all(BulkAction::TerminateRun).await, (0, 6, 0));
    assert_eq!(all(BulkAction::DeleteRun).await, (6, 0, 0));
    assert_eq!(all(BulkAction::DeleteRun).await, (0, 0, 0));
    working.stop().await;
}

pub async fn failed_runs_are_retried_once_and_signals_sent_once(db: Live) {
    let probe = Probe::new();
    let working = LocalWorker::start(db.worker(probe).register(fail_once).register(listen));
    let failed = db.client.start(fail_once, ()).await.unwrap();
    failed.result().await.unwrap_err();
    let retry = order(&db, "workflow:fail_once status:failed", BulkAction::RetryRun { deadline_ms: None }).await;
    assert_eq!(counts(&ended(&db, retry).await), (1, 0, 0));
    until("it has failed again", async || {
        let run = db.client.run(failed.id()).await.ok()?;
        (run.attempt == 2 && run.status == RunStatus::Failed).then_some(())
    })
    .await;
    let listening = db.client.start(listen, ()).await.unwrap();
    let text = r#""now""#;
    let signal = BulkAction::SignalRun { name: "go".into(), payload: Payload::new(text).unwrap(), key: None };
    let bulk = order(&db, "workflow:listen", signal.clone()).await;
    assert_eq!(counts(&ended(&db, bulk).await), (1, 0, 0));
    let second = order(&db, "workflow:listen", signal).await;
    assert_eq!(counts(&ended(&db, second).await), (1, 0, 0), "another operation, another key");
    let heard: Vec<Option<String>> = listening.result().await.unwrap();
    assert_eq!(heard, [Some("now".to_owned()), Some("now".to_owned())]);
    assert_eq!(db.client.run(failed.id()).await.unwrap().attempt, 2);
    working.stop().await;
}

pub async fn an_operation_can_be_stopped_repeated_and_listed(db: Live) {
    let runs = start(&db, 2, "a").await;
    let id = BulkId::generate();
    let start = Action::StartBulk(Box::new(StartBulk::new(query("tag.group:a"), BulkAction::CancelRun).id(id)));
    assert_eq!(perform(&db, start.clone()).await.unwrap(), OrderOutcome::BulkStarted { bulk: id });
    assert_eq!(perform(&db, start).await.unwrap(), OrderOutcome::BulkExisted { bulk: id });
    assert_eq!(perform(&db, Action::StopBulk { bulk: id }).await.unwrap(), OrderOutcome::BulkStopped);
    assert_eq!(perform(&db, Action::StopBulk { bulk: id }).await.unwrap(), OrderOutcome::Unchanged);
    assert_eq!(audited(&db, "bulk.").await.len(), 2, "a start and a stop");
    let other = order(&db, "tag.group:none", BulkAction::CancelRun).await;
    let working = worker(&db);
    assert_eq!(counts(&ended(&db, other).await), (0, 0, 0));
    assert_eq!((view(&db, id).await.status, counts(&view(&db, id).await)), (BulkStatus::Stopped, (0, 0, 0)));
    for run in runs {
        assert_eq!(status(&db, run).await, RunStatus::Pending);
    }
    working.stop().await;
    let operate = db.client.operate();
    let first = operate.bulks(ListBulks::new().limit(1)).await.unwrap();
    assert_eq!((first.items.len(), first.items[0].id), (1, other));
    let rest = operate.bulks(ListBulks::new().limit(1).cursor(first.next.expect("a second page"))).await.unwrap();
    assert_eq!((rest.items[0].id, rest.next), (id, None));
    let unknown = BulkId::generate();
    assert_eq!(operate.bulk(unknown).await.unwrap_err().code, OperateErrorCode::NotFound);
    let error = perform(&db, Action::StopBulk { bulk: unknown }).await.unwrap_err();
    assert_eq!(error.code, OperateErrorCode::NotFound);
    let bad = BulkAction::SignalRun { name: String::new(), payload: Payload::from(json!(1)), key: None };
    let error = perform(&db, Action::StartBulk(Box::new(StartBulk::new(Query::new(), bad)))).await.unwrap_err();
    assert_eq!(error.code, OperateErrorCode::BadInput);
    let bad = BulkAction::MoveTo { queue: String::new() };
    let error = perform(&db, Action::StartBulk(Box::new(StartBulk::new(Query::new(), bad)))).await.unwrap_err();
    assert_eq!(error.code, OperateErrorCode::BadInput);
}

/// The reply to a chunk is lost, and the executor commits it again.
pub async fn a_chunk_whose_reply_was_lost_counts_once(db: Live) {
    start(&db, 30, "a").await;
    let bulk = order(&db, "tag.group:a", BulkAction::CancelRun).await;
    let store = Arc::new(FaultyStore::new(Arc::clone(db.client.store())));
    let client = Client::over(Arc::clone(&store) as _, DEFAULT_PAYLOAD_LIMIT);
    let is_chunk = |write: &Write| matches!(write, Write::Bulk(write) if matches!(**write, BulkWrite::Advance(_)));
    store.fail_next(is_chunk, Fault::After(DatabaseErrorKind::Unreachable));
    let working = LocalWorker::start(Worker::new(client, Probe::new()).register(unrelated));
    assert_eq!(counts(&ended(&db, bulk).await), (30, 0, 0));
    assert_eq!(store.faults_left(), 0);
    assert_eq!(audited(&db, "run.cancel").await.len(), 30);
    working.stop().await;
}

/// One run whose write is refused does not prevent the others.
pub async fn a_refused_write_fails_its_run_alone(db: Live) {
    let refused = start(&db, 20, "a").await[7];
    let bulk = order(&db, "tag.group:a", BulkAction::PauseRun).await;
    let store = Arc::new(FaultyStore::new(Arc::clone(db.client.store())));
    let client = Client::over(Arc::clone(&store) as _, DEFAULT_PAYLOAD_LIMIT);
    let is_of_run = move |write: &Write| matches!(write.inner(), Write::Pause(run) if *run == refused);
    let has_run = move |write: &Write| matches!(write, Write::Bulk(write) if write.writes().any(is_of_run));
    // More than the chunks that have the run until it stands alone.
    for _ in 0..20 {
        store.fail_next(has_run, Fault::Before(DatabaseErrorKind::Invalid));
    }
    let working = LocalWorker::start(Worker::new(client, Probe::new()).register(unrelated));
    let view = ended(&db, bulk).await;
    assert_eq!(counts(&view), (19, 0, 1), "{view:?}");
    assert_eq!(view.failures[0].run, refused);
    working.stop().await;
}

pub async fn the_payload_of_an_operation_is_encoded(db: Live) {
    const SECRET: &str = "xyzzy";
    let encryption = Encryption::new(EncryptionKey::new("k1", [7; 32]).unwrap());
    let client = db.connect().codec(encryption).await.unwrap();
    let working = LocalWorker::start(Worker::new(client.clone(), Probe::new()).register(listen));
    let listening = client.start(listen, ()).await.unwrap();
    let signal = BulkAction::SignalRun { name: "go".into(), payload: Payload::from(json!(SECRET)), key: None };
    let start = StartBulk::new(query("workflow:listen"), signal);
    client.operate().perform(Order::new(Action::StartBulk(Box::new(start)))).await.unwrap();
    let stored = db.raw().await.text("SELECT payload FROM workflow_bulk").await;
    assert!(!stored.is_empty() && !stored.contains(SECRET), "{stored}");
    client.signal(listening.id(), "go", &"again".to_owned()).await.unwrap();
    let mut heard: Vec<Option<String>> = listening.result().await.unwrap();
    heard.sort();
    assert_eq!(heard, [Some("again".to_owned()), Some(SECRET.to_owned())]);
    working.stop().await;
}
