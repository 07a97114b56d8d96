//! The faults that `workflow doctor` finds, each made on a real database.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::Shell;
use serde_json::Value;
use workflow_sdk::operate::DatabaseView;
use workflow_tests::{Database, Live, RawConnection};

/// Returns the findings of `workflow doctor`, one a line: level, fact, and fix.
fn findings(shell: &Shell) -> Vec<String> {
    let output = shell.run(&["doctor", "--json"]);
    let told = String::from_utf8(output.stdout).unwrap();
    let found: Vec<Value> = serde_json::from_str(&told).unwrap_or_else(|error| panic!("{error}: {told}"));
    let text = |finding: &Value, field: &str| finding[field].as_str().unwrap_or_default().to_owned();
    let line = |finding: &Value| ["level", "fact", "fix"].map(|field| text(finding, field)).join("|");
    let found: Vec<String> = found.iter().map(line).collect();
    let is_bad = found.iter().any(|line| line.starts_with("bad|"));
    assert_eq!(output.status.code(), Some(i32::from(is_bad)), "{found:?}");
    found
}

/// Returns the one finding with these words.
fn finding<'f>(found: &'f [String], words: &str) -> &'f str {
    let mut with_words = found.iter().filter(|line| line.contains(words));
    let line = with_words.next().unwrap_or_else(|| panic!("not {words:?} in {found:?}"));
    assert!(with_words.next().is_none(), "{words:?} twice in {found:?}");
    line
}

async fn facts(live: &Live) -> DatabaseView {
    live.client.operate().system().await.unwrap().database
}

