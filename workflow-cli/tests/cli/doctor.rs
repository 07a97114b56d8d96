//! The faults that `workflow doctor` finds, each made on a real database.

use std::process::Output;
use std::time::{Duration, SystemTime};

use crate::common::{Shell, doubled};
use serde_json::Value;
use workflow_sdk::operate::DatabaseView;
use workflow_sdk::{Schedule, Timestamp};
use workflow_tests::{Database, Live, LocalWorker, RawConnection, until};

/// Returns the findings of `workflow doctor`, one a line: level, fact, and fix.
fn findings(shell: &Shell) -> Vec<String> {
    findings_in(shell.run(&["doctor", "--json"]))
}

fn findings_in(output: Output) -> Vec<String> {
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
    assert!(found[1].starts_with(&format!("ok|{kind} ")) && found[1].contains(", schema level 1, "), "{found:?}");
    assert!(!found.iter().any(|line| line.contains(" is 6000") || line.contains("gate ")), "{found:?}");

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

async fn the_database_is_said_with_the_place_that_names_it(database: Database) {
    let live = Live::new(database).await;
    let shell = Shell::of(&live);
    let found = findings(&shell);
    let place = &found[0];
    assert!(place.starts_with("ok|the database is ") && !place.contains('@'), "{place}");
    assert!(place.contains(", as the variable WORKFLOW_DATABASE_URL says"), "{place}");
    let schema = live.schema().map(|schema| format!("; its schema is {schema}, as the variable WORKFLOW_SCHEMA says"));
    assert_eq!(place.contains("; its schema is "), schema.is_some(), "{place}");
    assert!(schema.is_none_or(|schema| place.contains(&schema)), "{place}");
    let option = findings_in(shell.run(&["doctor", "--json", "--to", &shell.url]));
    assert!(option[0].contains(", as --to says"), "the option wins: {option:?}");
    let server = Shell::over_http(&live).await;
    let said = format!(
        "ok|the server is {}, as the variable WORKFLOW_DATABASE_URL says; its token comes from the variable \
         WORKFLOW_TOKEN|",
        server.url
    );
    assert_eq!(findings(&server)[0], said);
    assert!(!findings(&server).iter().any(|line| line.contains("unencrypted")), "it is this machine");
    // Another name of this machine, which does not show that it is one.
    let far = Shell { url: server.url.replace("127.0.0.1", "0.0.0.0"), ..server };
    let plain = findings(&far);
    assert!(finding(&plain, "the token goes to 0.0.0.0 unencrypted").starts_with("warn|"), "{plain:?}");
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_database_is_said_with_the_place_that_names_it_on_sqlite() {
    the_database_is_said_with_the_place_that_names_it(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_database_is_said_with_the_place_that_names_it_on_postgres() {
    the_database_is_said_with_the_place_that_names_it(Database::Postgres).await;
}

/// Returns a schedule whose input only a worker that declares it can compute.
fn computed() -> Schedule {
    Schedule::cron("computed", "0 1 1 1 *").zone("UTC").start_with(doubled, |_| 21)
}

async fn until_one_worker_lives(shell: &Shell) {
    let words = "|1 worker lives and serves 1 workflow in 1 version|";
    until("one worker lives", async || findings(shell).iter().any(|line| line.contains(words)).then_some(())).await;
}

async fn faults_of_schedules_are_found(database: Database, by_server: bool) {
    let live = Live::new(database).await;
    let shell = if by_server { Shell::over_http(&live).await } else { Shell::of(&live) };
    let of_schedules = |shell: &Shell| {
        let found = findings(shell);
        found.into_iter().filter(|line| line.contains("|schedule ")).collect::<Vec<_>>()
    };
    let nightly = Schedule::cron("nightly", "0 0 1 1 *").zone("UTC").start(doubled, 21);
    let worker = live.worker(()).register(doubled).schedule(nightly).schedule(computed());
    let working = LocalWorker::start(worker);
    until_one_worker_lives(&shell).await;
    assert_eq!(of_schedules(&shell), Vec::<String>::new());

    shell.says(&["schedules", "update", "nightly", "--cron", "0 2 1 1 *", "--overlap", "allow"]);
    shell.says(&["schedules", "create", "orphan", "without_code", "--cron", "0 0 1 1 *"]);
    let found = of_schedules(&shell);
    let drift = finding(&found, "schedule nightly is in drift");
    assert!(drift.starts_with("warn|") && drift.contains("what code declares: times, policies|"), "{drift}");
    assert!(drift.ends_with("workflow schedules revert nightly"), "{drift}");
    let orphan = finding(&found, "schedule orphan starts runs of without_code version 1 in queue default");
    assert!(orphan.starts_with("warn|") && orphan.ends_with("workflow schedules delete orphan"), "{orphan}");
    // The fixes that it names.
    shell.says(&["schedules", "revert", "nightly"]);
    shell.says(&["schedules", "delete", "orphan"]);
    assert_eq!(of_schedules(&shell), Vec::<String>::new());

    // The worker that can compute the input is gone when the schedule is due.
    working.stop().await;
    let due = (Timestamp::from(SystemTime::now()) - Duration::from_secs(600)).as_micros();
    let mut raw = live.raw().await;
    let record = match database {
        Database::Postgres => format!("jsonb_set(record::jsonb, '{{state,next_at}}', '{due}')::text"),
        _ => format!("json_set(record, '$.state.next_at', {due})"),
    };
    let set = format!("UPDATE workflow_schedules SET available_at = {due}, record = {record} WHERE name = 'computed'");
    raw.execute(set).await;
    let found = of_schedules(&shell);
    let late = finding(&found, "schedule computed was due 10 min");
    assert!(late.starts_with("bad|") && late.ends_with("|start a worker"), "{late}");
    let working = LocalWorker::start(live.worker(()).register(doubled));
    until_one_worker_lives(&shell).await;
    let found = of_schedules(&shell);
    assert!(finding(&found, "schedule computed was due").contains("start a worker that declares it"), "{found:?}");
    working.stop().await;
    let working = LocalWorker::start(live.worker(()).register(doubled).schedule(computed()));
    until("the schedule is fired", async || of_schedules(&shell).is_empty().then_some(())).await;
    working.stop().await;
    drop(raw);
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_of_schedules_are_found_on_sqlite() {
    faults_of_schedules_are_found(Database::Sqlite, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_of_schedules_are_found_on_postgres() {
    faults_of_schedules_are_found(Database::Postgres, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_of_schedules_are_found_by_a_server() {
    faults_of_schedules_are_found(Database::Sqlite, true).await;
}

/// The host of the program has zone data with another zone alone.
async fn a_zone_that_the_data_lacks_is_found(database: Database) {
    let live = Live::new(database).await;
    let shell = Shell::of(&live);
    let nightly = Schedule::cron("nightly", "0 7 * * *").zone("Europe/Berlin").start(doubled, 21);
    live.client.create_schedule(nightly).await.unwrap();
    assert!(finding(&findings(&shell), "zone data ").starts_with("ok|"));
    let zones = tempfile::tempdir().unwrap();
    // No file of a known zone, so it is never read further than its first bytes.
    std::fs::write(zones.path().join("Nowhere"), b"TZif").unwrap();
    std::fs::write(zones.path().join("tzdata.zi"), "# version 1999z\n# no rules\n").unwrap();
    let there = || {
        let mut command = shell.command(&["doctor", "--json"]);
        findings_in(command.env("TZDIR", zones.path()).output().unwrap())
    };
    let found = there();
    let data = finding(&found, "zone data 1999z, from ");
    assert!(data.starts_with("ok|") && data.contains(&zones.path().display().to_string()), "{data}");
    let zone = finding(&found, "schedule nightly has the time zone Europe/Berlin, which the zone data lacks");
    assert!(zone.starts_with("bad|") && zone.ends_with("workflow schedules update nightly --zone ZONE"), "{zone}");
    shell.says(&["schedules", "update", "nightly", "--zone", "UTC"]);
    assert!(!there().iter().any(|line| line.contains("|schedule ")), "the fix that it names");
    // A record of another release is told from a zone that is unknown.
    let mut raw = live.raw().await;
    raw.execute("UPDATE workflow_schedules SET record = '{}'").await;
    let found = findings(&shell);
    let unreadable = finding(&found, "schedule nightly is not understood: ");
    assert!(unreadable.starts_with("bad|") && unreadable.contains("deploy the release that wrote it"), "{unreadable}");
    drop(raw);
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_zone_that_the_data_lacks_is_found_on_sqlite() {
    a_zone_that_the_data_lacks_is_found(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_zone_that_the_data_lacks_is_found_on_postgres() {
    a_zone_that_the_data_lacks_is_found(Database::Postgres).await;
}

async fn a_recount_compares_the_statistics_with_the_runs(database: Database, by_server: bool) {
    let live = Live::new(database).await;
    let shell = if by_server { Shell::over_http(&live).await } else { Shell::of(&live) };
    for number in 0..12 {
        live.client.start_by_name("without_code", &number.into()).await.unwrap();
    }
    live.client.executor().write_statistics().await;
    assert!(!findings(&shell).iter().any(|line| line.contains("the statistics")), "only if it is asked for");
    let recount = || {
        let found = findings_in(shell.run(&["doctor", "--recount", "--json"]));
        finding(&found, "started runs in the last ").to_owned()
    };
    let equal = recount();
    assert!(equal.starts_with("ok|the statistics count 12 "), "{equal}");
    assert!(equal.ends_with(", and the tables have 12|"), "{equal}");

    let mut raw = live.raw().await;
    raw.execute(
        "UPDATE workflow_stats SET started = started + 100
         WHERE begins_at = (SELECT max(begins_at) FROM workflow_stats)",
    )
    .await;
    let more = recount();
    assert!(more.starts_with("warn|the statistics count 112 ") && more.contains("were deleted"), "{more}");
    raw.execute("UPDATE workflow_stats SET started = 0").await;
    let fewer = recount();
    assert!(fewer.starts_with("warn|the statistics count 0 ") && fewer.contains("trust the tables"), "{fewer}");
    assert_eq!(raw.number("SELECT count(*) FROM workflow_stats WHERE started <> 0").await, 0, "it changes nothing");
    shell.check(&["doctor", "--recount", "--release"], 2, "", "cannot be used with");
    drop(raw);
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recount_compares_the_statistics_with_the_runs_on_sqlite() {
    a_recount_compares_the_statistics_with_the_runs(Database::Sqlite, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recount_compares_the_statistics_with_the_runs_on_postgres() {
    a_recount_compares_the_statistics_with_the_runs(Database::Postgres, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recount_compares_the_statistics_with_the_runs_by_a_server() {
    a_recount_compares_the_statistics_with_the_runs(Database::Sqlite, true).await;
}
