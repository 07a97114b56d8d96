use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use workflow_engine::store::Write;
use workflow_sdk::prelude::*;
use workflow_sdk::{DEFAULT_PAYLOAD_LIMIT, MAX_CHILD_DEPTH, OnParentEnd, RunId, StepKind, Timestamp};
use workflow_tests::{FaultyStore, Live, LocalWorker, Probe};
use workflow_worker::Worker;

use super::{failure, holds, reaches};

const HOUR: Duration = Duration::from_secs(3600);

#[workflow]
async fn double(ctx: &Ctx, number: u64) -> Result<u64> {
    ctx.step("double", async || Ok::<_, Error>(number * 2)).await
}

#[workflow]
async fn sum(ctx: &Ctx) -> Result<u64> {
    let first = ctx.child(double, 1).await?;
    let (second, third) = futures::try_join!(ctx.child(double, 2), ctx.child(double, 3))?;
    Ok(first + second + third)
}

pub async fn a_parent_gets_the_outputs_of_its_children(db: Live) {
    let working = LocalWorker::start(db.worker(()).register(double).register(sum).linger(Duration::ZERO));
    let run = db.client.start(sum, ()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 12);
    let history = run.history().await.unwrap();
    let keys: Vec<_> = history.iter().map(|row| (row.step_key.as_str(), row.kind, row.output.as_deref())).collect();
    assert_eq!(keys[0], ("double", StepKind::Child, Some("2")));
    assert_eq!(keys.len(), 3);
    let children = db.client.list(&workflow_sdk::RunFilter::new().workflow("double")).await.unwrap();
    assert_eq!(children.len(), 3, "each child was started once");
    for child in children {
        let parent = child.parent.unwrap();
        assert_eq!((parent.run_id, parent.on_end, child.depth), (run.id(), OnParentEnd::Cancel, 1));
    }
    working.stop().await;
}

#[workflow]
async fn fail(ctx: &Ctx) -> Result<()> {
    ctx.step("fail", async || Err::<(), _>("no luck".to_string())).retry(Retry::none()).await
}

#[workflow]
async fn never(ctx: &Ctx) -> Result<()> {
    ctx.signal::<()>("never").await.map(drop)
}

#[workflow]
async fn handle_failures(ctx: &Ctx) -> Result<(String, String)> {
    let failed = ctx.child(fail, ()).await.unwrap_err();
    let nap = ctx.child(never, ());
    let canceled = nap.deadline(Duration::from_millis(300)).await.unwrap_err();
    Ok((format!("{} {failed}", failed.kind()), canceled.kind().to_string()))
}

pub async fn a_parent_gets_the_error_of_its_child(db: Live) {
    let worker = db.worker(()).register(fail).register(never).register(handle_failures);
    let working = LocalWorker::start(worker.linger(Duration::ZERO));
    let run = db.client.start(handle_failures, ()).await.unwrap();
    let (failed, late) = run.result().await.unwrap();
    assert_eq!(failed, "application step \"fail\": no luck");
    assert_eq!(late, "deadline");
    working.stop().await;
}

#[workflow]
async fn wait_for_never(ctx: &Ctx) -> Result<String> {
    let error = ctx.child(never, ()).await.unwrap_err();
    Ok(error.kind().to_string())
}

pub async fn a_parent_learns_that_its_child_was_canceled(db: Live) {
    let working = LocalWorker::start(db.worker(()).register(never).register(wait_for_never).linger(Duration::ZERO));
    let run = db.client.start(wait_for_never, ()).await.unwrap();
    let child = child_of(&db, "never").await;
    db.client.cancel(child).await.unwrap();
    assert_eq!(run.result().await.unwrap(), "child_canceled");
    working.stop().await;
}

async fn child_of(db: &Live, workflow: &str) -> RunId {
    let filter = workflow_sdk::RunFilter::new().workflow(workflow);
    holds("the child exists", async || !db.client.list(&filter).await.unwrap().is_empty()).await;
    db.client.list(&filter).await.unwrap()[0].id
}