async fn faults_that_can_be_made_are_found(database: Database, by_server: bool) {
    let live = Live::new(database).await;
    let shell = if by_server { Shell::over_http(&live).await } else { Shell::of(&live) };
    let kind = if database == Database::Sqlite { "SQLite" } else { "PostgreSQL" };
    let found = findings(&shell);
    assert!(found[0].starts_with(&format!("ok|{kind} ")) && found[0].contains(", schema level 1, "), "{found:?}");
    assert!(!found.iter().any(|line| line.contains("6000") || line.contains("gate ")), "{found:?}");

    shell.says(&["limits", "set", "llm", "--concurrency", "6000"]);
    shell.says(&["queues", "limit", "mail", "--concurrency", "6000"]);
    let found = findings(&shell);
    let of_limit = finding(&found, "limit llm is 6000");
    assert!(of_limit.starts_with("warn|") && of_limit.contains("limits set llm --concurrency 5000"), "{of_limit}");
    let of_queue = finding(&found, "limit of queue mail is 6000");
    assert!(of_queue.starts_with("warn|") && of_queue.contains("queues limit mail"), "{of_queue}");

    // The run has been due for two minutes, and claims are told to look at its gate in a year.
    shell.says(&["runs", "start", "without_code", "--queue", "mail", "--gate", "acct-42"]);
    let mut raw = live.raw().await;
    raw.execute("UPDATE workflow_runs SET available_at = available_at - 120000000 WHERE lane_id < 0").await;
    assert!(!findings(&shell).iter().any(|line| line.contains("no claim looks")), "the next claim looks at it");
    raw.execute("UPDATE workflow_turns SET open_at = 253402300799999999").await;
    if database == Database::Postgres {
        raw.execute("DELETE FROM workflow_gate_wakes").await;
    }
    let found = findings(&shell);
    let asleep = finding(&found, "no claim looks at gate acct-42 of queue mail");
    assert!(asleep.starts_with("bad|") && asleep.contains("been due for 2 min"), "{asleep}");
    // The fix that it names.
    shell.says(&["queues", "limit", "mail", "--concurrency", "100"]);
    assert!(!findings(&shell).iter().any(|line| line.contains("no claim looks")), "its gates are awake");
    drop(raw);
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_that_can_be_made_are_found_on_sqlite() {
    faults_that_can_be_made_are_found(Database::Sqlite, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_that_can_be_made_are_found_on_postgres() {
    faults_that_can_be_made_are_found(Database::Postgres, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_that_can_be_made_are_found_by_a_server() {
    faults_that_can_be_made_are_found(Database::Sqlite, true).await;
}

/// A program that connects is refused by such a schema. A server that was connected before is not.
async fn another_schema_level_is_found_by_a_server(database: Database) {
    let live = Live::new(database).await;
    let shell = Shell::over_http(&live).await;
    let mut raw = live.raw().await;
    let known = raw.number("SELECT max(version) FROM workflow_schema").await;
    let later = known + 1000;
    raw.execute("UPDATE workflow_schema SET version = version + 1000").await;
    let found = findings(&shell);
    let newer = finding(&found, &format!("the schema has level {later}"));
    assert!(newer.starts_with("warn|") && newer.contains(&format!("levels up to {known}")), "{newer}");
    raw.execute(format!("UPDATE workflow_schema SET version = version - {later}")).await;
    let found = findings(&shell);
    let older = finding(&found, &format!("needs level {known}"));
    assert!(older.starts_with("bad|") && older.ends_with("workflow migrate"), "{older}");
    drop(raw);
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_schema_level_is_found_by_a_server_on_sqlite() {
    another_schema_level_is_found_by_a_server(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_schema_level_is_found_by_a_server_on_postgres() {
    another_schema_level_is_found_by_a_server(Database::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_tells_its_settings() {
    let live = Live::new(Database::Sqlite).await;
    let facts = facts(&live).await;
    assert_eq!((facts.clock_ahead_millis, &facts.postgres), (None, &None), "it has no clock of its own");
    assert!(facts.bytes.is_some_and(|bytes| bytes > 4096));
    let sqlite = facts.sqlite.unwrap();
    assert_eq!((sqlite.journal_mode.as_str(), sqlite.synchronous.as_deref()), ("wal", Some("full")));
    assert!(sqlite.wal_bytes.is_some_and(|bytes| bytes > 0) && sqlite.free_bytes.is_some(), "{sqlite:?}");
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_tells_its_tables_and_its_oldest_transaction() {
    let live = Live::new(Database::Postgres).await;
    let mut raw: RawConnection = live.raw().await;
    raw.execute("BEGIN").await;
    let own = "FROM pg_stat_activity WHERE pid = pg_backend_pid()";
    let pid = raw.number(format!("SELECT pid::bigint {own}")).await;
    let age = format!("SELECT (extract(epoch FROM clock_timestamp() - xact_start) * 1000)::bigint {own}");
    let age = raw.number(age).await;
    let facts = facts(&live).await;
    assert!(facts.clock_ahead_millis.is_some_and(|ahead| ahead.abs() < 1_000), "one host has one clock: {facts:?}");
    assert!(facts.sqlite.is_none() && facts.refused.is_empty() && facts.bytes.is_some_and(|bytes| bytes > 8192));
    let postgres = facts.postgres.unwrap();
    // Other tests have transactions on this server, too, and one of them may be older.
    let oldest = postgres.oldest_transaction.as_ref().expect("a transaction is open");
    assert!(i64::from(oldest.pid) == pid || oldest.age_millis >= age, "{oldest:?}");
    let tables: Vec<&str> = postgres.tables.iter().map(|table| table.name.as_str()).collect();
    assert!(tables.contains(&"workflow_runs") && tables.contains(&"step_attempts"), "{tables:?}");
    assert_eq!((&postgres.missing_rights, postgres.hidden_sessions), (&Vec::new(), 0), "the owner may do all");
    raw.execute("ROLLBACK").await;
    drop(raw);
    live.sweep().await;
}

/// A role that only reads gets the findings of others, and is told what it lacks and does not see.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_with_few_rights_is_told_what_it_lacks() {
    let live = Live::new(Database::Postgres).await;
    let schema = live.schema().unwrap().to_owned();
    let role = format!("{schema}_r");
    let mut raw = live.raw().await;
    raw.execute(format!(
        "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {role};
         GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}"
    ))
    .await;
    let url = live.url();
    let (_, server) = url.split_once('@').expect("a URL with a user");
    let shell = Shell { url: format!("postgres://{role}@{server}"), schema: Some(schema), token: None };
    let found = findings(&shell);
    let rights = finding(&found, "could not run a worker");
    assert!(rights.contains(&format!("role {role}")) && rights.contains("DELETE, INSERT, UPDATE on step_attempts"));
    let hidden = finding(&found, "are hidden from role");
    assert!(hidden.starts_with("ok|") && hidden.ends_with(&format!("GRANT pg_read_all_stats TO {role}")), "{hidden}");
    raw.execute(format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
    drop(raw);
    live.sweep().await;
}
