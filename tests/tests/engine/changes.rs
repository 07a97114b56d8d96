//! Operators follow the runs of a query, one run, and the items of a stream.

use std::sync::Arc;
use std::time::Duration;

use workflow_sdk::operate::{
    Change, ChangePage, Cursor, ListChanges, ListEmitted, OperateChanges, OperateError, OperateErrorCode,
};
use workflow_sdk::prelude::*;
use workflow_sdk::sqlx::{Connection, PgConnection};
use workflow_sdk::{RunId, Start};
use workflow_tests::{Database, FaultyStore, Live, LocalWorker, Probe, until};

const PATIENCE: Duration = Duration::from_secs(20);

#[workflow]
async fn pays(ctx: &Ctx<Probe>, amount: u64) -> Result<u64> {
    let probe = ctx.state();
    ctx.step("charge", || async move {
        probe.pass("charge").await;
        Ok::<_, Error>(amount)
    })
    .await?;
    ctx.emit("log", &"charged".to_owned())?;
    ctx.publish("paid", &amount)?;
    ctx.step("ship", async || ok(())).await?;
    Ok(amount)
}

fn paid() -> ListChanges {
    ListChanges::of_runs("workflow:pays".parse().unwrap())
}

/// A reader that follows what it watches, and collects the changes.
struct Reader {
    client: Client,
    list: ListChanges,
    seen: Vec<Change>,
}

impl Reader {
    async fn at_now(client: &Client, list: ListChanges) -> Self {
        let cursor = client.changes(list.clone()).await.unwrap().cursor;
        Self { client: client.clone(), list: list.cursor(cursor), seen: Vec::new() }
    }

    async fn next(&mut self) -> ChangePage {
        let page = self.client.changes(self.list.clone().wait(PATIENCE)).await.unwrap();
        assert!(page.reset || !page.items.is_empty(), "nothing changed in {PATIENCE:?}");
        self.list.cursor = Some(page.cursor.clone());
        self.seen.extend(page.items.iter().cloned());
        page
    }

    async fn until(&mut self, is_it: impl Fn(&Change) -> bool) {
        while !self.seen.iter().any(&is_it) {
            assert!(!self.next().await.reset, "too late");
        }
    }
}

fn is_run(run: RunId, expected: RunStatus) -> impl Fn(&Change) -> bool {
    move |change| match change {
        Change::Entered { run: it, status } | Change::Changed { run: it, status } => *it == run && *status == expected,
        _ => false,
    }
}

fn start(client: &Client, amount: u64) -> Start<u64> {
    client.start(pays, amount)
}

/// The reader is another process than the worker and the one that starts.
pub async fn changes_of_runs_are_told_until_they_end(db: Live) {
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(pays));
    let mut readers = Vec::new();
    for client in [db.client.clone(), db.second_client().await] {
        readers.push(Reader::at_now(&client, paid()).await);
    }
    let run = start(&db.client, 7).await.unwrap();
    for reader in &mut readers {
        reader.until(is_run(run.id(), RunStatus::Running)).await;
        assert!(matches!(reader.seen[0], Change::Entered { run: it, .. } if it == run.id()), "{:?}", reader.seen);
    }
    probe.open("charge");
    run.result().await.unwrap();
    for reader in &mut readers {
        reader.until(is_run(run.id(), RunStatus::Succeeded)).await;
    }
    db.client.delete(run.id()).await.unwrap();
    for reader in &mut readers {
        reader.until(|change| *change == Change::Left { run: run.id() }).await;
    }
    worker.stop().await;
}

/// A reader that was away gets what it missed, or is told that it has to read anew.
pub async fn a_reader_that_comes_back_has_missed_nothing(db: Live) {
    let cursor = db.client.changes(paid()).await.unwrap().cursor;
    let mut started = Vec::new();
    for amount in 0..3 {
        started.push(start(&db.client, amount).await.unwrap().id());
    }
    let mut reader = Reader { client: db.client.clone(), list: paid().cursor(cursor.clone()), seen: Vec::new() };
    for run in &started {
        reader.until(is_run(*run, RunStatus::Pending)).await;
    }
    // A call that does not wait returns all that was committed before it.
    db.client.cancel(started[0]).await.unwrap();
    let page = db.client.changes(reader.list).await.unwrap();
    assert_eq!(page.items, [Change::Changed { run: started[0], status: RunStatus::Canceled }]);

    // The cursor of another process.
    let other = db.second_client().await;
    let page = other.changes(paid().cursor(cursor).wait(PATIENCE)).await.unwrap();
    assert!(page.reset && page.items.is_empty(), "{page:?}");
    let after = other.changes(paid().cursor(page.cursor)).await.unwrap();
    assert!(!after.reset, "{after:?}");
}

/// The first transaction has the lower id, and commits after the second one.
pub async fn a_start_of_a_transaction_that_commits_late_is_told(db: Live) {
    if db.database != Database::Postgres {
        // SQLite has one transaction that writes at a time.
        return;
    }
    let mut connection = PgConnection::connect(&db.url()).await.unwrap();
    let mut transaction = connection.begin().await.unwrap();
    let late = start(&db.client, 1).within(&mut transaction).await.unwrap().id();
    let mut reader = Reader::at_now(&db.client, paid()).await;
    let early = start(&db.client, 2).await.unwrap().id();
    assert!(late < early, "ids rise");
    reader.until(is_run(early, RunStatus::Pending)).await;
    assert!(!reader.seen.iter().any(is_run(late, RunStatus::Pending)));
    transaction.commit().await.unwrap();
    reader.until(is_run(late, RunStatus::Pending)).await;
}