#[workflow]
async fn leave(ctx: &Ctx) -> Result<RunId> {
    let handle = ctx.child(never, ()).detach().await?;
    Ok(handle.id())
}

pub async fn a_detached_child_outlives_its_parent(db: Live) {
    let working = LocalWorker::start(db.worker(()).register(never).register(leave).linger(Duration::ZERO));
    let run = db.client.start(leave, ()).await.unwrap();
    let child = run.result().await.unwrap();
    holds("the child waits", async || db.client.run(child).await.unwrap().status == RunStatus::Parked).await;
    db.client.signal(child, "never", &()).await.unwrap();
    holds("the child ends", async || db.client.run(child).await.unwrap().status == RunStatus::Succeeded).await;
    working.stop().await;
}

/// The policy stands, whether it is set before the child is detached or after.
pub async fn a_detached_child_ends_with_its_parent_if_it_is_told_so(db: Live) {
    #[workflow]
    async fn leave_both(ctx: &Ctx) -> Result<[RunId; 2]> {
        let before = ctx.child(never, ()).on_parent_end(OnParentEnd::Cancel).detach().await?;
        let after = ctx.child(never, ()).detach().on_parent_end(OnParentEnd::Cancel).await?;
        Ok([before.id(), after.id()])
    }
    let working = LocalWorker::start(db.worker(()).register(never).register(leave_both).linger(Duration::ZERO));
    for child in db.client.start(leave_both, ()).await.unwrap().result().await.unwrap() {
        holds("the child is canceled", async || db.client.run(child).await.unwrap().status == RunStatus::Canceled)
            .await;
    }
    working.stop().await;
}

#[workflow]
async fn start_levels(ctx: &Ctx, levels: u64) -> Result<()> {
    if levels == 0 {
        return ctx.child(never, ()).await;
    }
    ctx.child(start_levels, levels - 1).await
}

/// The cancel passes through all levels: each canceled run cancels its children.
pub async fn the_end_of_a_parent_cancels_its_children(db: Live) {
    let working = LocalWorker::start(db.worker(()).register(never).register(start_levels).linger(Duration::ZERO));
    let run = db.client.start(start_levels, 2).await.unwrap();
    let leaf = child_of(&db, "never").await;
    holds("the leaf waits", async || db.client.run(leaf).await.unwrap().status == RunStatus::Parked).await;
    run.cancel().await.unwrap();
    holds("the leaf is canceled", async || db.client.run(leaf).await.unwrap().status == RunStatus::Canceled).await;
    let all = db.client.list(&workflow_sdk::RunFilter::new()).await.unwrap();
    assert_eq!(all.len(), 4);
    assert!(all.iter().all(|run| run.status == RunStatus::Canceled), "{all:?}");
    working.stop().await;
}

/// No heartbeat of the worker comes while the case runs.
pub async fn a_child_whose_body_runs_ends_soon_after_its_parent(db: Live) {
    #[workflow]
    async fn works_on(ctx: &Ctx<Probe>) -> Result<()> {
        let body = async || {
            ctx.state().open("begun");
            Ok::<_, Error>(std::future::pending::<()>().await)
        };
        ctx.step("work", body).await
    }
    #[workflow]
    async fn leaves_its_child(ctx: &Ctx<Probe>) -> Result<RunId> {
        let child = ctx.child(works_on, ()).detach().on_parent_end(OnParentEnd::Cancel).await?;
        let body = async || {
            ctx.state().pass("begun").await;
            Ok::<_, Error>(())
        };
        ctx.step("look", body).await?;
        Ok(child.id())
    }
    let worker = db.worker(Probe::new()).register(works_on).register(leaves_its_child);
    let worker = LocalWorker::start(worker.lease(HOUR).cancel_grace(HOUR));
    let child = db.client.start(leaves_its_child, ()).await.unwrap().result().await.unwrap();
    holds("the child is canceled", async || db.client.run(child).await.unwrap().status == RunStatus::Canceled).await;
    worker.stop().await;
}

#[workflow]
async fn for_ever(ctx: &Ctx) -> Result<()> {
    ctx.child(for_ever, ()).await
}

