//! `workflow migrate` and `workflow version`, as their users call them, and a database that a later
//! release has migrated.

use crate::common::{Shell, check, program};
use serde_json::{Value, json};
use workflow_tests::{Database, Empty, Live, RawConnection};

/// A migration is shown before it is made, and made by another tool from its SQL.
async fn a_migration_is_shown_and_made_by_another_tool(database: Database) {
    let empty = Empty::of(database);
    let schema = (database == Database::Postgres).then(|| empty.options().schema);
    let shell = Shell { url: empty.url(), schema: schema.clone(), token: None };
    let says_json = |arguments: &[&str]| -> Value { serde_json::from_str(&shell.says(arguments)).unwrap() };

    shell.check(&["migrate", "--dry-run"], 0, "there are no tables; migrate would create them", "");
    assert_eq!(says_json(&["migrate", "--dry-run", "--json"]), json!({ "current": false, "found": 0 }));
    let script = shell.says(&["migrate", "--print-sql"]);
    shell.check(&["counts"], 9, "", "only for a new system: `migrate` creates the tables");
    if let Some(schema) = &schema {
        shell.check(&["counts"], 9, "", &format!("check --to, and --schema, which is {schema:?}"));
    }
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

const ID: &str = "01900000-0000-7000-8000-000000000000";

/// A command of each verb that opens the tables of the engine. `{run}` stands for the id of a run,
/// `{flow}` for the file of a flow, and `{other}` for another database.
const COMMANDS: [&str; 72] = [
    "runs start doubled --input 21",
    "runs list",
    "runs show {run}",
    "runs history {run}",
    "runs explain {run}",
    "runs result {run} --wait 0s",
    "runs cancel {run}",
    "runs terminate {run}",
    "runs pause {run}",
    "runs resume {run}",
    "runs set-priority high {run}",
    "runs move-to slow {run}",
    "runs retry {run}",
    "runs delete {run}",
    "runs delete --where status:failed --yes",
    "runs fork {run}",
    "runs signal {run} --name go",
    "counts",
    "approvals list",
    "approvals show {run}",
    "approvals approve {run} ship",
    "approvals reject {run} ship",
    "approvals choose {run} triage resolve",
    "queues list",
    "queues gates mail",
    "queues pause mail",
    "queues resume mail",
    "queues limit mail --concurrency 2",
    "queues unlimit mail",
    "queues weigh mail acct-42 2",
    "limits list",
    "limits seats llm",
    "limits set llm --concurrency 2",
    "limits clear llm",
    "schedules list",
    "schedules show nightly",
    "schedules next nightly",
    "schedules create nightly doubled --every 1h",
    "schedules update nightly --every 1h",
    "schedules backfill nightly --from 2d --yes",
    "schedules pause nightly",
    "schedules resume nightly",
    "schedules trigger nightly",
    "schedules revert nightly",
    "schedules delete nightly",
    "events emit shipped order-1",
    "flow deploy {flow}",
    "flow list",
    "flow run order",
    "flow run {flow}",
    "workers",
    "workflows",
    "bulk list",
    "bulk show {run}",
    "bulk stop {run}",
    "audit",
    "stats",
    "failures",
    "doctor",
    "dashboard --listen 127.0.0.1:0",
    "run --flows --log off",
    "run --flows --log off --no-migrate",
    "serve --http 127.0.0.1:0 --log off",
    "serve --http 127.0.0.1:0 --flows --log off",
    "mcp",
    "prune --dry-run",
    "migrate",
    "migrate --dry-run",
    "migrate --print-sql",
    "move --from {url} --to {other}",
    "move --from {other}",
    "move --from {url} --undo",
];

/// The verbs that need no database, those whose program has no worker here, and those that open
/// tables of flows alone, which have no version.
const OTHERS: [&str; 16] = [
    "flow check",
    "flow fmt",
    "flow diagram",
    "flow test",
    "flow schema",
    "kb search",
    "kb show",
    "kb list",
    "inbox list",
    "inbox read",
    "demo",
    "new",
    "preflight",
    "replay",
    "completions",
    "version",
];

/// Returns the verbs without further verbs below these words, as their help lists them.
fn verbs(words: &[&str]) -> Vec<String> {
    let help = program(&[words, &["--help"]].concat()).output().unwrap().stdout;
    let help = String::from_utf8(help).unwrap();
    let Some((_, listed)) = help.split_once("Commands:\n") else { return vec![words.join(" ")] };
    let lines = listed.lines().take_while(|line| !line.is_empty()).filter_map(|line| line.strip_prefix("  "));
    let names = lines.filter(|line| !line.starts_with(' ')).filter_map(|line| line.split(' ').next());
    names.filter(|name| *name != "help").flat_map(|name| verbs(&[words, &[name]].concat())).collect()
}

/// A verb that is added later must not be forgotten.
#[test]
fn the_table_has_every_verb_of_the_help() {
    let verbs = verbs(&[]);
    assert!(verbs.len() > 60, "{verbs:?}");
    for verb in verbs {
        let opens = COMMANDS.iter().any(|command| format!("{command} ").starts_with(&format!("{verb} ")));
        assert!(opens != OTHERS.contains(&verb.as_str()), "{verb} is not in one of the tables");
    }
}

async fn each_verb_refuses_a_newer_database(database: Database) {
    let live = Live::new(database).await;
    let shell = Shell::of(&live);
    let directory = tempfile::tempdir().unwrap();
    let flow = directory.path().join("order.yaml");
    std::fs::write(&flow, "flow: 1\nname: order\ndo:\n  - { id: say, set: { id: 1 } }\n").unwrap();
    let (flow, other) = (flow.to_str().unwrap(), directory.path().join("other.db"));
    let other = other.to_str().unwrap();
    shell.check(&["migrate", "--to", other], 0, "", "up to date");

    let mut raw = live.raw().await;
    raw.execute("UPDATE workflow_schema SET version = version + 1000").await;
    let newest = raw.number("SELECT max(version) FROM workflow_schema").await;
    let names = raw.table_names().await;
    for command in COMMANDS {
        let words: Vec<String> = command
            .split(' ')
            .map(|word| match word {
                "{run}" => ID.to_owned(),
                "{flow}" => flow.to_owned(),
                "{other}" => other.to_owned(),
                "{url}" => shell.url.clone(),
                word => word.to_owned(),
            })
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = shell.run(&words);
        check(&words, &output, 9, "", "this program knows up to");
        check(&words, &output, 9, "", "use the release of this program that made the tables");
    }
    assert_eq!(raw.number("SELECT max(version) FROM workflow_schema").await, newest);
    assert_eq!(raw.table_names().await, names);
    for table in ["workflow_runs", "workflow_audit", "workflow_schedules", "workflow_queues", "workflow_limits"] {
        assert_eq!(raw.number(format!("SELECT count(*) FROM {table}")).await, 0, "{table}");
    }
    drop(raw);
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_verb_refuses_a_newer_database_on_sqlite() {
    each_verb_refuses_a_newer_database(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_verb_refuses_a_newer_database_on_postgres() {
    each_verb_refuses_a_newer_database(Database::Postgres).await;
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
