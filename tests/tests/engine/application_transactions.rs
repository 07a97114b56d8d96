//! Starts, signals and emissions in a transaction of the application.

use std::time::Duration;

use workflow_sdk::prelude::*;
use workflow_sdk::sqlx::{Connection, PgConnection, SqliteConnection};
use workflow_sdk::{ClientError, DatabaseErrorKind, RunFilter, SignalOutcome, Start};
use workflow_tests::{Database, Fixture, Live, LocalWorker, until};

use crate::reaches;

#[workflow]
async fn echo(ctx: &Ctx, text: String) -> Result<String> {
    let _ = ctx;
    Ok(text)
}

/// Starts runs in one transaction on this URL, and commits or rolls back.
async fn transact(
    url: &str,
    starts: impl IntoIterator<Item = Start<String>>,
    commit: bool,
) -> Result<Vec<RunHandle<String>>, ClientError> {
    let mut handles = Vec::new();
    if url.starts_with("sqlite") {
        let mut connection = SqliteConnection::connect(url).await.unwrap();
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.unwrap();
        for start in starts {
            handles.push(start.within(&mut transaction).await?);
        }
        if commit { transaction.commit().await.unwrap() } else { transaction.rollback().await.unwrap() }
    } else {
        let mut connection = PgConnection::connect(url).await.unwrap();
        let mut transaction = connection.begin().await.unwrap();
        for start in starts {
            handles.push(start.within(&mut transaction).await?);
        }
        if commit { transaction.commit().await.unwrap() } else { transaction.rollback().await.unwrap() }
    }
    Ok(handles)
}

pub async fn a_run_exists_if_its_transaction_commits(db: Live) {
    // The process gets no local notification of a commit that its executor did not make. The
    // notification of other processes must reach the worker, because it hardly ever polls.
    let worker = LocalWorker::start(db.worker(()).register(echo).poll_interval(Duration::from_secs(3600)));
    let dropped = transact(&db.url(), [db.client.start(echo, "dropped".into())], false).await.unwrap().remove(0);
    let texts = ["a", "b"];
    let starts = texts.map(|text| db.client.start(echo, text.to_owned()).key(text).tag("text", text));
    let kept = transact(&db.url(), starts, true).await.unwrap();
    for (run, text) in kept.iter().zip(texts) {
        assert_eq!(run.result().await.unwrap(), text);
        assert_eq!(run.run().await.unwrap().tags["text"], text);
    }
    let error = dropped.status().await.unwrap_err();
    assert!(matches!(error, ClientError::UnknownRun { run_id } if run_id == dropped.id()), "{error}");
    assert_eq!(db.client.list(&RunFilter::new()).await.unwrap().len(), 2);
    worker.stop().await;
}

pub async fn a_connection_after_an_explicit_begin_is_a_transaction(db: Live) {
    let start = db.client.start(echo, "a".into());
    let run = match db.raw().await {
        workflow_tests::RawConnection::Sqlite(mut connection) => {
            workflow_sdk::sqlx::query("BEGIN IMMEDIATE").execute(&mut connection).await.unwrap();
            let run = start.within(&mut connection).await.unwrap();
            assert!(run.status().await.is_err(), "the run is not visible before the commit");
            workflow_sdk::sqlx::query("COMMIT").execute(&mut connection).await.unwrap();
            run
        }
        workflow_tests::RawConnection::Postgres(mut connection) => {
            workflow_sdk::sqlx::query("BEGIN").execute(&mut connection).await.unwrap();
            let run = start.within(&mut connection).await.unwrap();
            assert!(run.status().await.is_err(), "the run is not visible before the commit");
            workflow_sdk::sqlx::query("COMMIT").execute(&mut connection).await.unwrap();
            run
        }
    };
    assert_eq!(run.status().await.unwrap(), RunStatus::Pending);
}

pub async fn a_key_is_unique_within_a_transaction(db: Live) {
    let before = db.client.start(echo, "a".into()).key("k").await.unwrap();
    let start = |text: &str| db.client.start(echo, text.to_owned()).key("k");
    let same = transact(&db.url(), [start("a")], true).await.unwrap();
    assert_eq!(same[0].id(), before.id());
    let error = transact(&db.url(), [db.client.start(echo, "c".into()), start("b")], true).await.unwrap_err();
    assert!(matches!(error, ClientError::KeyConflict { run_id, .. } if run_id == before.id()), "{error}");
    assert_eq!(db.client.list(&RunFilter::new()).await.unwrap().len(), 1, "the transaction was not committed");

    let twice = [db.client.start(echo, "d".into()).key("new"), db.client.start(echo, "d".into()).key("new")];
    let twice = transact(&db.url(), twice, true).await.unwrap();
    assert_eq!(twice[0].id(), twice[1].id());
}