pub async fn a_cycle_of_children_ends_at_the_limit(db: Live) {
    let working = LocalWorker::start(db.worker(()).register(for_ever).linger(Duration::ZERO));
    let run = db.client.start(for_ever, ()).await.unwrap();
    let error = failure(run.result().await);
    assert_eq!(error.kind, ErrorKind::Refused);
    assert!(error.message.contains("has 100 parents above it"), "{error}");
    let filter = workflow_sdk::RunFilter::new().page_size(500);
    let runs = db.client.list(&filter).await.unwrap();
    assert_eq!(runs.len() as i64, MAX_CHILD_DEPTH + 1);
    working.stop().await;
}

#[workflow]
async fn take_a_key(ctx: &Ctx, key: String) -> Result<u64> {
    ctx.child(double, 4).key(key).await
}

pub async fn a_parent_learns_that_the_row_of_its_child_is_gone(db: Live) {
    #[workflow]
    async fn waits(ctx: &Ctx) -> Result<String> {
        // Two children, so that the one that stays shows that only the other is missed.
        let (gone, stays) = futures::join!(ctx.child(never, ()), ctx.child(double, 2));
        Ok(format!("{} {:?}", gone.unwrap_err().kind(), stays.map_err(|error| error.kind())))
    }
    let working = LocalWorker::start(db.worker(()).register(waits).linger(Duration::ZERO));
    let run = db.client.start(waits, ()).await.unwrap();
    reaches(&run, RunStatus::Parked).await;
    let hour = Timestamp::from(std::time::SystemTime::now()) + Duration::from_secs(3600);
    assert!(run.run().await.unwrap().available_at <= hour, "nothing wakes the run, so it looks by itself");
    let mut raw = db.raw().await;
    raw.execute("DELETE FROM workflow_runs WHERE workflow_name = 'never'").await;
    raw.execute("UPDATE workflow_runs SET available_at = 0 WHERE workflow_name = 'waits'").await;
    let second = LocalWorker::start(db.worker(()).register(double));
    assert_eq!(run.result().await.unwrap(), "child_missing Ok(4)");
    let row = run.history().await.unwrap().into_iter().find(|row| row.step_key == "never").unwrap();
    let error = row.error.unwrap();
    assert!(error.message.contains("it was deleted"), "{error}");
    second.stop().await;
    working.stop().await;
}

pub async fn a_look_for_a_deleted_child_that_failed_is_repeated(db: Live) {
    #[workflow]
    async fn works_beside(ctx: &Ctx<Probe>) -> Result<ErrorKind> {
        let body = ctx.step("body", async || {
            ctx.state().note("body");
            Ok::<_, Error>(ctx.state().pass("body").await)
        });
        let (body, gone) = futures::join!(body, ctx.child(never, ()));
        body?;
        Ok(gone.unwrap_err().kind())
    }
    let probe = Probe::new();
    let working = db.worker(probe.clone()).register(works_beside).grace(Duration::ZERO);
    let working = LocalWorker::start(working);
    let run = db.client.start(works_beside, ()).await.unwrap();
    probe.noted("body").await;
    child_of(&db, "never").await;
    working.stop().await;
    db.raw().await.execute("DELETE FROM workflow_runs WHERE workflow_name = 'never'").await;

    // Bodies run on, so the drive looks again by itself.
    let store = Arc::new(FaultyStore::new(Arc::clone(db.client.store())));
    store.fail_inboxes(1);
    let client = Client::over(Arc::clone(&store) as _, DEFAULT_PAYLOAD_LIMIT);
    let working = LocalWorker::start(Worker::new(client, probe.clone()).register(works_beside));
    holds("the parent learns it", async || {
        run.history().await.unwrap().iter().any(|row| row.step_key == "never" && row.error.is_some())
    })
    .await;
    assert_eq!(probe.times("body"), 2, "once for each worker");
    probe.open("body");
    assert_eq!(run.result().await.unwrap(), ErrorKind::ChildMissing);
    working.stop().await;
}

