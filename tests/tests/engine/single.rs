//! Single, debounced and throttled starts of a client.

use std::future::IntoFuture;
use std::time::Duration;

use workflow_sdk::prelude::*;
use workflow_sdk::sqlx::{Connection, PgConnection, SqliteConnection};
use workflow_sdk::{ClientError, Encryption, EncryptionKey, InvalidSingle, KeyReuse, RunFilter, Single, SingleUntil};
use workflow_tests::{Database, Live, LocalWorker, until};

use crate::reaches;

const LONG: Duration = Duration::from_secs(3600);

#[workflow]
async fn reindex(ctx: &Ctx, document: u64) -> Result<u64> {
    ctx.signal::<()>("go").await?;
    Ok(document)
}

#[workflow]
async fn digest(ctx: &Ctx, text: String) -> Result<String> {
    let _ = ctx;
    Ok(text)
}

#[workflow]
async fn stumble(ctx: &Ctx, document: u64) -> Result<u64> {
    let _ = (ctx, document);
    Err(Error::fatal("no luck"))
}

async fn count(db: &Live) -> usize {
    db.client.list(&RunFilter::new()).await.unwrap().len()
}

pub async fn a_single_start_returns_the_run_that_has_not_ended(db: Live) {
    let worker = LocalWorker::start(db.worker(()).register(reindex));
    let first = db.client.start(reindex, 7).single("doc-7").await.unwrap();
    reaches(&first, RunStatus::Parked).await;
    let second = db.second_client().await.start(reindex, 8).single("doc-7").await.unwrap();
    assert_eq!((first.existed(), second.existed(), second.id()), (false, true, first.id()));
    let refused = db.client.start(reindex, 7).single("doc-7").on_conflict(Single::Refuse).await.unwrap_err();
    assert!(matches!(&refused, ClientError::SingleTaken { run_id, .. } if *run_id == first.id()), "{refused:?}");
    assert_eq!(
        refused.to_string(),
        format!(
            "run {} of workflow \"reindex\" has the single key \"doc-7\" and has not ended; wait for its end, cancel it, \
             or start with .on_conflict(Single::Replace)",
            first.id()
        )
    );
    first.signal("go", &()).await.unwrap();
    assert_eq!(second.result().await.unwrap(), 7);
    let third = db.client.start(reindex, 8).single("doc-7").on_conflict(Single::Refuse).await.unwrap();
    let single = third.run().await.unwrap().single.unwrap();
    assert_eq!((single.key.as_str(), single.until), ("doc-7", SingleUntil::End));
    assert!(!third.existed());
    third.terminate().await.unwrap();
    worker.stop().await;
}

pub async fn a_replaced_run_ends_and_the_new_one_runs(db: Live) {
    let worker = LocalWorker::start(db.worker(()).register(reindex));
    let old = db.client.start(reindex, 7).single("doc-7").await.unwrap();
    reaches(&old, RunStatus::Parked).await;
    let new = db.client.start(reindex, 8).single("doc-7").on_conflict(Single::Replace).await.unwrap();
    assert!(!new.existed());
    assert!(matches!(old.result().await, Err(ClientError::RunCanceled { .. })));
    new.signal("go", &()).await.unwrap();
    assert_eq!(new.result().await.unwrap(), 8);

    // A run that no worker has begun ends in the same commit, and its waiting handles are told.
    let waiting = db.client.start(reindex, 9).delay(LONG).single("doc-7").await.unwrap();
    let wait = tokio::spawn({
        let waiting = waiting.clone();
        async move { waiting.result().await }
    });
    let next = db.client.start(reindex, 10).single("doc-7").on_conflict(Single::Replace).await.unwrap();
    assert!(matches!(wait.await.unwrap(), Err(ClientError::RunCanceled { .. })));
    next.terminate().await.unwrap();
    worker.stop().await;
}

pub async fn a_failed_run_is_not_tried_again_beside_another_of_its_key(db: Live) {
    let worker = LocalWorker::start(db.worker(()).register(stumble));
    let failed = db.client.start(stumble, 7).single("doc-7").await.unwrap();
    reaches(&failed, RunStatus::Failed).await;
    let other = db.client.start(stumble, 7).delay(LONG).single("doc-7").await.unwrap();
    let refused = failed.retry().await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        format!(
            "run {} cannot be tried again, because run {} has its single key \"doc-7\" now; try it again when that run \
             has ended, or cancel that run first",
            failed.id(),
            other.id()
        )
    );
    assert!(matches!(refused, ClientError::SingleTakenSince { holder, .. } if holder == other.id()));
    assert_eq!(failed.status().await.unwrap(), RunStatus::Failed);
    other.cancel().await.unwrap();
    failed.retry().await.unwrap();
    worker.stop().await;
}

