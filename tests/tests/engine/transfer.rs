//! Moves of whole systems between the databases.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use workflow_engine::model::{Retention, WorkerId};
use workflow_sdk::operate::Operate;
use workflow_sdk::prelude::*;
use workflow_sdk::{
    ClientError, DatabaseErrorKind, QueueLimits, RunFilter, RunNow, RunSummary, Schedule, StepAttempt, Transfer,
    TransferError, TransferReport,
};
use workflow_tests::{Database, Live, LocalWorker};
use workflow_worker::{GateLimits, Queue};

use super::holds;

const HOUR: Duration = Duration::from_secs(3600);

#[workflow]
async fn doubled(ctx: &Ctx, number: u64) -> Result<u64> {
    ctx.step("double", async || ok(number * 2)).await
}

#[workflow]
async fn naps(ctx: &Ctx, length: Duration) -> Result<u64> {
    let before = ctx.step("before", async || ok(20)).await?;
    ctx.sleep(length).await?;
    Ok(before + 1)
}

#[workflow]
async fn greets(ctx: &Ctx) -> Result<String> {
    let name = ctx.signal::<String>("name").await?.unwrap_or_default();
    let mark = ctx.signal::<String>("mark").await?.unwrap_or_default();
    Ok(format!("hello {name}{mark}"))
}

#[workflow]
async fn parent(ctx: &Ctx) -> Result<String> {
    let number = ctx.child(doubled, 4).await?;
    let greeting = ctx.child(greets, ()).await?;
    Ok(format!("{number} {greeting}"))
}

#[workflow]
async fn ships(ctx: &Ctx, order: String) -> Result<Option<u64>> {
    ctx.event::<u64>("paid").key(&order).timeout(HOUR).await
}

#[workflow]
async fn fails(ctx: &Ctx) -> Result<()> {
    ctx.step("charge", async || Err(Error::fatal("no money"))).await
}

/// The database of the other kind.
async fn other(db: &Live) -> Live {
    Live::new(if db.database == Database::Sqlite { Database::Postgres } else { Database::Sqlite }).await
}

fn transfer(from: &Live, to: &Live) -> Transfer {
    let transfer = Transfer::new(from.url(), to.url());
    let transfer = from.schema().into_iter().fold(transfer, Transfer::schema);
    to.schema().into_iter().fold(transfer, Transfer::target_schema)
}

fn start_worker(live: &Live) -> LocalWorker {
    let worker = live.worker(()).register(doubled).register(naps).register(greets);
    let worker = worker.register(parent).register(ships).register(fails).linger(Duration::ZERO);
    let queue = Queue::new("mail").concurrency(3).per_gate(GateLimits::none().concurrency(1));
    LocalWorker::start(worker.queue(Queue::new("default")).queue(queue))
}

async fn parks(live: &Live, id: RunId) {
    let run = live.client.handle::<()>(id).await.unwrap();
    holds("the run parks", async || run.status().await.unwrap() == RunStatus::Parked).await;
}

/// The runs of a system that is in the middle of its work.
struct Load {
    ended: RunId,
    failed: RunId,
    sleeping: RunId,
    greeted: RunId,
    parent: RunId,
    shipped: RunId,
    gated: Vec<RunId>,
    paused: RunId,
    late: RunId,
}

/// Makes runs of all kinds with a worker that then stops.
async fn load(live: &Live) -> Load {
    let worker = start_worker(live);
    let client = &live.client;
    let ended = client.start(doubled, 21).key("answer").tag("team", "ops").await.unwrap();
    let failed = client.start(fails, ()).await.unwrap();
    let sleeping = client.start(naps, Duration::from_millis(1500)).await.unwrap();
    let greeted = client.start(greets, ()).tag("team", "web").await.unwrap();
    let parent = client.start(parent, ()).key("order-42").await.unwrap();
    let shipped = client.start(ships, "42".into()).await.unwrap();
    client.signal(greeted.id(), "name", &"Ada".to_owned()).await.unwrap();
    assert_eq!(ended.result().await.unwrap(), 42);
    failed.result().await.unwrap_err();
    for id in [sleeping.id(), greeted.id(), parent.id(), shipped.id()] {
        parks(live, id).await;
    }
    client.create_schedule(Schedule::every("monthly", 30 * 24 * HOUR).start(doubled, 5)).await.unwrap();
    client.queue("mail").set_limits(QueueLimits::none().concurrency(2)).await.unwrap();
    worker.stop().await;

    let mut gated = Vec::new();
    for gate in ["a", "a", "b"] {
        gated.push(client.start(doubled, 8).queue("mail").gate(gate).await.unwrap().id());
    }
    let paused = client.start(doubled, 9).await.unwrap().id();
    client.pause(paused).await.unwrap();
    let late = client.start(doubled, 10).delay(Duration::from_millis(1500)).await.unwrap().id();
    let (ended, failed, sleeping) = (ended.id(), failed.id(), sleeping.id());
    let (greeted, parent, shipped) = (greeted.id(), parent.id(), shipped.id());
    Load { ended, failed, sleeping, greeted, parent, shipped, gated, paused, late }
}

