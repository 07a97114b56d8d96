#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;

use sqlx::{Connection, Row};

use workflow_engine::model::{Retention, RunFilter};
use workflow_engine::store::{ConnectError, DatabaseErrorKind, Outcome, StartOutcome, Store, StoreOptions, Write};

use super::fixture_tests::*;
use super::location::{self, Location, network_filesystem};
use super::open::is_old;
use super::{SqliteStore, sql};

async fn open(url: &str) -> Result<SqliteStore, ConnectError> {
    SqliteStore::open(url, StoreOptions::default()).await
}

#[test]
fn urls_are_understood_or_refused() {
    for (url, path) in [("sqlite://a.db", "a.db"), ("sqlite:a.db", "a.db"), ("sqlite:///x/a b%.db", "/x/a b%.db")] {
        assert_eq!(location::parse(url).unwrap(), Location::File(path.into()), "{url}");
    }
    assert_eq!(location::parse("sqlite::memory:").unwrap(), Location::Memory);
    for url in ["sqlite:", "sqlite://", "sqlite://a.db?mode=ro", "sqlite://?", "sqlite3://a"] {
        assert!(matches!(location::parse(url), Err(ConnectError::InvalidUrl { .. })), "{url}");
    }
}

#[test]
fn old_libraries_are_known() {
    for (version, old) in [
        ("3.51.2", true),
        ("3.9.9", true),
        ("3.51.3", false),
        ("3.51.10", false),
        ("3.53.0", false),
        ("4.0", false),
        ("x", true),
    ] {
        assert_eq!(is_old(version), old, "{version}");
    }
}

#[test]
fn network_filesystems_are_known() {
    assert_eq!(network_filesystem(0x6969), Some("NFS"));
    assert_eq!(network_filesystem(0xFF53_4D42), Some("CIFS"));
    assert_eq!(network_filesystem(0xEF53), None, "ext4");
}

#[cfg(unix)]
#[tokio::test]
async fn files_are_the_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("runs.db");
    let store = open(&format!("sqlite://{}", path.display())).await.unwrap();
    let worker = workflow_engine::model::WorkerId::generate();
    let lease = store.open_lease(worker, &[], &Retention::default()).await.unwrap();
    store.list(&RunFilter::new()).await.unwrap();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let beside = |suffix: &str| directory.path().join(format!("runs.db{suffix}"));
    for file in [path.clone(), beside("-wal"), beside("-shm"), beside("-workers").join(format!("{worker}.lock"))] {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
    assert_eq!(mode(&beside("-workers")), 0o700);
    assert_eq!(location::open_to_others(&path), Vec::<String>::new());
    lease.close().await.unwrap();
    store.close().await;

    let set = |path: &std::path::Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    set(&path, 0o640);
    let warnings = location::open_to_others(&path);
    assert!(warnings.len() == 1 && warnings[0].contains("(mode 0640); chmod 600"), "{warnings:?}");
    set(directory.path(), 0o777);
    assert!(location::open_to_others(&path)[1].contains("may replace files in"));
    set(directory.path(), 0o1777);
    assert_eq!(location::open_to_others(&path).len(), 1, "as in /tmp");
    set(directory.path(), 0o700);
}

#[cfg(unix)]
#[tokio::test]
async fn files_that_another_user_has_prepared_are_refused() {
    use std::os::unix::fs::{PermissionsExt, chown};
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("runs.db");
    let url = format!("sqlite://{}", path.display());
    open(&url).await.unwrap().close().await;
    let wal = directory.path().join("runs.db-wal");
    std::fs::write(&wal, "").unwrap();
    // Only root can give a file away.
    if chown(&wal, Some(12_345), None).is_err() {
        return;
    }
    let refused = open(&url).await.map(drop).unwrap_err();
    assert!(matches!(&refused, ConnectError::ForeignOwner { owner: 12_345, .. }), "{refused:?}");
    // A group that may write to the database may also have written the file beside it.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o660)).unwrap();
    open(&url).await.unwrap().close().await;
}