/// A later drive of the parent looks for the end of its child while the start of the child is on
/// its way to the database.
pub async fn a_child_whose_start_is_not_committed_is_not_missing(db: Live) {
    #[workflow]
    async fn waits_first(ctx: &Ctx) -> Result<u64> {
        ctx.signal::<()>("go").await?;
        ctx.child(double, 4).await
    }
    let store = Arc::new(FaultyStore::new(Arc::clone(db.client.store())));
    let client = Client::over(Arc::clone(&store) as _, DEFAULT_PAYLOAD_LIMIT);
    let worker = Worker::new(client.clone(), ()).register(double).register(waits_first).linger(Duration::ZERO);
    let working = LocalWorker::start(worker);
    let run = client.start(waits_first, ()).await.unwrap();
    reaches(&run, RunStatus::Parked).await;
    let gate = store.block(|write| matches!(write, Write::Attempt(write) if write.row.step_key == "double"));
    let before = store.reads("ended");
    run.signal("go", &()).await.unwrap();
    gate.reached().await;
    // Through another executor, because the first one waits at the gate.
    db.client.signal(run.id(), "other", &()).await.unwrap();
    holds("the parent has looked", async || store.reads("ended") > before).await;
    gate.open();
    assert_eq!(run.result().await.unwrap(), 8);
    working.stop().await;
}

pub async fn a_key_of_another_run_is_refused(db: Live) {
    let other = db.client.start(double, 1).key("taken").await.unwrap();
    let working = LocalWorker::start(db.worker(()).register(double).register(take_a_key).linger(Duration::ZERO));
    let run = db.client.start(take_a_key, "taken".to_string()).await.unwrap();
    let error = failure(run.result().await);
    assert_eq!(error.kind, ErrorKind::Refused);
    assert!(error.message.contains(&format!("belongs to run {}", other.id())), "{error}");
    let free = db.client.start(take_a_key, "free".to_string()).await.unwrap();
    assert_eq!(free.result().await.unwrap(), 8);
    let bad = db.client.start(take_a_key, String::new()).await.unwrap();
    assert_eq!(failure(bad.result().await).kind, ErrorKind::Refused);
    working.stop().await;
}

/// Starts a child that no worker serves, and one with a tag that no run may have.
#[workflow]
async fn set_options(ctx: &Ctx) -> Result<String> {
    let child = ctx.child(double, 1).version("9").tag("region", "eu").tag("region", "us").delay(HOUR);
    child.detach().await?;
    let refused = ctx.child(fail, ()).tag("", "eu").await.unwrap_err();
    Ok(format!("{} {refused}", refused.kind()))
}

pub async fn a_child_has_the_version_the_tags_and_the_delay_of_its_call(db: Live) {
    let working = LocalWorker::start(db.worker(()).register(double).register(fail).register(set_options));
    let run = db.client.start(set_options, ()).await.unwrap();
    let refused = run.result().await.unwrap();
    assert!(refused.starts_with("refused ") && refused.contains("is empty"), "{refused}");
    let children = db.client.list(&RunFilter::new().parent(run.id()).tag("region", "us")).await.unwrap();
    let [child] = children.as_slice() else { panic!("{children:?}") };
    assert_eq!((child.lane.version.as_str(), child.tags.len()), ("9", 1));
    assert_eq!(child.available_at.since(child.created_at), HOUR);
    working.stop().await;
}

/// Starts three children of one workflow, two of them under names of their own.
#[workflow]
async fn name_children(ctx: &Ctx) -> Result<u64> {
    let (first, other) = (ctx.child(double, 1).name("first"), ctx.child(double, 2));
    let (first, other, last) = futures::try_join!(first, other, ctx.child(double, 3).name("last"))?;
    Ok(first + other + last)
}