pub async fn the_last_of_debounced_starts_runs(db: Live) {
    let text = |text: &str| text.to_owned();
    let start = |input: &str, delay: Duration| db.client.start(digest, text(input)).debounce("user-9", delay);
    let first = start("1", LONG).await.unwrap();
    let second = start("2", LONG).tag("of", "2").await.unwrap();
    assert_eq!((first.existed(), second.existed(), second.id()), (false, true, first.id()));
    let run = first.run().await.unwrap();
    assert_eq!((run.input.as_str(), run.tags["of"].as_str(), run.status), ("\"2\"", "2", RunStatus::Pending));
    assert!(run.available_at >= run.created_at + LONG);

    // The longest wait counts from the first call, so the run is due as soon as its 1 ms is over.
    let worker = LocalWorker::start(db.worker(()).register(digest));
    let moment = Duration::from_millis(1);
    assert_eq!(start("3", moment).max_wait(moment).await.unwrap().id(), first.id());
    assert_eq!(first.result().await.unwrap(), "3");
    let next = start("4", moment).await.unwrap();
    assert_ne!(next.id(), first.id());
    assert_eq!(next.result().await.unwrap(), "4");
    assert_eq!(count(&db).await, 2);
    worker.stop().await;
}

pub async fn a_debounced_input_stays_encrypted(db: Live) {
    let key = EncryptionKey::new("k1", [7; 32]).unwrap();
    let client = db.connect().codec(Encryption::new(key)).await.unwrap();
    let start = |text: &str| client.start(digest, text.to_owned()).debounce("user-9", LONG);
    let first = start("open secret 1").await.unwrap();
    let second = start("open secret 2").await.unwrap();
    assert_eq!(second.id(), first.id());
    let stored = "SELECT count(*) FROM workflow_runs WHERE CAST(input AS text) LIKE '%open secret%'";
    assert_eq!(db.raw().await.number(stored).await, 0);
    let worker = LocalWorker::start(workflow_worker::Worker::new(client.clone(), ()).register(digest));
    let moment = Duration::from_millis(1);
    client.start(digest, "open secret 3".into()).debounce("user-9", moment).max_wait(moment).await.unwrap();
    assert_eq!(first.result().await.unwrap(), "open secret 3", "the run decodes the input that was moved to it");
    worker.stop().await;
}

pub async fn two_processes_debounce_one_run(db: Live) {
    let clients = [db.client.clone(), db.second_client().await];
    let starts = (0..40).map(|number: usize| {
        let start = clients[number % 2].start(digest, number.to_string()).debounce("user-9", LONG);
        tokio::spawn(start.into_future())
    });
    let mut ids = Vec::new();
    for start in starts.collect::<Vec<_>>() {
        ids.push(start.await.unwrap().unwrap().id());
    }
    ids.dedup();
    assert_eq!((ids.len(), count(&db).await), (1, 1));
}

pub async fn a_period_has_one_run_per_key(db: Live) {
    // Longer than any test, and the present period began long ago.
    let period = Duration::from_secs(3600 * 24 * 3000);
    let worker = LocalWorker::start(db.worker(()).register(stumble));
    let first = db.client.start(stumble, 1).once_per(period, "acct-42").await.unwrap();
    reaches(&first, RunStatus::Failed).await;
    let second = db.client.start(stumble, 2).once_per(period, "acct-42").await.unwrap();
    assert_eq!((first.existed(), second.existed(), second.id()), (false, true, first.id()));
    for other in [
        db.client.start(stumble, 1).once_per(period, "acct-43").await.unwrap(),
        db.client.start(stumble, 1).once_per(period / 2, "acct-42").await.unwrap(),
    ] {
        assert!(!other.existed());
    }
    let moment = Duration::from_micros(1);
    let (one, other) = (db.client.start(stumble, 1), db.client.start(stumble, 1));
    let (one, other) =
        (one.once_per(moment, "acct-42").await.unwrap(), other.once_per(moment, "acct-42").await.unwrap());
    assert_ne!(one.id(), other.id(), "each is in a period of its own");
    worker.stop().await;
}

