//! Starts in a transaction of the application.

use std::time::Duration;

use workflow_sdk::prelude::*;
use workflow_sdk::sqlx::{Connection, PgConnection, SqliteConnection};
use workflow_sdk::{ClientError, DatabaseErrorKind, RunFilter, Start};
use workflow_tests::{Database, Fixture, Live, LocalWorker};

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