pub async fn steps_of_a_run_are_told_in_their_order(db: Live) {
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(pays));
    let run = start(&db.client, 7).await.unwrap();
    let mut reader = Reader::at_now(&db.client, ListChanges::of_run(run.id())).await;
    probe.open("charge");
    reader.until(is_run(run.id(), RunStatus::Succeeded)).await;
    let outcomes = reader.seen.iter().filter_map(|change| match change {
        Change::Step { step, position: Some(position), .. } => Some((*position, step.as_str())),
        _ => None,
    });
    let outcomes: Vec<_> = outcomes.collect();
    assert!(outcomes.is_sorted() && outcomes.iter().any(|(_, step)| *step == "ship"), "{outcomes:?}");
    let of_run = |list: ListChanges| db.client.changes(list);
    db.client.delete(run.id()).await.unwrap();
    reader.until(|change| matches!(change, Change::Left { .. })).await;
    let unknown = of_run(ListChanges::of_run(RunId::generate())).await.unwrap_err();
    assert_eq!(unknown.code, OperateErrorCode::NotFound);
    worker.stop().await;
}

pub async fn items_and_published_values_are_read_as_they_come(db: Live) {
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(pays));
    let run = start(&db.client, 7).await.unwrap();
    let operate = db.second_client().await;
    let list = ListEmitted::new(run.id(), "log");
    let none = operate.emitted(list.clone()).await.unwrap();
    assert!(none.items.is_empty() && !none.complete, "{none:?}");
    let missing = operate.published(run.id(), "paid").await.unwrap_err();
    assert_eq!(missing.code, OperateErrorCode::NotFound, "{missing}");
    let waiting = tokio::spawn({
        let (operate, list) = (operate.clone(), list.clone());
        async move { operate.emitted(list.wait(PATIENCE)).await }
    });
    probe.open("charge");
    let page = waiting.await.unwrap().unwrap();
    assert_eq!(page.items[0].number, 1);
    assert_eq!(page.items[0].item.json.as_ref().unwrap().as_str(), "\"charged\"");
    run.result().await.unwrap();
    let rest = operate.emitted(list.clone().after(1).wait(PATIENCE)).await.unwrap();
    assert!(rest.items.is_empty() && rest.complete, "{rest:?}");
    assert_eq!(operate.published(run.id(), "paid").await.unwrap().json.unwrap().as_str(), "7");
    let code = |error: OperateError| error.code;
    let unknown = ListEmitted::new(RunId::generate(), "log");
    assert_eq!(operate.emitted(unknown).await.map_err(code), Err(OperateErrorCode::NotFound));
    assert_eq!(operate.emitted(list.clone().limit(0)).await.map_err(code), Err(OperateErrorCode::BadLimit));
    assert_eq!(operate.emitted(ListEmitted::new(run.id(), "")).await.map_err(code), Err(OperateErrorCode::BadInput));
    worker.stop().await;
}

pub async fn many_readers_cost_the_reads_of_one(db: Live) {
    const READERS: usize = 50;
    let store = Arc::new(FaultyStore::new(Arc::clone(db.client.store())));
    let client = Client::over(store.clone(), 1024 * 1024);
    let cursor = client.changes(paid()).await.unwrap().cursor;
    let (versions, scans) = store.reads_for_changes();
    let read = |_| {
        let (client, list) = (client.clone(), paid().cursor(cursor.clone()).wait(PATIENCE));
        tokio::spawn(async move { client.changes(list).await.unwrap() })
    };
    let readers: Vec<_> = (0..READERS).map(read).collect();
    let run = start(&client, 7).await.unwrap().id();
    for reader in readers {
        let page = reader.await.unwrap();
        assert_eq!(page.items, [Change::Entered { run, status: RunStatus::Pending }]);
    }
    let (versions_now, scans_now) = store.reads_for_changes();
    assert!(versions_now - versions < READERS / 2, "{} reads of the version", versions_now - versions);
    assert!(scans_now - scans < READERS / 2, "{} reads of the list", scans_now - scans);

    // Without a reader nothing is read, whatever happens.
    for amount in 0..3 {
        let run = start(&client, amount).await.unwrap();
        until("it is there", async || run.status().await.ok()).await;
    }
    assert_eq!(store.reads_for_changes(), (versions_now, scans_now));
}

pub async fn what_cannot_be_followed_is_refused(db: Live) {
    let code = async |list: ListChanges| db.client.changes(list).await.unwrap_err().code;
    assert_eq!(code(paid().limit(0)).await, OperateErrorCode::BadLimit);
    assert_eq!(code(paid().limit(201)).await, OperateErrorCode::BadLimit);
    assert_eq!(code(paid().cursor(Cursor::new("nonsense"))).await, OperateErrorCode::BadCursor);
    let of_all = db.client.changes(ListChanges::of_all()).await.unwrap().cursor;
    assert_eq!(code(paid().cursor(of_all.clone())).await, OperateErrorCode::BadCursor);
    start(&db.client, 7).await.unwrap();
    let all = ListChanges::of_all().cursor(of_all).wait(PATIENCE);
    assert_eq!(db.client.changes(all).await.unwrap().items, [Change::Committed]);
}