pub async fn a_transaction_on_another_database_is_refused(db: Live) {
    let (own, foreign) = match db.database {
        Database::Memory => unreachable!("these cases do not run on the in-memory store"),
        Database::Sqlite => ("SQLite", Database::Postgres),
        Database::Postgres => ("PostgreSQL", Database::Sqlite),
    };
    let kind = if own == "SQLite" { "PostgreSQL" } else { "SQLite" };
    let place = Fixture::new(foreign).await;
    let error = transact(&place.url(), [db.client.start(echo, "a".into())], true).await.unwrap_err();
    assert!(matches!(error, ClientError::OtherDatabase { .. }), "{error:?}");
    assert_eq!(
        error.to_string(),
        format!(
            "the client is connected to {own}, but the transaction is one of {kind}; \
             use a transaction on the client's own database"
        )
    );
    place.cleanup().sweep().await;

    if db.database == Database::Sqlite {
        // The same kind of database, but another file: no worker of this database would see the
        // run.
        let place = Fixture::new(db.database).await;
        let error = transact(&place.url(), [db.client.start(echo, "a".into())], true).await.unwrap_err();
        assert!(
            matches!(&error, ClientError::Database(error) if error.kind == DatabaseErrorKind::Invalid),
            "{error:?}"
        );
        assert!(place.store.list(&RunFilter::new()).await.unwrap().is_empty());
        place.cleanup().sweep().await;
    }
    assert!(db.client.list(&RunFilter::new()).await.unwrap().is_empty());
}

pub async fn bad_input_is_refused_before_the_transaction_is_touched(db: Live) {
    let start = db.client.start(echo, "a".into()).key("");
    let error = transact(&db.url(), [start], true).await.unwrap_err();
    assert!(matches!(error, ClientError::Name(_)), "{error:?}");
    assert!(db.client.list(&RunFilter::new()).await.unwrap().is_empty());
}

pub async fn a_new_lane_outlives_the_transaction_that_needed_it_first(db: Live) {
    let start = || db.client.start(echo, "a".into()).queue("new");
    let dropped = transact(&db.url(), [start()], false).await.unwrap().remove(0);
    assert!(matches!(dropped.status().await, Err(ClientError::UnknownRun { .. })));
    let kept = transact(&db.url(), [start(), start()], true).await.unwrap();
    let worker = LocalWorker::start(db.worker(()).register(echo).queues(["new"]));
    for run in kept {
        assert_eq!(run.result().await.unwrap(), "a");
    }
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_lane_of_an_open_transaction_delays_no_other_start() {
    an_open_transaction_delays_no_other_start(|start| start).await;
}

/// While the transaction is open, claims find that nothing is left behind the gate.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_transaction_delays_no_other_run_behind_its_gate_and_its_own_is_found() {
    an_open_transaction_delays_no_other_start(|start| start.gate("acct-1")).await;
}

