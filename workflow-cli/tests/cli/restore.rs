//! A backup that is made while a worker lives, restored an hour later under a new worker.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Shell, check, fails, piped};
use serde_json::Value;
use workflow_sdk::prelude::*;
use workflow_sdk::{AttemptStatus, Client};
use workflow_tests::until::LookAgain;
use workflow_tests::{Database, Live, LocalWorker, Probe, RawConnection, until};
use workflow_worker::Worker;

/// The time between the backup and the restore, in microseconds.
const HOUR: i64 = 3_600_000_000;

#[workflow]
async fn ships(ctx: &Ctx<Probe>, order: String) -> Result<String> {
    ctx.step("reserve", async || {
        ctx.state().note(format!("reserve {order}"));
        ok(())
    })
    .await?;
    ctx.step("charge", async || {
        ctx.state().note(format!("charge {order}"));
        ctx.state().pass(&order).await;
        ok(())
    })
    .await?;
    ctx.step("mail", async || {
        ctx.state().note(format!("mail {order}"));
        ok(())
    })
    .await?;
    Ok(order)
}

/// The programs of PostgreSQL, as the server of the tests has them.
fn postgres_program(name: &str) -> PathBuf {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/postgres");
    let found = Command::new(script).arg("--find").output().unwrap();
    let beside = Path::new(String::from_utf8(found.stdout).unwrap().trim()).join(name);
    if beside.exists() { beside } else { name.into() }
}

fn succeeds(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {output:?}");
}

/// A backup as a file, by the commands of `docs/guide/backup.md`.
async fn back_up(live: &Live, file: &Path) {
    match live.schema() {
        None => live.raw().await.execute(format!("VACUUM INTO '{}'", file.display())).await,
        Some(schema) => {
            let mut dump = Command::new(postgres_program("pg_dump"));
            dump.args(["--format=custom", "--schema", schema, "--file"]).arg(file).arg(live.url());
            succeeds(&mut dump);
        }
    }
}

/// A database that was made from a backup.
struct Restored {
    url: String,
    schema: Option<String>,
}

impl Restored {
    async fn new(live: &Live, backup: &Path) -> Self {
        let Some(name) = live.schema() else {
            let file = backup.with_file_name("restored.db");
            std::fs::copy(backup, &file).unwrap();
            return Self { url: format!("sqlite://{}", file.display()), schema: None };
        };
        // A database of its own, in which the schema has its old name.
        live.raw().await.execute(format!("CREATE DATABASE {name}")).await;
        let url = live.url();
        let (server, _) = url.rsplit_once('/').expect("a URL with a database");
        let url = format!("{server}/{name}");
        let mut restore = Command::new(postgres_program("pg_restore"));
        succeeds(restore.args(["--exit-on-error", "--dbname", &url]).arg(backup));
        Self { url, schema: Some(name.to_owned()) }
    }

    /// Lets an hour pass since the backup.
    async fn age(&self) {
        let mut raw = RawConnection::open(&self.url, self.schema.as_deref()).await;
        raw.execute(format!(
            "UPDATE workflow_runs SET available_at = available_at - {HOUR} WHERE status = 'running';
             UPDATE workflow_workers SET started_at = started_at - {HOUR}"
        ))
        .await;
    }

    fn shell(&self) -> Shell {
        Shell { url: self.url.clone(), schema: self.schema.clone(), token: None }
    }

    async fn client(&self) -> Client {
        let connect = Client::connect(self.url.as_str());
        let connect = match &self.schema {
            Some(schema) => connect.schema(schema.as_str()),
            None => connect,
        };
        connect.observer(LookAgain).await.unwrap()
    }

    async fn remove(self, live: &Live) {
        if let Some(name) = &self.schema {
            live.raw().await.execute(format!("DROP DATABASE {name} WITH (FORCE)")).await;
        }
    }
}

/// Returns the findings of one subject.
fn about<'f>(found: &'f [Value], subject: &str) -> Vec<&'f Value> {
    found.iter().filter(|finding| finding["subject"] == subject).collect()
}

/// Runs the doctor on the restored database, with these lines as the records of the application.
fn examine(shell: &Shell, more: &[&str], records: &str, code: i32) -> Vec<Value> {
    let arguments = [&["doctor", "--json", "--after-restore", "-"][..], more].concat();
    let output = piped(shell.command(&arguments), records);
    check(&arguments, &output, code, "subject", "");
    serde_json::from_slice(&output.stdout).unwrap()
}

