//! `workflow move`, as its users call it: refusals with their exit codes, and a kill in the middle.

use std::process::{Command, Output, Stdio};

use serde_json::Value;
use workflow_flows::{InboxMessage, InboxStore, KbDocument, KbSearch, KbStore, SecretStore, Secrets};
use workflow_sdk::{Encryption, EncryptionKey, RunFilter, TransferReport};
use workflow_tests::{Database, Live, until};

/// The database of this test, as an argument. Two databases of one test have one schema at most.
fn program(arguments: &[&str], schema: Option<&str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_workflow"));
    for name in ["WORKFLOW_DATABASE_URL", "WORKFLOW_TOKEN", "WORKFLOW_SCHEMA", "NO_COLOR"] {
        command.env_remove(name);
    }
    if let Some(schema) = schema {
        command.env("WORKFLOW_SCHEMA", schema);
    }
    command.args(arguments).stdin(Stdio::null());
    command
}

#[track_caller]
fn check(output: &Output, code: i32, words: &str) {
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let shown = format!("{:?}\n--- stdout\n{stdout}\n--- stderr\n{stderr}", output.status);
    assert_eq!(output.status.code(), Some(code), "{shown}");
    assert!(stdout.contains(words) || stderr.contains(words), "not {words:?} in {shown}");
}

/// Starts runs that no worker serves.
async fn fill(live: &Live, runs: usize) {
    let starts = (0..runs).map(|number| {
        let start = live.client.start_by_name("checkout", &number.into());
        start.key(format!("order-{number}")).tag("number", number.to_string()).into_future()
    });
    for started in futures::future::join_all(starts).await {
        started.unwrap();
    }
}

const ENTRIES: usize = 40;

async fn secrets(url: &str) -> SecretStore {
    let key = EncryptionKey::new("k1", [7; 32]).unwrap();
    SecretStore::connect(url, Encryption::new(key)).await.unwrap()
}

/// Writes into the tables that flows have.
async fn fill_tables_of_flows(url: &str) {
    let (kb, inbox) = (KbStore::connect(url).await.unwrap(), InboxStore::connect(url).await.unwrap());
    for number in 0..ENTRIES {
        kb.put(&KbDocument::new("support", format!("t-{number}"), "Jam", "Empty the tray.").tag("paper"))
            .await
            .unwrap();
        inbox.put(&InboxMessage::new(format!("run-{number}"), "Resolved.")).await.unwrap();
    }
    kb.put(&KbDocument::new("support", "t-3", "Smoke", "Turn it off.")).await.unwrap();
    secrets(url).await.set("", "bank", "t0ken").await.unwrap();
}

/// Asserts that the tables that flows have are equal, and that they may be copied again.
async fn tables_of_flows_are_equal(from: &str, to: &str) {
    assert_eq!(KbStore::transfer(from, to).await.unwrap(), ENTRIES);
    assert_eq!(InboxStore::transfer(from, to).await.unwrap(), ENTRIES);
    assert_eq!(SecretStore::transfer(from, to).await.unwrap(), 1);
    assert_eq!(secrets(to).await.get("ann", "bank").await.unwrap().as_deref(), Some("t0ken"));
    let read = async |url: &str| {
        let (kb, inbox) = (KbStore::attach(url).await.unwrap(), InboxStore::attach(url).await.unwrap());
        let written = kb.find("support", "t-3").await.unwrap().unwrap();
        let found = kb.search(&KbSearch::new("smoke").unwrap()).await.unwrap();
        let messages = inbox.list(None, false, None, 200).await.unwrap();
        (written, found, messages)
    };
    let (original, copy) = (read(from).await, read(to).await);
    assert_eq!(copy, original);
    assert_eq!((copy.0.revision, copy.1.len(), copy.2.len()), (2, 1, ENTRIES));
}

