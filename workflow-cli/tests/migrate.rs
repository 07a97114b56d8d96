//! `workflow migrate` and `workflow version`, as their users call them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Shell, check, program};
use serde_json::{Value, json};
use workflow_tests::{Database, Empty, RawConnection};

/// A migration is shown before it is made, and made by another tool from its SQL.
async fn a_migration_is_shown_and_made_by_another_tool(database: Database) {
    let empty = Empty::of(database);
    let schema = (database == Database::Postgres).then(|| empty.options().schema);
    let shell = Shell { url: empty.url(), schema: schema.clone(), token: None };
    let says_json = |arguments: &[&str]| -> Value { serde_json::from_str(&shell.says(arguments)).unwrap() };

    shell.check(&["migrate", "--dry-run"], 0, "there are no tables; migrate would create them", "");
    assert_eq!(says_json(&["migrate", "--dry-run", "--json"]), json!({ "current": false, "found": 0 }));
    let script = shell.says(&["migrate", "--print-sql"]);
    shell.check(&["counts"], 9, "", "migrate");
    shell.check(&["migrate", "--dry-run", "--print-sql"], 2, "", "cannot be used with");

    let url = if schema.is_none() { format!("{}?mode=rwc", empty.url()) } else { empty.url() };
    let mut raw = RawConnection::open(&url, schema.as_deref()).await;
    raw.execute(&script).await;
    assert_eq!(raw.number("SELECT count(*) FROM workflow_runs").await, 0);
    drop(raw);

    shell.check(&["migrate", "--dry-run"], 0, "the tables are up to date", "");
    assert_eq!(says_json(&["migrate", "--dry-run", "--json"]), json!({ "current": true, "found": null }));
    shell.check(&["migrate", "--print-sql"], 0, "", "nothing to execute");
    shell.check(&["counts", "--json"], 0, "\"due\"", "");
    shell.check(&["migrate"], 0, "", "the tables are up to date");
    empty.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_is_shown_and_made_by_another_tool_on_sqlite() {
    a_migration_is_shown_and_made_by_another_tool(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_is_shown_and_made_by_another_tool_on_postgres() {
    a_migration_is_shown_and_made_by_another_tool(Database::Postgres).await;
}

#[test]
fn the_program_says_its_version() {
    let version = env!("CARGO_PKG_VERSION");
    let says = |arguments: &[&str]| program(arguments).output().unwrap();
    check(&["version"], &says(&["version"]), 0, &format!("workflow {version}"), "");
    check(&["--version"], &says(&["--version"]), 0, &format!("workflow {version}"), "");
    let shown: Value = serde_json::from_slice(&says(&["version", "--json"]).stdout).unwrap();
    assert_eq!(shown, json!({ "program": "workflow", "version": version }));
}
