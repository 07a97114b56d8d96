use std::collections::BTreeSet;
use std::path::Path;

use tokio::process::Command;
use workflow_engine::store::StoreOptions;
use workflow_sdk::ConnectError;
use workflow_tests::builders::new_run;
use workflow_tests::{Database, Empty, Fixture};

const TABLES: &[&str] = &[
    "workflow_lanes",
    "workflow_runs",
    "step_attempts",
    "workflow_signals",
    "workflow_tags",
    "workflow_event_waits",
    "workflow_queues",
    "workflow_limits",
    "workflow_seats",
    "workflow_line_rates",
    "workflow_workers",
    "workflow_schedules",
    "workflow_schema",
    "workflow_gates",
    "workflow_turns",
    "workflow_audit",
    "workflow_stats",
    "workflow_failures",
    "workflow_source_lines",
    "workflow_bulk",
];

/// The table of wakes of gates, which only PostgreSQL needs: no transaction of SQLite waits for
/// another one's.
const TABLE_OF_WAKES: &str = "workflow_gate_wakes";

fn tables(url: &str) -> BTreeSet<String> {
    let wakes = Some(TABLE_OF_WAKES).filter(|_| url.starts_with("postgres"));
    TABLES.iter().copied().chain(wakes).map(str::to_owned).collect()
}

pub async fn connecting_again_changes_nothing(fixture: Fixture) {
    let claim = fixture.held().await;
    let before = fixture.snapshot(claim.run_id).await;
    let names = fixture.raw().await.table_names().await;
    assert_eq!(names, tables(&fixture.empty().url()));
    for _ in 0..3 {
        let again = fixture.connect().await.expect("connect again");
        assert_eq!(again.run(claim.run_id).await.unwrap().as_ref(), Some(&before.0));
        again.close().await;
    }
    assert_eq!(fixture.snapshot(claim.run_id).await, before);
    assert_eq!(fixture.raw().await.table_names().await, names);
}

pub async fn concurrent_connects_migrate_once(fixture: Fixture) {
    let empty = fixture.empty();
    let connects: Vec<_> = (0..16)
        .map(|_| {
            let (url, options) = (empty.url(), empty.options());
            tokio::spawn(async move { workflow_sdk::internal::connect(&url, options).await })
        })
        .collect();
    let mut handles = Vec::new();
    for connect in connects {
        handles.push(connect.await.unwrap().expect("each connects"));
    }
    let run = new_run();
    handles[0].commit(&[workflow_tests::builders::start(&run)]).await.unwrap();
    for handle in &handles {
        assert!(handle.run(run.id).await.unwrap().is_some());
    }
    for handle in handles {
        handle.close().await;
    }
    is_migrated_once(&empty).await;
    empty.sweep().await;
}

pub async fn sixteen_processes_migrate_once(fixture: Fixture) {
    let empty = fixture.empty();
    let processes: Vec<_> = (0..16)
        .map(|_| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_migrate"));
            command.arg(empty.url()).arg(empty.options().schema).kill_on_drop(true);
            tokio::spawn(async move { command.output().await })
        })
        .collect();
    for process in processes {
        let output = process.await.unwrap().expect("run the program");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    is_migrated_once(&empty).await;
    empty.sweep().await;
}

pub async fn a_connect_that_may_not_migrate_changes_nothing(fixture: Fixture) {
    let empty = fixture.empty();
    let checking = |options: StoreOptions| StoreOptions { migrate: false, ..options };
    let refused = workflow_sdk::internal::connect(&empty.url(), checking(empty.options())).await;
    match (fixture.database, refused) {
        (Database::Sqlite, Err(ConnectError::NoFile { path })) => assert!(!Path::new(&path).exists()),
        (Database::Postgres, Err(ConnectError::NotMigrated { found: 0, .. })) => {}
        (_, other) => panic!("{other:?}"),
    }
    // The tables are there: nothing has to be made.
    let store = workflow_sdk::internal::connect(&fixture.url(), checking(fixture.options())).await.expect("connect");
    store.close().await;
    let mut raw = fixture.raw().await;
    let known = raw.number("SELECT max(version) FROM workflow_schema").await;
    raw.execute("DELETE FROM workflow_schema").await;
    match workflow_sdk::internal::connect(&fixture.url(), checking(fixture.options())).await {
        Err(ConnectError::NotMigrated { found: 0, known: needed, .. }) => assert_eq!(needed, known),
        other => panic!("{other:?}"),
    }
    assert_eq!(raw.number("SELECT count(*) FROM workflow_schema").await, 0);
}

async fn is_migrated_once(place: &Empty) {
    let mut raw = place.raw().await;
    assert_eq!(raw.table_names().await, tables(&place.url()));
    let versions = raw.number("SELECT count(*) FROM workflow_schema").await;
    let newest = raw.number("SELECT max(version) FROM workflow_schema").await;
    assert_eq!(versions, newest, "each version is recorded once");
}

pub async fn a_newer_schema_is_refused(fixture: Fixture) {
    let claim = fixture.held().await;
    let before = fixture.snapshot(claim.run_id).await;
    let mut raw = fixture.raw().await;
    let known = raw.number("SELECT max(version) FROM workflow_schema").await;
    let names = raw.table_names().await;
    raw.execute("UPDATE workflow_schema SET version = version + 1000").await;
    for _ in 0..2 {
        match fixture.connect().await {
            Err(ConnectError::NewerSchema { found, known: latest }) => {
                assert_eq!((found, latest), (known + 1000, known))
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(raw.number("SELECT max(version) FROM workflow_schema").await, known + 1000);
    assert_eq!(raw.table_names().await, names);
    // Open connections continue to work, because workers of the previous release must keep running
    // through a migration.
    assert_eq!(fixture.snapshot(claim.run_id).await, before);
}

pub async fn the_schema_of_an_unreleased_version_is_refused(fixture: Fixture) {
    let mut raw = fixture.raw().await;
    // Versions before the first release had the other tables, but none for lanes.
    raw.execute("DROP TABLE workflow_lanes").await;
    let names = raw.table_names().await;
    for _ in 0..2 {
        let error = fixture.connect().await.map(|_| ()).expect_err("the schema is refused");
        assert!(matches!(error, ConnectError::UnreleasedSchema { .. }), "{error:?}");
        assert!(error.to_string().contains("use a new database or schema"), "{error}");
    }
    assert_eq!(raw.table_names().await, names, "nothing was changed");
}