#[tokio::test]
async fn sixteen_at_once_migrate_once() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", directory.path().join("runs.db").display());
    let opening: Vec<_> = (0..16)
        .map(|_| {
            let url = url.clone();
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    let store = open(&url).await?;
                    store.list(&RunFilter::new()).await.unwrap();
                    store.close().await;
                    Ok::<_, ConnectError>(())
                })
            })
        })
        .collect();
    for thread in opening {
        thread.join().unwrap().unwrap();
    }
    let store = open(&url).await.unwrap();
    let mut reader = store.database.reader().await.unwrap();
    let versions: Vec<i64> = sqlx::query_scalar("SELECT version FROM workflow_schema")
        .fetch_all(reader.connection().unwrap())
        .await
        .unwrap();
    assert_eq!(versions, [1]);
}

#[cfg(unix)]
#[tokio::test]
async fn the_files_are_for_this_user_only() {
    use std::os::unix::fs::PermissionsExt;
    let f = Fixture::file().await;
    f.start().await;
    let mode = |name: &str| f.directory.path().join(name).metadata().unwrap().permissions().mode() & 0o777;
    for name in ["runs.db", "runs.db-wal", "runs.db-shm"] {
        assert_eq!(mode(name), 0o600, "{name}");
    }
}

#[tokio::test]
async fn unusable_databases_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let url = |name: &str| format!("sqlite://{}", directory.path().join(name).display());
    assert!(matches!(open(&url("missing/runs.db")).await, Err(ConnectError::NotWritable { .. })));
    assert!(matches!(open(&url("")).await, Err(ConnectError::NotAFile { .. })), "a directory");
    #[cfg(unix)]
    for device in ["/dev/null", "/dev/zero", "/dev/full"] {
        let opened = open(&format!("sqlite://{device}")).await.map(drop);
        assert!(matches!(opened, Err(ConnectError::NotAFile { .. })), "{device}: {opened:?}");
    }
    std::fs::write(directory.path().join("text.db"), "no database, but long enough to look ".repeat(100)).unwrap();
    assert!(matches!(open(&url("text.db")).await, Err(ConnectError::NotADatabase { .. })));
    let newer = open(&url("newer.db")).await.unwrap();
    let mut writer = newer.database.writer.lock().await.unwrap();
    sqlx::query("INSERT INTO workflow_schema VALUES (99)").execute(writer.connection().unwrap()).await.unwrap();
    drop(writer);
    assert!(matches!(open(&url("newer.db")).await, Err(ConnectError::NewerSchema { found: 99, .. })));
}

#[tokio::test]
async fn readers_cannot_write_and_writes_are_durable() {
    let f = Fixture::file().await;
    let mut reader = f.store.database.reader().await.unwrap();
    let connection = reader.connection().unwrap();
    assert!(sqlx::query("DELETE FROM workflow_runs").execute(&mut *connection).await.is_err());
    let mut writer = f.store.database.writer.lock().await.unwrap();
    let connection = writer.connection().unwrap();
    let level: i64 = sqlx::query_scalar("PRAGMA synchronous").fetch_one(&mut *connection).await.unwrap();
    let mode: String = sqlx::query_scalar("PRAGMA journal_mode").fetch_one(connection).await.unwrap();
    assert_eq!((level, mode.as_str()), (2, "wal"));
}