async fn an_open_transaction_delays_no_other_start(placed: fn(Start<String>) -> Start<String>) {
    let db = Live::new(Database::Postgres).await;
    let start = |text: &str| placed(db.client.start(echo, text.to_owned()).queue("new"));
    let mut connection = PgConnection::connect(&db.url()).await.unwrap();
    let mut transaction = connection.begin().await.unwrap();
    let open = start("open").within(&mut transaction).await.unwrap();
    let mut second = PgConnection::connect(&db.url()).await.unwrap();
    let mut beside = second.begin().await.unwrap();
    let worker = LocalWorker::start(db.worker(()).register(echo).queues(["new"]));
    let in_another = start("another").within(&mut beside).await.unwrap();
    beside.commit().await.unwrap();
    for run in [in_another, start("alone").await.unwrap()] {
        run.result().await.unwrap();
    }
    assert!(open.status().await.is_err(), "the first transaction is still open");
    transaction.commit().await.unwrap();
    assert_eq!(open.result().await.unwrap(), "open");
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_with_an_older_snapshot_than_its_lane_is_refused() {
    let db = Live::new(Database::Postgres).await;
    let mut connection = PgConnection::connect(&db.url()).await.unwrap();
    for round in 0..2 {
        let mut transaction = connection.begin_with("BEGIN ISOLATION LEVEL SERIALIZABLE").await.unwrap();
        workflow_sdk::sqlx::query("SELECT count(*) FROM pg_class").execute(&mut *transaction).await.unwrap();
        let started = db.client.start(echo, "a".into()).queue("new").within(&mut transaction).await;
        if round == 1 {
            // The refused attempt recorded the lane.
            started.unwrap();
            transaction.commit().await.unwrap();
            break;
        }
        let error = started.unwrap_err();
        assert!(matches!(&error, ClientError::Database(error) if error.kind == DatabaseErrorKind::Busy), "{error:?}");
        let reason = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        assert!(format!("{error} {reason}").contains("roll back, and begin it again"), "{error} {reason}");
    }
    assert_eq!(db.client.list(&RunFilter::new()).await.unwrap().len(), 1);
}

#[workflow]
async fn ship(ctx: &Ctx, order: String) -> Result<Option<u64>> {
    ctx.event::<u64>("order.paid").key(&order).await
}

/// Starts runs that wait for the event with this key, and waits until all of them are parked.
async fn parked(db: &Live, count: usize, order: &str) -> Vec<RunHandle<Option<u64>>> {
    let runs = db.client.start_many(ship, vec![order.to_owned(); count]).await.unwrap();
    for run in &runs {
        reaches(run, RunStatus::Parked).await;
    }
    runs
}

/// Whether the database ended the call, in favour of another transaction.
fn was_given_up<T: std::fmt::Debug>(result: &Result<T, ClientError>) -> bool {
    match result {
        Ok(_) => false,
        Err(ClientError::Database(error)) if error.kind.is_transient() => true,
        Err(error) => panic!("{error:?}"),
    }
}

/// The transaction locks the run first and the event second, the emission of the client the event
/// first and the run second. PostgreSQL ends one of both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_emission_in_a_circle_with_a_transaction_ends() {
    let db = Live::new(Database::Postgres).await;
    let worker = LocalWorker::start(db.worker(()).register(ship).linger(Duration::ZERO));
    let run = parked(&db, 1, "42").await.remove(0);
    let mut raw = db.raw().await;
    let mut connection = PgConnection::connect(&db.url()).await.unwrap();
    let mut transaction = connection.begin().await.unwrap();
    let signal = db.client.signal(run.id(), "note", &1_u64).within(&mut transaction).await.unwrap();
    assert_eq!(signal, SignalOutcome::Accepted);
    let beside = tokio::spawn(db.client.emit("order.paid", "42", &1_u64).into_future());
    // Other tests have schemas of their own, and this lock is on a row of a run of this schema.
    let waits = "SELECT count(*) FROM pg_stat_activity, unnest(pg_blocking_pids(pid)) AS blocker \
                 WHERE blocker = (SELECT pid FROM pg_locks WHERE locktype = 'relation' AND mode = 'RowExclusiveLock' \
                 AND relation = 'workflow_signals'::regclass LIMIT 1)";
    until("the emission waits for the run", async || (raw.number(waits).await > 0).then_some(())).await;

    let within = db.client.emit("order.paid", "42", &2_u64).within(&mut transaction).await;
    let within = match was_given_up(&within) {
        true => {
            transaction.rollback().await.unwrap();
            within
        }
        false => {
            transaction.commit().await.unwrap();
            within
        }
    };
    let beside = beside.await.unwrap();
    let ended = [&within, &beside].map(was_given_up);
    assert!(ended.contains(&false), "{within:?} {beside:?}");
    let counts: u64 = [within, beside].into_iter().flatten().sum();
    assert_eq!(counts, 1, "one of the two reached the wait");
    assert!(run.result().await.unwrap().is_some());
    worker.stop().await;
    db.sweep().await;
}

/// Each transaction signals runs in an order of its own, and emits the event that they wait for.
/// Emissions of the client run beside them.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn emissions_beside_transactions_that_lock_their_runs_end() {
    const RUNS: usize = 4;
    const ROUNDS: u64 = 8;

    let db = Live::new(Database::Postgres).await;
    let worker = LocalWorker::start(db.worker(()).register(ship).linger(Duration::ZERO));
    for round in 0..ROUNDS {
        let order = round.to_string();
        let runs = parked(&db, RUNS, &order).await;
        let transaction = async |backwards: bool| {
            let mut connection = PgConnection::connect(&db.url()).await.unwrap();
            let mut transaction = connection.begin().await.unwrap();
            for n in 0..RUNS {
                let run = &runs[if backwards { RUNS - 1 - n } else { n }];
                db.client.signal(run.id(), "note", &round).within(&mut transaction).await?;
            }
            let emitted = db.client.emit("order.paid", &order, &round).within(&mut transaction).await?;
            transaction.commit().await.unwrap();
            Ok::<_, ClientError>(emitted)
        };
        let emission = || db.client.emit("order.paid", &order, &round).into_future();
        let both = futures::future::join(transaction(false), transaction(true));
        let all = futures::future::join3(both, emission(), emission());
        let ((forwards, backwards), one, other) =
            tokio::time::timeout(Duration::from_secs(60), all).await.expect("every call ends");
        let mut count = 0;
        for result in [forwards, backwards, one, other] {
            if !was_given_up(&result) {
                count += result.unwrap();
            }
        }
        // A call that was given up has done nothing, so its event is emitted again.
        count += emission().await.unwrap();
        assert_eq!(count, RUNS as u64, "each wait received one event");
        for run in runs {
            assert_eq!(run.result().await.unwrap(), Some(round));
        }
    }
    worker.stop().await;
    db.sweep().await;
}