pub async fn bad_options_of_a_single_start_are_refused(db: Live) {
    let start = || db.client.start(reindex, 7);
    for key in [String::new(), "k".repeat(256), "a\nb".into()] {
        for start in [start().single(&*key), start().debounce(&*key, LONG), start().once_per(LONG, &*key)] {
            let error = start.await.unwrap_err();
            assert!(matches!(&error, ClientError::Name(error) if error.to_string().contains("use 1 to 255 bytes")));
        }
    }
    let error = start().once_per(LONG, "k".repeat(250)).await.unwrap_err();
    assert!(matches!(&error, ClientError::Name(_)), "the number of the period has no room: {error:?}");
    let long = workflow_sdk::MAX_SINGLE_TIME + Duration::from_secs(1);
    let cases = [
        (
            start().single("k").debounce("k", LONG),
            "a start cannot have both .single(..) and .debounce(..); leave one of them out",
        ),
        (start().single("k").key("k"), "a start cannot have both .key(..) and .single(..); leave one of them out"),
        (
            start().once_per(LONG, "k").single("k"),
            "a start cannot have both .single(..) and .once_per(..); leave one of them out",
        ),
        (
            start().once_per(LONG, "k").key_reuse(KeyReuse::AfterFailure),
            "a start cannot have both .once_per(..) and .key_reuse(..); leave one of them out",
        ),
        (
            start().debounce("k", LONG).delay(LONG),
            "a start cannot have both .debounce(..) and .delay(..) or .at(..); leave one of them out",
        ),
        (
            start().on_conflict(Single::Refuse),
            ".on_conflict(..) says nothing without .single(..); add that, or leave it out",
        ),
        (start().max_wait(LONG), ".max_wait(..) says nothing without .debounce(..); add that, or leave it out"),
        (
            start().debounce("k", Duration::ZERO),
            "the delay of a debounced start is 0ns; use more than 0 and at most 3660 days",
        ),
        (
            start().debounce("k", long),
            "the delay of a debounced start is 316224001s; use more than 0 and at most 3660 days",
        ),
        (
            start().debounce("k", LONG).max_wait(long),
            "max_wait of a debounced start is 316224001s; use more than 0 and at most 3660 days",
        ),
        (
            start().debounce("k", LONG).max_wait(Duration::from_secs(60)),
            "max_wait 60s is shorter than the delay 3600s; make it at least as long, or leave it out",
        ),
        (
            start().once_per(Duration::ZERO, "k"),
            "the period of a throttled start is 0ns; use more than 0 and at most 3660 days",
        ),
    ];
    for (start, text) in cases {
        let error = start.await.unwrap_err();
        assert!(matches!(&error, ClientError::Single(_)), "{error:?}");
        assert_eq!(error.to_string(), text);
    }
    let error = start().single("k").debounce("k", LONG).await.unwrap_err();
    assert!(matches!(error, ClientError::Single(InvalidSingle::Together { one: ".single(..)", .. })));
    assert_eq!(count(&db).await, 0);
}

/// Starts two runs, the second one debounced, in one transaction, and commits or rolls back.
pub async fn single_starts_join_a_transaction(db: Live) {
    macro_rules! transact {
        ($transaction:expr) => {{
            let mut transaction = $transaction;
            let single = db.client.start(reindex, 7).single("doc-7").within(&mut transaction).await.unwrap();
            let again = db.client.start(reindex, 8).single("doc-7").within(&mut transaction).await.unwrap();
            assert_eq!((again.existed(), again.id()), (true, single.id()));
            let refused = db.client.start(reindex, 7).single("doc-7").on_conflict(Single::Refuse);
            assert!(matches!(refused.within(&mut transaction).await, Err(ClientError::SingleTaken { .. })));
            let first =
                db.client.start(digest, "1".into()).debounce("user-9", LONG).within(&mut transaction).await.unwrap();
            let last = db
                .client
                .start(digest, "2".into())
                .debounce("user-9", LONG)
                .queue("new")
                .within(&mut transaction)
                .await
                .unwrap();
            assert_eq!((last.existed(), last.id()), (true, first.id()));
            let new = db
                .client
                .start(reindex, 9)
                .single("doc-7")
                .on_conflict(Single::Replace)
                .queue("newer")
                .within(&mut transaction)
                .await
                .unwrap();
            let throttled = db
                .client
                .start(reindex, 1)
                .once_per(LONG * 24 * 3000, "acct-42")
                .within(&mut transaction)
                .await
                .unwrap();
            assert!(!throttled.existed());
            (transaction, single, first, new)
        }};
    }
    let (single, first, new) = match db.database {
        Database::Sqlite | Database::Memory => {
            let mut connection = SqliteConnection::connect(&db.url()).await.unwrap();
            let (transaction, ..) = transact!(connection.begin_with("BEGIN IMMEDIATE").await.unwrap());
            transaction.rollback().await.unwrap();
            assert_eq!(count(&db).await, 0);
            let (transaction, single, first, new) = transact!(connection.begin_with("BEGIN IMMEDIATE").await.unwrap());
            transaction.commit().await.unwrap();
            (single, first, new)
        }
        Database::Postgres => {
            let mut connection = PgConnection::connect(&db.url()).await.unwrap();
            let (transaction, ..) = transact!(connection.begin().await.unwrap());
            transaction.rollback().await.unwrap();
            assert_eq!(count(&db).await, 0);
            let (transaction, single, first, new) = transact!(connection.begin().await.unwrap());
            transaction.commit().await.unwrap();
            (single, first, new)
        }
    };
    assert_eq!(single.status().await.unwrap(), RunStatus::Canceled);
    let run = first.run().await.unwrap();
    assert_eq!((run.input.as_str(), run.lane.queue.as_str()), ("\"2\"", "new"));
    assert_eq!(new.run().await.unwrap().single.map(|single| single.key), Some("doc-7".into()));
}