#[tokio::test]
async fn every_statement_prepares_and_says_what_it_is() {
    use sqlx::{Executor, SqlSafeStr, SqlStr};
    let f = Fixture::file().await;
    let mut writer = f.store.database.writer.lock().await.unwrap();
    sqlx::query(sql::CREATE_TRANSFER_TABLE).execute(writer.connection().unwrap()).await.unwrap();
    let scans = sql::SCANS.iter().flat_map(|(source, scan)| [(*source, scan.find_end), (*source, scan.list)]);
    for (file, statement) in sql::ALL.iter().copied().chain(scans) {
        let text: SqlStr = statement.into_sql_str();
        writer.connection().unwrap().prepare(text).await.unwrap_or_else(|error| panic!("{file}: {error}"));
        let header: Vec<&str> = statement.lines().take_while(|line| line.starts_with("-- ")).collect();
        let guarantees = header.iter().any(|line| line.starts_with("-- Guarantees: "));
        assert!(header[0].starts_with("-- Called by: ") && guarantees, "{file}");
        assert!(
            !statement.contains("LIMIT ?"),
            "{file}: a bare parameter as limit has SQLite prepare it at each use; write +?"
        );
    }
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/src/sql");
    // The two files that are put before a source, and the directory of the sources.
    assert_eq!(std::fs::read_dir(directory).unwrap().count(), sql::ALL.len() + 3);
}

/// The cost of a claim must not grow with the number of finished, sleeping or foreign runs, and the
/// cost of other statements must not grow with the number of runs. This must also hold if `ANALYZE`
/// found many runs of which none was running.
#[tokio::test]
async fn no_statement_of_the_engine_scans_the_runs() {
    let f = Fixture::file().await;
    plans_are_searches(&f).await;
    let fill = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
                INSERT INTO workflow_runs (id, workflow_name, lane_id, status, available_at, created_at, input)
                SELECT printf('01900000-0000-7000-8000-%012x', i), 'checkout', 1,
                       CASE i % 2 WHEN 0 THEN 'succeeded' ELSE 'parked' END, i, i, '7' FROM n;
                ANALYZE;";
    let mut writer = f.store.database.writer.lock().await.unwrap();
    sqlx::raw_sql(fill).execute(writer.connection().unwrap()).await.unwrap();
    drop(writer);
    plans_are_searches(&f).await;
}