async fn a_restored_backup_says_what_it_lacks_and_repeats_no_outcome(database: Database) {
    let live = Live::new(database).await;
    let probe = Probe::new();
    let worker = LocalWorker::start(live.worker(probe.clone()).register(ships));
    probe.open("order-1");
    let first = live.client.start(ships, "order-1".into()).key("order-1").await.unwrap();
    first.result().await.unwrap();
    let second = live.client.start(ships, "order-2".into()).key("order-2").await.unwrap();
    until("the step is recorded as begun", async || {
        let history = second.history().await.unwrap();
        let begun = history.iter().any(|row| row.step_key == "charge" && row.status == AttemptStatus::Running);
        begun.then_some(())
    })
    .await;
    let directory = tempfile::tempdir().unwrap();
    let backup = directory.path().join("backup");
    back_up(&live, &backup).await;

    // The system goes on, and is lost.
    probe.open("order-2");
    second.result().await.unwrap();
    probe.open("order-3");
    let third = live.client.start(ships, "order-3".into()).key("order-3").await.unwrap();
    third.result().await.unwrap();
    worker.stop().await;
    let restored = Restored::new(&live, &backup).await;
    restored.age().await;
    let shell = restored.shell();

    let found = examine(&shell, &[], "", 0);
    assert!(about(&found, "missing").is_empty() && about(&found, "behind").is_empty(), "{found:?}");
    let [in_flight] = about(&found, "in_flight")[..] else { panic!("one run was in flight: {found:?}") };
    assert_eq!(in_flight["run"], second.id().to_string());
    assert_eq!(in_flight["steps"], serde_json::json!(["charge"]), "{in_flight}");

    let records = format!(
        "order-1\tsucceeded\norder-2\tsucceeded\norder-3\n{}\n{}\n",
        third.id(),
        serde_json::json!({"fields": {"event": "step_ended", "run_id": second.id(), "step": "charge"}}),
    );
    let plain = "line 2 of \"-\" is not understood: the text has spaces";
    for (line, says) in [("{no JSON", "line 2"), ("INFO workflow: run ended", plain)] {
        let command = shell.command(&["doctor", "--after-restore", "-", "--hold"]);
        let refused = piped(command, &format!("order-1\n{line}\n"));
        check(&[line], &refused, 2, "", says);
        check(&[line], &refused, 2, "", "write a run id or a key, alone or with a tab");
    }
    assert!(!shell.says(&["queues", "list"]).contains("paused"), "a file that is refused changes nothing");
    let found = examine(&shell, &["--hold"], &records, 1);
    let missing: Vec<(Option<&str>, Option<&str>)> =
        about(&found, "missing").iter().map(|one| (one["key"].as_str(), one["run"].as_str())).collect();
    let third_id = third.id().to_string();
    assert!(
        missing.contains(&(Some("order-3"), None)) && missing.contains(&(None, Some(third_id.as_str()))),
        "{found:?}"
    );
    assert_eq!(missing.len(), 2, "the others are in the backup: {found:?}");
    let [behind] = about(&found, "behind")[..] else { panic!("one run is behind: {found:?}") };
    assert_eq!((&behind["run"], &behind["steps"]), (&second.id().to_string().into(), &serde_json::json!(["charge"])));
    let fact = behind["fact"].as_str().unwrap();
    assert!(fact.contains("is running in the backup and succeeded outside: step charge runs again"), "{fact}");
    assert!(about(&found, "in_flight").is_empty(), "more is known of the run: {found:?}");

    // A worker begins nothing that is held, although it works.
    let (client, again) = (restored.client().await, Probe::new());
    let worker = Worker::new(client.clone(), again.clone()).register(ships).queues(["default", "other"]);
    let worker = LocalWorker::start(worker);
    again.open("order-4");
    client.start(ships, "order-4".into()).queue("other").await.unwrap().result().await.unwrap();
    assert_eq!(again.times("charge order-2"), 0, "its queue is held");
    let living = examine(&shell, &[], "", 1);
    assert_eq!(about(&living, "workers").len(), 1, "{living:?}");

    // Each step without an outcome in the backup runs again, and no other one.
    shell.check(&["doctor", "--release"], 0, "", "1 queue and 0 schedules go on");
    again.open("order-2");
    let second = client.start(ships, "order-2".into()).key("order-2").await.unwrap();
    assert!(second.existed());
    assert_eq!(second.result().await.unwrap(), "order-2");
    let times = ["reserve", "charge", "mail"].map(|step| again.times(&format!("{step} order-2")));
    assert_eq!(times, [0, 1, 1], "{:?}", again.notes());
    again.open("order-3");
    let third = client.start(ships, "order-3".into()).key("order-3").await.unwrap();
    assert!(!third.existed(), "the run is gone with its key");
    third.result().await.unwrap();
    assert!(again.notes().iter().all(|note| !note.ends_with("order-1")), "{:?}", again.notes());
    worker.stop().await;
    client.store().close().await;
    restored.remove(&live).await;
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_backup_says_what_it_lacks_and_repeats_no_outcome_on_sqlite() {
    a_restored_backup_says_what_it_lacks_and_repeats_no_outcome(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_backup_says_what_it_lacks_and_repeats_no_outcome_on_postgres() {
    a_restored_backup_says_what_it_lacks_and_repeats_no_outcome(Database::Postgres).await;
}

/// A retry would run the steps again that a retry since the backup has run.
async fn a_failed_run_names_the_steps_that_a_retry_repeats(database: Database) {
    let live = Live::new(database).await;
    let shell = Shell::of(&live);
    let worker = LocalWorker::start(live.worker(()).register(fails));
    let run = live.client.start(fails, "no funds".into()).await.unwrap();
    assert!(run.result().await.is_err());
    worker.stop().await;
    let log = |step: &str, attempt: i64| {
        let fields = serde_json::json!({"event": "step_ended", "run_id": run.id(), "step": step, "attempt": attempt});
        serde_json::json!({ "fields": fields }).to_string() + "\n"
    };
    let found = examine(&shell, &[], &log("charge", 1), 0);
    assert!(about(&found, "behind").is_empty(), "the backup has this attempt: {found:?}");

    let records = log("charge", 2) + &log("mail", 1) + &format!("{}\tsucceeded\n", run.id());
    let found = examine(&shell, &[], &records, 0);
    let [behind] = about(&found, "behind")[..] else { panic!("one run is behind: {found:?}") };
    assert_eq!((&behind["run"], &behind["level"]), (&run.id().to_string().into(), &"warn".into()));
    assert_eq!(behind["steps"], serde_json::json!(["charge", "mail"]), "{behind}");
    let fact = behind["fact"].as_str().unwrap();
    let words = "is failed in the backup and succeeded outside: a retry runs steps charge, mail again";
    assert!(fact.contains(words), "{fact}");
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_run_names_the_steps_that_a_retry_repeats_on_sqlite() {
    a_failed_run_names_the_steps_that_a_retry_repeats(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_run_names_the_steps_that_a_retry_repeats_on_postgres() {
    a_failed_run_names_the_steps_that_a_retry_repeats(Database::Postgres).await;
}

/// Nothing but a stop keeps workers from going on with a bulk operation, not even a hold.
async fn a_bulk_operation_that_was_under_way_is_named_until_it_is_stopped(database: Database) {
    let live = Live::new(database).await;
    let shell = Shell::of(&live);
    shell.says(&["runs", "start", "ships", "--input", "\"order-7\""]);
    let cancel = ["runs", "cancel", "--where", "status:pending", "--yes", "--detach", "-o", "ids"];
    let (ended, bulk) = (shell.says(&cancel), shell.says(&cancel));
    shell.says(&["bulk", "stop", &ended]);
    let found = examine(&shell, &["--hold"], "", 1);
    let [under_way] = about(&found, "bulk")[..] else { panic!("one operation was under way: {found:?}") };
    assert_eq!((&under_way["bulk"], &under_way["level"]), (&bulk.as_str().into(), &"bad".into()));
    let fact = under_way["fact"].as_str().unwrap();
    assert!(fact.contains("(run.cancel of \"status:pending\") was under way"), "{fact}");
    let fix = under_way["fix"].as_str().unwrap();
    assert!(fix.starts_with(&format!("workflow bulk stop {bulk} before workers start")), "{fix}");

    shell.says(&["bulk", "stop", &bulk]);
    let found = examine(&shell, &[], "", 0);
    assert!(about(&found, "bulk").is_empty(), "{found:?}");
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bulk_operation_that_was_under_way_is_named_until_it_is_stopped_on_sqlite() {
    a_bulk_operation_that_was_under_way_is_named_until_it_is_stopped(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bulk_operation_that_was_under_way_is_named_until_it_is_stopped_on_postgres() {
    a_bulk_operation_that_was_under_way_is_named_until_it_is_stopped(Database::Postgres).await;
}

/// The time in the id of a run tells whether it was started before the backup. The id of a run that
/// a schedule starts has the time of its occurrence, which may be older.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_was_started_before_the_backup_was_deleted() {
    const DELETED: &str = "01900000-0000-7000-8000-000000000001";
    const SCHEDULED: &str = "01900000-0000-8000-8000-000000000001";
    let live = Live::new(Database::Sqlite).await;
    let shell = Shell::of(&live);
    shell.says(&["runs", "start", "ships", "--input", "\"order-7\""]);
    let found = examine(&shell, &[], &format!("{DELETED}\n"), 0);
    let [deleted] = about(&found, "deleted")[..] else { panic!("one run was deleted: {found:?}") };
    assert_eq!((&deleted["run"], &deleted["level"]), (&DELETED.into(), &"warn".into()));
    let found = examine(&shell, &[], &format!("{DELETED}\n{SCHEDULED}\n"), 1);
    let [missing] = about(&found, "missing")[..] else { panic!("one run may be lost: {found:?}") };
    assert_eq!((&missing["run"], &missing["level"]), (&SCHEDULED.into(), &"bad".into()));
    live.sweep().await;
}

/// Only the pauses of the hold end with it.
async fn a_hold_keeps_schedules_and_the_pauses_of_operators(database: Database) {
    let live = Live::new(database).await;
    let shell = Shell::of(&live);
    for schedule in ["nightly", "weekly"] {
        shell.says(&["schedules", "create", schedule, "ships", "--every", "1h"]);
    }
    shell.says(&["runs", "start", "ships", "--queue", "mail", "--input", "\"order-5\""]);
    shell.says(&["runs", "start", "ships", "--queue", "bulk", "--input", "\"order-6\""]);
    shell.says(&["queues", "pause", "bulk", "--reason", "a test"]);
    shell.says(&["schedules", "pause", "weekly", "--reason", "a test"]);
    shell.check(&["doctor", "--hold"], 2, "", "--after-restore");
    let paused = |verb: &str| {
        let listed: Value = serde_json::from_str(&shell.says(&[verb, "list", "--json"])).unwrap();
        let items = listed.as_array().or(listed["items"].as_array()).unwrap().clone();
        let is_paused = |item: &&Value| item["pause"].is_object() || item["state"]["paused"].is_object();
        items.iter().filter(is_paused).map(|item| item["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!((paused("queues"), paused("schedules")), (vec!["bulk".to_owned()], vec!["weekly".to_owned()]));
    for held in ["1 queue and 1 schedule are held", "0 queues and 0 schedules are held"] {
        shell.check(&["doctor", "--after-restore", "--hold"], 0, "2 pending", held);
    }
    assert_eq!((paused("queues").len(), paused("schedules").len()), (2, 2));
    shell.check(&["doctor", "--release"], 0, "", "1 queue and 1 schedule go on");
    assert_eq!((paused("queues"), paused("schedules")), (vec!["bulk".to_owned()], vec!["weekly".to_owned()]));
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_keeps_schedules_and_the_pauses_of_operators_on_sqlite() {
    a_hold_keeps_schedules_and_the_pauses_of_operators(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_keeps_schedules_and_the_pauses_of_operators_on_postgres() {
    a_hold_keeps_schedules_and_the_pauses_of_operators(Database::Postgres).await;
}

/// An occurrence that waits for the end of a run may have started since the backup, so a hold skips
/// it, and says so.
async fn a_hold_counts_the_waiting_occurrences_that_it_skips(database: Database) {
    let live = Live::new(database).await;
    let shell = Shell::of(&live);
    for schedule in ["nightly", "weekly"] {
        shell.says(&["schedules", "create", schedule, "ships", "--every", "1h", "--overlap", "buffer-all"]);
    }
    let at = 1_798_804_800_000_000_i64;
    let waiting = format!(r#""waiting":[{{"at":{at},"since":{at}}},{{"at":{at},"since":{at}}}],"paused":null"#);
    live.raw()
        .await
        .execute(format!(
            "UPDATE workflow_schedules SET record = replace(record, '\"paused\":null', '{waiting}') WHERE name = 'nightly'"
        ))
        .await;
    let held = shell.run(&["doctor", "--after-restore", "--hold", "--iso"]);
    let told = String::from_utf8(held.stderr).unwrap();
    let words = "schedule nightly skips 2 occurrences from 2027-01-01T12:00:00";
    assert!(told.contains(words) && told.contains("workflow schedules backfill nightly"), "{told}");
    assert!(!told.contains("weekly") && told.contains("2 schedules are held"), "{told}");
    let shown: Value = serde_json::from_str(&shell.says(&["schedules", "show", "nightly", "--json"])).unwrap();
    assert_eq!(shown["state"]["skipped"], 2, "{shown}");
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_counts_the_waiting_occurrences_that_it_skips_on_sqlite() {
    a_hold_counts_the_waiting_occurrences_that_it_skips(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_counts_the_waiting_occurrences_that_it_skips_on_postgres() {
    a_hold_counts_the_waiting_occurrences_that_it_skips(Database::Postgres).await;
}