pub async fn children_have_the_names_of_their_calls(db: Live) {
    let working = LocalWorker::start(db.worker(()).register(double).register(name_children).linger(Duration::ZERO));
    let run = db.client.start(name_children, ()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 12);
    let children = db.client.list(&RunFilter::new().parent(run.id())).await.unwrap();
    let mut steps: Vec<_> = children.into_iter().map(|child| child.parent.unwrap().step_key).collect();
    steps.sort();
    assert_eq!(steps, ["double", "first", "last"]);
    let outputs = run.history().await.unwrap().into_iter().map(|row| (row.step_key, row.output.unwrap()));
    let outputs: std::collections::BTreeMap<_, _> = outputs.collect();
    assert_eq!(["first", "double", "last"].map(|key| outputs[key].as_str()), ["2", "4", "6"]);
    working.stop().await;
}

/// Starts children of workflows that it knows by their names only.
#[workflow]
async fn dispatch(ctx: &Ctx, name: String) -> Result<(Value, String, String)> {
    let output = ctx.child_by_name(name, &json!(4)).await?;
    let bad_input = ctx.child_by_name("double", &json!("four")).await.unwrap_err();
    let bad_name = ctx.child_by_name("", &json!(4)).await.unwrap_err();
    Ok((output, bad_input.kind().to_string(), bad_name.to_string()))
}

pub async fn a_child_is_started_by_name(db: Live) {
    let working = LocalWorker::start(db.worker(()).register(double).register(dispatch).linger(Duration::ZERO));
    let run = db.client.start(dispatch, "double".to_string()).await.unwrap();
    let (output, bad_input, bad_name) = run.result().await.unwrap();
    assert_eq!((output, bad_input.as_str()), (json!(8), "refused"));
    assert!(bad_name.contains("workflow name") && bad_name.contains("empty"), "{bad_name}");
    working.stop().await;
}

#[workflow]
async fn echo(_ctx: &Ctx, text: String) -> Result<usize> {
    Ok(text.len())
}

#[workflow]
async fn send_large(ctx: &Ctx, bytes: usize) -> Result<usize> {
    ctx.child(echo, "x".repeat(bytes)).await
}

/// The limit counts the JSON text, with its quotation marks.
pub async fn the_input_of_a_child_may_be_as_large_as_the_limit(db: Live) {
    let worker = db.worker(()).register(echo).register(send_large);
    let working = LocalWorker::start(worker.linger(Duration::ZERO));
    let most = workflow_sdk::DEFAULT_PAYLOAD_LIMIT - 2;
    let fits = db.client.start(send_large, most).await.unwrap();
    assert_eq!(fits.result().await.unwrap(), most);
    let too_large = db.client.start(send_large, most + 1).await.unwrap();
    let error = failure(too_large.result().await);
    assert_eq!(error.kind, ErrorKind::Refused);
    assert!(error.message.contains("input of child \"echo\""), "{error}");
    working.stop().await;
}

#[workflow]
async fn too_late(ctx: &Ctx) -> Result<String> {
    let error = ctx.child(never, ()).deadline(Duration::ZERO).await.unwrap_err();
    Ok(error.kind().to_string())
}

pub async fn a_child_whose_deadline_has_passed_fails_without_a_step(db: Live) {
    let worker = db.worker(()).register(never).register(too_late);
    let working = LocalWorker::start(worker.linger(Duration::ZERO));
    let run = db.client.start(too_late, ()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), "deadline");
    let child = child_of(&db, "never").await;
    assert_eq!(db.client.history(child).await.unwrap(), []);
    working.stop().await;
}

const MANY: u64 = 1000;

#[workflow]
async fn sum_many(ctx: &Ctx) -> Result<u64> {
    let children = (0..MANY).map(|number| ctx.child(double, number));
    Ok(futures::future::try_join_all(children).await?.into_iter().sum())
}

/// The parent waits in memory while its children end one after the other, so it is not resumed
/// for each child.
pub async fn a_thousand_children_resume_their_parent_a_few_times(db: Live) {
    let working = LocalWorker::start(db.worker(()).register(double).register(sum_many));
    let run = db.client.start(sum_many, ()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), MANY * (MANY - 1));
    let claims = run.run().await.unwrap().epoch;
    println!("{:?}: {claims} claims of the parent of {MANY} children", db.database);
    assert!(claims < 100, "{claims} claims");
    working.stop().await;
}