async fn plans_are_searches(f: &Fixture) {
    let mut writer = f.store.database.writer.lock().await.unwrap();
    let due = "SEARCH workflow_runs USING COVERING INDEX workflow_runs_due (lane_id=? AND rank=? AND available_at<?)";
    let lapsed = "SEARCH workflow_runs USING INDEX workflow_runs_running (lane_id=? AND available_at<?)";
    let lane = "SEARCH l USING COVERING INDEX sqlite_autoindex_workflow_lanes_1 (queue=? AND workflow_name=? AND version=? AND gate=?)";
    let running = "SCAN workflow_runs USING COVERING INDEX workflow_runs_running";
    let late = "SEARCH workflow_runs USING INDEX workflow_runs_deadline (deadline_at>? AND deadline_at<?)";
    for (statement, expected) in [
        (sql::FIND_DUE_RUNS, due),
        (sql::FIND_DUE_RUNS, lapsed),
        (sql::FIND_NEXT_DUE, "SEARCH r USING COVERING INDEX workflow_runs_due (lane_id=? AND rank=?)"),
        (sql::FIND_NEXT_DUE, "SEARCH r USING INDEX workflow_runs_running (lane_id=?)"),
        (
            sql::FIND_DUE_LANES,
            "SEARCH r USING COVERING INDEX workflow_runs_due (lane_id=? AND rank=? AND available_at<?)",
        ),
        (sql::FIND_DUE_LANES, "SEARCH r USING INDEX workflow_runs_running (lane_id=? AND available_at<?)"),
        (sql::FIND_DUE_RUNS, &format!("{lane} LEFT-JOIN")),
        (sql::READ_SEATS, "SEARCH l USING INTEGER PRIMARY KEY (rowid=?)"),
        (sql::FIND_NEXT_DUE, lane),
        (sql::INSERT_RUNS, lane),
        (sql::CLAIM_RUNS, "SEARCH workflow_runs USING PRIMARY KEY (id=?)"),
        (sql::READ_CLAIMED, "SEARCH r USING PRIMARY KEY (id=?)"),
        (sql::READ_INPUTS, "SEARCH workflow_runs USING PRIMARY KEY (id=?)"),
        (sql::END_RUNS, "SEARCH workflow_runs USING PRIMARY KEY (id=?)"),
        (sql::PARK_RUNS, "SEARCH workflow_runs USING PRIMARY KEY (id=?)"),
        (sql::CONTINUE_RUNS, "SEARCH workflow_runs USING PRIMARY KEY (id=?)"),
        (sql::RETRY_RUNS, "SEARCH workflow_runs USING PRIMARY KEY (id=?)"),
        (sql::TERMINATE_RUNS, "SEARCH workflow_runs USING PRIMARY KEY (id=?)"),
        (sql::RENEW_CLAIMS, "SEARCH workflow_runs USING PRIMARY KEY (id=?)"),
        (sql::CANCEL_RUNS, "SEARCH workflow_runs USING PRIMARY KEY (id=?)"),
        (sql::UPSERT_HELD_ATTEMPTS, "SEARCH r USING PRIMARY KEY (id=?)"),
        (sql::READ_FENCE, "SEARCH r USING PRIMARY KEY (id=?) LEFT-JOIN"),
        (sql::READ_MISSING, "SEARCH r USING PRIMARY KEY (id=?)"),
        (sql::READ_ENDED, "SEARCH r USING PRIMARY KEY (id=?)"),
        (sql::RELEASE_UNKNOWN_CLAIMS, running),
        (sql::RELEASE_CLAIMS, running),
        (sql::EXPIRE_RUNS, late),
        (sql::EXPIRE_RUNS, "SEARCH l USING INTEGER PRIMARY KEY (rowid=?)"),
        (sql::RESUME_LATE_RUNS, late),
        (
            sql::FIND_SINGLE_RUNS,
            "SEARCH held USING INDEX workflow_runs_single (workflow_name=? AND single_key=? AND single_until=?)",
        ),
        (sql::SET_SINGLE_KEYS, "SEARCH workflow_runs USING PRIMARY KEY (id=?)"),
        (sql::CLEAR_SINGLE_KEYS, "SEARCH workflow_runs USING PRIMARY KEY (id=?)"),
        (sql::MOVE_RUNS, "SEARCH workflow_runs USING PRIMARY KEY (id=?)"),
        (sql::READ_LOST_SINGLE, "SEARCH workflow_runs USING PRIMARY KEY (id=?)"),
        (sql::FIND_STARTED_RUNS, "SEARCH r USING INDEX workflow_runs_key (workflow_name=? AND key=?)"),
        (sql::FIND_NEXT_DUE, "SEARCH t USING INDEX workflow_turns_open (base_id=?)"),
        (sql::FIND_NEXT_DUE, "SEARCH t USING COVERING INDEX workflow_turns_full (base_id=? AND full_until>?)"),
        (sql::COUNT_RUNNING, "SEARCH r USING COVERING INDEX workflow_runs_running (lane_id<?)"),
        (sql::COUNT_BEHIND, "SEARCH r USING COVERING INDEX workflow_runs_running (lane_id=?)"),
        (sql::FIND_DUE_LANES, "SEARCH t USING INDEX workflow_turns_open (base_id=? AND open_at<?)"),
        (sql::FIND_RUN, "SEARCH workflow_runs USING COVERING INDEX workflow_runs_key (workflow_name=? AND key=?)"),
        (sql::FIND_DELETED_RUNS, "SEARCH r USING PRIMARY KEY (id=?)"),
        (sql::FIND_DELETED_RUNS, "SEARCH a EXISTS USING PRIMARY KEY (run_id=? AND step_key=?)"),
        (sql::COUNT_ROWS_OF_RUNS, "SEARCH r USING PRIMARY KEY (id=?)"),
        (sql::DELETE_RUNS, "SEARCH workflow_runs USING PRIMARY KEY (id=?)"),
        (sql::DELETE_ATTEMPTS_OF_RUNS, "SEARCH step_attempts USING PRIMARY KEY (run_id=?)"),
        (sql::DELETE_SIGNALS_OF_RUNS, "SEARCH workflow_signals USING PRIMARY KEY (run_id=?)"),
    ] {
        let explain = sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"));
        let rows = sqlx::query(explain).fetch_all(writer.connection().unwrap()).await.unwrap();
        let plan: Vec<String> = rows.iter().map(|row| row.get("detail")).collect();
        assert!(plan.iter().any(|step| step == expected), "{statement}\n{plan:#?}");
        let scans = |step: &String| {
            step.starts_with("SCAN workflow_runs") && step != running
                || step == "SCAN r"
                || step.contains("TEMP B-TREE FOR ORDER BY")
        };
        assert!(!plan.iter().any(scans), "{statement}\n{plan:#?}");
    }
}