/// The start of the same key waits for the end of the transaction, and no other start does: those
/// of other keys, and those in the same batch.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_key_of_an_open_transaction_delays_no_start_of_another_key() {
    let db = Live::new(Database::Postgres).await;
    for commits in [true, false] {
        let mut connection = PgConnection::connect(&db.url()).await.unwrap();
        let mut transaction = connection.begin().await.unwrap();
        let open = db.client.start(reindex, 7).single("doc-7").within(&mut transaction).await.unwrap();
        let beside = db.client.start(reindex, 8).single("doc-7").into_future();
        let mut beside = tokio::spawn(beside);
        for number in 0..20_u64 {
            db.client.start(reindex, number).single(format!("doc-{}", 100 + number)).await.unwrap();
            db.client.start(reindex, number).await.unwrap();
        }
        assert!(futures::poll!(&mut beside).is_pending(), "the start of the same key waits");
        if commits {
            transaction.commit().await.unwrap()
        } else {
            transaction.rollback().await.unwrap()
        }
        let beside = beside.await.unwrap().unwrap();
        assert_eq!((beside.existed(), beside.id() == open.id()), (commits, commits));
        beside.terminate().await.unwrap();
    }
    // A debounced start of another process moves what the transaction has committed.
    let mut connection = PgConnection::connect(&db.url()).await.unwrap();
    let mut transaction = connection.begin().await.unwrap();
    let open = db.client.start(digest, "1".into()).debounce("user-9", LONG).within(&mut transaction).await.unwrap();
    let other = db.second_client().await;
    let beside = tokio::spawn(other.start(digest, "2".into()).debounce("user-9", LONG).into_future());
    other.start(digest, "3".into()).debounce("user-10", LONG).await.unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(beside.await.unwrap().unwrap().id(), open.id());
    until("the run has the second input", async || (open.run().await.unwrap().input == "\"2\"").then_some(())).await;
    db.sweep().await;
}

/// Of two transactions that give a key, the second one waits for the first one, and then sees its
/// run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_waits_for_the_single_key_of_another() {
    let db = Live::new(Database::Postgres).await;
    let (mut one, mut two) =
        (PgConnection::connect(&db.url()).await.unwrap(), PgConnection::connect(&db.url()).await.unwrap());
    let mut first = one.begin().await.unwrap();
    let open = db.client.start(reindex, 7).single("doc-7").within(&mut first).await.unwrap();
    let client = db.client.clone();
    let second = tokio::spawn(async move {
        let mut transaction = two.begin().await.unwrap();
        let start = client.start(reindex, 8).single("doc-7").on_conflict(Single::Replace);
        let run = start.within(&mut transaction).await.unwrap();
        transaction.commit().await.unwrap();
        run
    });
    first.commit().await.unwrap();
    let new = second.await.unwrap();
    let statuses = (open.status().await.unwrap(), new.status().await.unwrap());
    assert!(statuses == (RunStatus::Canceled, RunStatus::Pending), "{statuses:?}");
    db.sweep().await;
}

/// The number of the period is read beside the transaction, which has the only connection of a
/// database in memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_throttled_start_joins_the_transaction_of_a_step_in_memory() {
    #[workflow]
    async fn parent(ctx: &Ctx<Client>) -> Result<bool> {
        let start = ctx.transaction("start", async |mut tx| {
            let start = ctx.state().start(digest, "1".into()).once_per(LONG * 24 * 3000, "acct-42");
            ok(start.within(&mut tx).await.map_err(Error::fatal)?.existed())
        });
        start.await
    }
    let client = Client::connect("sqlite::memory:").await.unwrap();
    let worker = workflow_worker::Worker::new(client.clone(), client.clone()).register(parent);
    let worker = LocalWorker::start(worker);
    assert!(!client.start(parent, ()).await.unwrap().result().await.unwrap());
    worker.stop().await;
}