/// All runs with their histories. A delayed run becomes due as time passes, so what it waits for is
/// left out.
async fn all(live: &Live) -> Vec<(RunSummary, Vec<StepAttempt>)> {
    let mut all = Vec::new();
    for mut run in live.client.list(&RunFilter::new().page_size(1000)).await.unwrap() {
        let history = live.client.history(run.id).await.unwrap();
        run.now = RunNow::Waits;
        all.push((run, history));
    }
    all
}

fn rows(report: &TransferReport, table: &str) -> u64 {
    report.tables.iter().find(|found| found.table == table).unwrap().rows
}

async fn output<T: serde::de::DeserializeOwned>(live: &Live, id: RunId) -> T {
    live.client.handle::<T>(id).await.unwrap().result().await.unwrap()
}

/// Ends every run of a load with a worker on this database.
async fn finish(live: &Live, load: &Load) {
    let worker = start_worker(live);
    let client = &live.client;
    assert_eq!(output::<u64>(live, load.ended).await, 42);
    assert_eq!(client.handle::<()>(load.failed).await.unwrap().status().await.unwrap(), RunStatus::Failed);
    assert_eq!(output::<u64>(live, load.sleeping).await, 21);
    client.signal(load.greeted, "mark", &"!".to_owned()).await.unwrap();
    assert_eq!(output::<String>(live, load.greeted).await, "hello Ada!");
    let child = client.list(&RunFilter::new().workflow("greets")).await.unwrap();
    let child = child.into_iter().find(|run| run.parent.is_some()).unwrap();
    assert_eq!(child.parent.unwrap().run_id, load.parent);
    client.signal(child.id, "name", &"Eve".to_owned()).await.unwrap();
    client.signal(child.id, "mark", &"?".to_owned()).await.unwrap();
    assert_eq!(output::<String>(live, load.parent).await, "8 hello Eve?");
    assert_eq!(client.emit("paid", "42", &500_u64).await.unwrap(), 1);
    assert_eq!(output::<Option<u64>>(live, load.shipped).await, Some(500));
    for id in &load.gated {
        assert_eq!(output::<u64>(live, *id).await, 16);
    }
    client.resume(load.paused).await.unwrap();
    assert_eq!(output::<u64>(live, load.paused).await, 18);
    assert_eq!(output::<u64>(live, load.late).await, 20);

    let again = client.start(doubled, 21).key("answer").await.unwrap();
    assert!(again.existed() && again.id() == load.ended, "the key has moved");
    let new = client.start(doubled, 3).queue("mail").gate("c").await.unwrap();
    assert_eq!(new.result().await.unwrap(), 6, "a new lane and gate have numbers of their own");
    worker.stop().await;
}

pub async fn a_moved_system_goes_on_where_it_was(db: Live) {
    let target = other(&db).await;
    let load = load(&db).await;
    let before = all(&db).await;
    let report = transfer(&db, &target).await.unwrap();
    assert!(!report.resumed);
    assert_eq!(rows(&report, "workflow_runs"), u64::try_from(before.len()).unwrap());
    for table in ["step_attempts", "workflow_signals", "workflow_event_waits", "workflow_schedules", "workflow_tags"] {
        assert!(rows(&report, table) > 0, "{table}: {report:?}");
    }
    assert_eq!(all(&target).await, before);
    let tagged = RunFilter::new().tag("team", "ops");
    assert_eq!(target.client.list(&tagged).await.unwrap()[0].id, load.ended);
    let record = target.client.queue("mail").record().await.unwrap().unwrap();
    assert_eq!(record.limits().concurrency, Some(2));
    let schedule = async |live: &Live| format!("{:?}", live.client.schedule("monthly").describe().await.unwrap());
    assert_eq!(schedule(&target).await, schedule(&db).await);

    finish(&target, &load).await;
    assert_eq!(all(&db).await, before, "the source has not changed");
    target.sweep().await;
}