/// Each of the two sorts is over no more gates than the claim asks for.
#[tokio::test]
async fn a_claim_reads_no_more_gates_than_it_asks_for() {
    let f = Fixture::file().await;
    let mut writer = f.store.database.writer.lock().await.unwrap();
    let explain = sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {}", sql::FIND_DUE_GATES));
    let rows = sqlx::query(explain).fetch_all(writer.connection().unwrap()).await.unwrap();
    let plan: Vec<String> = rows.iter().map(|row| row.get("detail")).collect();
    for expected in [
        "SEARCH t USING INDEX workflow_turns_open (base_id=? AND open_at<?)",
        "SEARCH t USING INDEX workflow_turns_full (base_id=? AND full_until<?)",
    ] {
        assert!(plan.iter().any(|step| step == expected), "{plan:#?}");
    }
    assert_eq!(plan.iter().filter(|step| step.contains("TEMP B-TREE FOR ORDER BY")).count(), 2, "{plan:#?}");
}

#[tokio::test]
async fn a_run_starts_within_the_applications_transaction() {
    let f = Fixture::file().await;
    let path = f.directory.path().join("runs.db");
    let mut own = sqlx::SqliteConnection::connect(&format!("sqlite://{}", path.display())).await.unwrap();
    let (kept, dropped) = (new_run(), new_run());
    for (run, keep) in [(&kept, true), (&dropped, false)] {
        let mut transaction = own.begin().await.unwrap();
        let outcome = f.store.write_within(&mut transaction, false, &Write::Start(run.clone())).await.unwrap();
        assert!(matches!(outcome, Outcome::Started(StartOutcome::Created)), "{outcome:?}");
        if keep { transaction.commit().await.unwrap() } else { transaction.rollback().await.unwrap() }
    }
    assert!(f.store.run(kept.id).await.unwrap().is_some());
    assert!(f.store.run(dropped.id).await.unwrap().is_none());
    let twin = Fixture::file().await;
    let error = twin.store.write_within(&mut own, false, &Write::Start(kept.clone())).await.unwrap_err();
    assert_eq!(error.kind, DatabaseErrorKind::Invalid, "it has our tables, but it is another file");
    let mut foreign = sqlx::SqliteConnection::connect("sqlite::memory:").await.unwrap();
    let error = f.store.write_within(&mut foreign, false, &Write::Start(kept)).await.unwrap_err();
    assert_eq!(error.kind, DatabaseErrorKind::Invalid);
    assert!(error.source.to_string().contains("another database file"));
}

#[tokio::test]
async fn a_closed_store_answers_unreachable() {
    for f in [Fixture::file().await, Fixture::memory().await] {
        let store: Arc<dyn Store> = Arc::new(f.store);
        store.close().await;
        assert_eq!(store.list(&RunFilter::new()).await.unwrap_err().kind, DatabaseErrorKind::Unreachable);
        let start = workflow_engine::store::Write::Start(new_run());
        assert_eq!(store.commit(&[start]).await.unwrap_err().kind, DatabaseErrorKind::Unreachable);
        assert!(store.listen().await.is_err() && store.hint().await.is_err());
    }
}