/// Kills a move in the middle, and orders it again.
async fn a_killed_move_goes_on(from: Database, to: Database) {
    let (source, target) = (Live::new(from).await, Live::new(to).await);
    let schema = source.schema().or(target.schema()).map(str::to_owned);
    fill(&source, 3000).await;
    let (from, to) = (source.url_of_tables(), target.url_of_tables());
    fill_tables_of_flows(&from).await;
    let order = ["move", "--from", &from, "--to", &to, "--json"];
    let slow = [&order[..], &["--most-rows", "10"]].concat();
    let mut child = program(&slow, schema.as_deref()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut raw = target.raw().await;
    let begun = async || (raw.number("SELECT count(*) FROM workflow_runs").await > 0).then_some(());
    until("the copy has begun", begun).await;
    child.kill().unwrap();
    let killed = child.wait().unwrap();
    let copied = raw.number("SELECT count(*) FROM workflow_runs").await;
    assert!(!killed.success() && copied < 3000, "{copied} runs were copied before the kill: {killed}");

    let (old, new) = (from.clone(), to.clone());
    let moved = tokio::task::spawn_blocking(move || {
        let order = ["move", "--from", &from, "--to", &to, "--json"];
        let moved = program(&order, schema.as_deref()).output().unwrap();
        check(&program(&order, schema.as_deref()).output().unwrap(), 1, "was moved to");
        moved
    });
    let moved = moved.await.unwrap();
    check(&moved, 0, "40 documents of the knowledge base, 40 messages of the inbox, 1 secrets of flows");
    tables_of_flows_are_equal(&old, &new).await;
    let report: TransferReport = serde_json::from_slice(&moved.stdout).unwrap();
    assert!(report.resumed);
    let rows = |table: &str| report.tables.iter().find(|found| found.table == table).unwrap().rows;
    assert_eq!((rows("workflow_runs"), rows("workflow_tags")), (3000, 3000));
    let tagged = target.client.list(&RunFilter::new().tag("number", "2999")).await.unwrap();
    assert_eq!(tagged[0].key.as_deref(), Some("order-2999"));
    source.sweep().await;
    target.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_move_goes_on_from_sqlite_to_postgres() {
    a_killed_move_goes_on(Database::Sqlite, Database::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_move_goes_on_from_postgres_to_sqlite() {
    a_killed_move_goes_on(Database::Postgres, Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_of_files_is_refused_undone_and_done() {
    let source = Live::new(Database::Sqlite).await;
    fill(&source, 1).await;
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (from, to, used) = (source.url(), path("to.db"), path("used.db"));
    let run = |arguments: &[&str]| program(arguments, None).output().unwrap();

    check(&run(&["move", "--from", &from]), 2, "no database is named");
    check(&run(&["move", "--to", &to]), 2, "--from");
    check(&run(&["move", "--from", &from, "--to", &from]), 2, "cannot be moved to itself");
    check(&run(&["move", "--from", &from, "--to", "http://localhost"]), 2, "cannot ask a server");
    check(&run(&["move", "--from", "sqlite::memory:", "--to", &to]), 2, "in the memory of a process");
    check(&run(&["move", "--from", &path("none.db"), "--to", &to]), 9, "there is no database file");
    check(&run(&["move", "--from", &from, "--undo"]), 1, "there is nothing to undo");
    check(&run(&["move", "--from", &from, "--yes"]), 2, "--undo");
    assert!(run(&["migrate", "--to", &used]).status.success());
    assert!(run(&["runs", "start", "checkout", "--to", &used]).status.success());
    check(&run(&["move", "--from", &from, "--to", &used]), 1, "has rows in workflow_lanes");

    let moved = run(&["move", "--from", &from, "--to", &to]);
    check(&moved, 0, "workflow_runs");
    check(&run(&["runs", "start", "checkout", "--to", &from]), 9, "was moved to another database");
    check(&run(&["move", "--from", &from, "--to", &to]), 1, "was moved to");
    check(&run(&["doctor", "--to", &from]), 1, "this database was moved to ");
    check(&run(&["move", "--from", &from, "--undo"]), 1, "--undo --yes");
    check(&run(&["move", "--from", &from, "--undo", "--yes"]), 0, "is open again");
    assert!(!String::from_utf8_lossy(&run(&["doctor", "--to", &from]).stdout).contains("was moved"));
    assert!(run(&["runs", "start", "checkout", "--to", &from]).status.success());
    let counts = run(&["counts", "--json", "--to", &to]);
    let counts: Value = serde_json::from_slice(&counts.stdout).unwrap();
    assert_eq!(counts["pending"]["runs"], 1, "{counts}");
    source.sweep().await;
}