#[track_caller]
fn is_moved<T: std::fmt::Debug>(result: Result<T, ClientError>) {
    let is =
        |error: &ClientError| matches!(error, ClientError::Database(error) if error.kind == DatabaseErrorKind::Moved);
    assert!(result.as_ref().is_err_and(is), "{result:?}");
}

/// Whether the system goes into this database, and whether its move has ended; `None`: no move.
async fn told(live: &Live) -> Option<(bool, bool)> {
    let moved = live.client.system().await.unwrap().database.moved?;
    Some((moved.arrives, moved.ended_at.is_some()))
}

pub async fn the_source_of_a_move_refuses_every_change(db: Live) {
    let target = other(&db).await;
    let run = db.client.start(greets, ()).await.unwrap();
    assert_eq!((told(&db).await, told(&target).await), (None, None));
    transfer(&db, &target).await.unwrap();
    assert_eq!((told(&db).await, told(&target).await), (Some((false, true)), None));
    let second = db.second_client().await;
    for client in [&db.client, &second] {
        is_moved(client.start(doubled, 1).await);
        is_moved(client.signal(run.id(), "name", &"Ada".to_owned()).await);
        is_moved(client.cancel(run.id()).await);
        is_moved(client.queue("mail").pause("moving").await);
        assert_eq!(client.handle::<()>(run.id()).await.unwrap().status().await.unwrap(), RunStatus::Pending);
    }
    let worker = db.worker(()).register(doubled).run().await.unwrap_err().to_string();
    assert!(!worker.is_empty(), "a worker does not begin");

    let refused = transfer(&db, &target).await.unwrap_err();
    assert!(matches!(refused, TransferError::AlreadyMoved { .. }), "{refused:?}");
    let undo = |force| transfer(&db, &target).undo(force);
    assert!(matches!(undo(false).await, Err(TransferError::AlreadyMoved { .. })));
    undo(true).await.unwrap();
    assert_eq!(told(&db).await, None);
    db.client.start(doubled, 1).await.unwrap();
    assert!(matches!(undo(true).await, Err(TransferError::NotMoving { .. })));
    target.sweep().await;
}

/// Stops a move after so many chunks of two rows.
async fn stop_after(chunks: usize, db: &Live, target: &Live) {
    let stop = Arc::new(Notify::new());
    let (notify, mut seen) = (Arc::clone(&stop), 0);
    let moving = transfer(db, target).most_rows(2).progress(move |_| {
        seen += 1;
        if seen == chunks {
            notify.notify_one();
        }
    });
    tokio::select! {
        biased;
        () = stop.notified() => {}
        done = moving.into_future() => panic!("the move was to be stopped: {done:?}"),
    }
}

pub async fn a_move_that_stopped_goes_on(db: Live) {
    let target = other(&db).await;
    let load = load(&db).await;
    let before = all(&db).await;
    stop_after(1, &db, &target).await;
    stop_after(6, &db, &target).await;
    assert_eq!((told(&db).await, told(&target).await), (Some((false, false)), Some((true, false))));
    is_moved(db.client.start(doubled, 1).await);
    is_moved(target.client.start(doubled, 1).await);
    let third = Live::new(Database::Sqlite).await;
    let refused = transfer(&db, &third).await.unwrap_err();
    assert!(matches!(refused, TransferError::OtherTarget { .. }), "{refused:?}");
    let refused = transfer(&third, &target).await.unwrap_err();
    assert!(matches!(refused, TransferError::OtherSource { .. }), "{refused:?}");
    let refused = transfer(&target, &third).await.unwrap_err();
    assert!(matches!(refused, TransferError::OtherSource { .. }), "{refused:?}");
    assert!(matches!(transfer(&target, &third).undo(true).await, Err(TransferError::OtherSource { .. })));

    let report = transfer(&db, &target).await.unwrap();
    assert!(report.resumed);
    assert_eq!(all(&target).await, before);
    finish(&target, &load).await;
    third.sweep().await;
    target.sweep().await;
}

pub async fn a_move_that_was_undone_leaves_the_source_as_it_was(db: Live) {
    let target = other(&db).await;
    let load = load(&db).await;
    stop_after(5, &db, &target).await;
    transfer(&db, &target).undo(false).await.unwrap();
    let refused = transfer(&db, &target).await.unwrap_err();
    assert!(matches!(refused, TransferError::OtherSource { .. }), "the copy is useless: {refused:?}");
    finish(&db, &load).await;
    target.sweep().await;
}

pub async fn a_move_is_refused_beside_workers_and_into_a_used_database(db: Live) {
    let target = other(&db).await;
    let worker = start_worker(&db);
    holds("the worker is recorded", async || !db.client.store().workers().await.unwrap().is_empty()).await;
    let refused = transfer(&db, &target).await.unwrap_err();
    assert!(matches!(&refused, TransferError::Workers { workers, .. } if workers.len() == 1), "{refused:?}");
    worker.stop().await;

    target.client.start(doubled, 1).await.unwrap();
    let refused = transfer(&db, &target).await.unwrap_err();
    assert!(matches!(refused, TransferError::NotEmpty { table: "workflow_lanes", .. }), "{refused:?}");
    let refused = transfer(&db, &db).await.unwrap_err();
    assert!(matches!(refused, TransferError::SameDatabase { .. }), "{refused:?}");
    let refused = Transfer::new("sqlite::memory:", db.url()).await.unwrap_err();
    assert!(matches!(refused, TransferError::InMemory { .. }), "{refused:?}");
    for live in [&db, &target] {
        live.client.start(doubled, 2).await.expect("nothing was closed");
    }
    target.sweep().await;
}

pub async fn a_damaged_copy_stays_closed(db: Live) {
    let target = other(&db).await;
    let load = load(&db).await;
    stop_after(12, &db, &target).await;
    let mut raw = target.raw().await;
    let damage = format!("UPDATE workflow_runs SET output = '43' WHERE id = '{}'", load.ended);
    assert!(raw.refused(&damage).await.is_some_and(|refused| refused.contains("moved to another one")), "it is fenced");
    raw.execute(format!("UPDATE workflow_transfer SET writes = 1; {damage}; UPDATE workflow_transfer SET writes = 0"))
        .await;
    let refused = transfer(&db, &target).await.unwrap_err();
    assert!(matches!(refused, TransferError::Differs { table: "workflow_runs", .. }), "{refused:?}");
    is_moved(target.client.start(doubled, 1).await);
    target.sweep().await;
}

pub async fn the_runs_of_a_dead_worker_go_on_after_a_move(db: Live) {
    let target = other(&db).await;
    let run = db.client.start(doubled, 4).await.unwrap();
    let dead = WorkerId::generate();
    drop(db.client.store().open_lease(dead, &[], &Retention::default()).await.unwrap());
    let claim = format!(
        "UPDATE workflow_runs SET status = 'running', worker_id = '{dead}', epoch = 1, rank = 0,
         started_at = created_at, available_at = available_at + 3600000000"
    );
    db.raw().await.execute(claim).await;
    let moved = async || match transfer(&db, &target).await {
        // The server has not seen the end of the session.
        Err(TransferError::Workers { .. }) => false,
        moved => moved.map(|_| true).unwrap(),
    };
    holds("the worker is known as dead", moved).await;
    let summary = &target.client.list(&RunFilter::new()).await.unwrap()[0];
    assert_eq!((summary.status, summary.crashes), (RunStatus::Running, 1));
    let worker = start_worker(&target);
    assert_eq!(output::<u64>(&target, run.id()).await, 8);
    worker.stop().await;
    target.sweep().await;
}

/// A table or column that is added later must not be forgotten.
pub async fn every_column_is_moved_or_said_not_to_be(db: Live) {
    use workflow_engine::store::TRANSFER_TABLES;
    let not_moved = ["workflow_turns.full_until"];
    let not_moved_tables = ["workflow_schema", "workflow_workers", "workflow_gate_wakes"];
    let listed = match db.schema() {
        None => "SELECT group_concat(t.name || '.' || c.name) FROM sqlite_schema AS t, pragma_table_info(t.name) AS c
             WHERE t.type = 'table'"
            .to_owned(),
        Some(schema) => format!(
            "SELECT string_agg(table_name || '.' || column_name, ',') FROM information_schema.columns
             WHERE table_schema = '{schema}'"
        ),
    };
    let found = db.raw().await.text(listed).await;
    let mut found: Vec<&str> = found.split(',').filter(|column| !not_moved.contains(column)).collect();
    found.retain(|column| !not_moved_tables.contains(&column.split('.').next().unwrap()));
    found.sort_unstable();
    let moved = TRANSFER_TABLES
        .iter()
        .flat_map(|table| table.columns.iter().map(|column| format!("{}.{}", table.name, column.name)));
    let mut moved: Vec<String> = moved.collect();
    moved.sort_unstable();
    assert_eq!(found, moved);
}
