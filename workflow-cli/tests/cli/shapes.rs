//! The shape of what the program prints: each table, each error, and each `--json`, which is a type
//! of the OpenAPI document. On each database, and by a server.

use std::fmt::Write;
use std::time::Duration;

use crate::common::{Shell, asks, assert_snapshot, doubled, fails};
use serde_json::{Map, Value, json};
use workflow_sdk::Schedule;
use workflow_sdk::prelude::*;
use workflow_tests::document::check_schema;
use workflow_tests::{Database, Live, LocalWorker, until};
use workflow_worker::{Limit, Queue};

/// Stands for the workflow of all flows.
#[workflow(name = "flow")]
async fn like_a_flow(ctx: &Ctx, is_broken: bool) -> Result<()> {
    if is_broken {
        return ctx.step("charge", async || Err(Error::fatal("card declined"))).await;
    }
    ctx.approval("ship").to("ops").await?;
    ok(())
}

/// The ids of runs.
struct Runs {
    good: String,
    bad: String,
    asking: String,
    /// No worker has its code.
    unserved: String,
}

/// Makes a system that no worker changes any more.
async fn prepare(shell: &Shell, live: &Live) -> (LocalWorker, Runs) {
    let worker = live.worker(()).register(doubled).register(fails).register(asks).queue(Queue::new("default"));
    let worker = worker.queue(Queue::new("mail").concurrency(5)).limit(Limit::new("llm").concurrency(10));
    let working = LocalWorker::start(worker.linger(Duration::ZERO));
    let good = shell.says(&["runs", "start", "doubled", "--input", "21", "--key", "order-1", "--tag", "region=eu"]);
    shell.says(&["runs", "result", &good]);
    let bad = shell.says(&["runs", "start", "fails", "--input", "\"card declined\""]);
    shell.check(&["runs", "result", &bad], 5, "", "card declined");
    let asking = shell.says(&["runs", "start", "asks"]);
    let unserved = shell.says(&["runs", "start", "without_code", "--queue", "mail", "--gate", "acct-42"]);
    let canceled = shell.says(&["runs", "start", "without_code", "--queue", "slow"]);
    shell.says(&["runs", "cancel", &canceled, "--reason", "a test"]);
    let nightly = Schedule::cron("nightly", "0 7 1 1 *").zone("UTC").start(doubled, 21);
    live.client.create_schedule(nightly).await.unwrap();
    until("the run waits for its approval without a worker", async || {
        let counts: Value = serde_json::from_str(&shell.says(&["counts", "--json"])).ok()?;
        (counts["running"]["runs"] == 0 && counts["parked"]["runs"] == 1).then_some(())
    })
    .await;
    (working, Runs { good, bad, asking, unserved })
}

/// Writes a command with all that it says.
fn tell(shell: &Shell, told: &mut String, arguments: &[&str]) {
    let output = shell.run(arguments);
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    let code = output.status.code().expect("no signal ends it");
    writeln!(told, "$ workflow {}\n{out}{err}exit {code}\n", arguments.join(" ")).unwrap();
}

fn tables(shell: &Shell, Runs { good, asking, unserved, .. }: &Runs) -> String {
    let mut told = String::new();
    for arguments in [
        &["counts"][..],
        &["runs", "explain", good],
        &["runs", "explain", asking],
        &["runs", "explain", unserved],
        &["runs", "list", "status:parked"],
        &["runs", "list", "key:none"],
        &["approvals", "list"],
        &["workers"],
        &["queues", "gates", "mail"],
        &["queues", "weigh", "mail", "acct-42", "3"],
        &["queues", "pause", "slow", "--reason", "maintenance"],
        &["queues", "list"],
        &["limits", "set", "llm", "--concurrency", "3", "--rate", "100/1m"],
        &["limits", "list"],
        &["limits", "seats", "llm"],
        &["schedules", "list"],
        &["schedules", "show", "nightly"],
        &["schedules", "next", "nightly", "--count", "2"],
        &["schedules", "update", "nightly", "--limit", "9"],
        &["schedules", "backfill", "nightly", "--from", "2024-06-01", "--until", "2026-06-01", "--dry-run"],
        &["schedules", "pause", "nightly", "--reason", "holidays"],
        &["schedules", "list"],
        &["events", "emit", "shipped", "order-1", "--payload", "{}"],
        &["runs", "delete", "--where", "status:canceled", "--dry-run"],
        &["runs", "delete", "--where", "status:canceled", "--yes"],
        &["bulk", "list"],
        &["stats", "--workflow", "none"],
        &["doctor"],
        &["audit"],
        &["audit", "--by", "bob"],
    ] {
        tell(shell, &mut told, arguments);
    }
    let newest = shell.says(&["bulk", "list", "--limit", "1", "-o", "ids"]);
    tell(shell, &mut told, &["bulk", "show", &newest]);
    tell(shell, &mut told, &["bulk", "stop", &newest]);
    told
}

fn errors(shell: &Shell, Runs { good, bad, asking, .. }: &Runs) -> String {
    let mut told = String::new();
    for arguments in [
        &["frobnicate"][..],
        &["runs", "show", "abcdefabcdef"],
        &["runs", "show", "01"],
        &["runs", "show", "not-an-id"],
        &["runs", "show", &good[..6]],
        &["runs", "list", "status:faild"],
        &["runs", "list", "started:yesterdy"],
        &["runs", "list", "--limit", "0"],
        &["runs", "list", "--cursor", "nonsense"],
        &["runs", "list", "--output", "xml"],
        &["runs", "start", "doubled", "--input", "{"],
        &["runs", "start", "doubled", "--tag", "eu"],
        &["runs", "result", bad],
        &["runs", "result", asking, "--wait", "0s"],
        &["runs", "retry", good],
        &["runs", "fork", good, "--from", "triple"],
        &["runs", "cancel", "--where", "status:failed"],
        &["approvals", "approve", asking, "shipp"],
        &["queues", "limit", "mail", "--rate", "many"],
        &["limits", "seats", "lm"],
        &["limits", "seats", "llm", "--cursor", "x"],
        &["schedules", "show", "nightlly"],
        &["schedules", "create", "weekly", "doubled", "--cron", "0 25 * * MON"],
        &["schedules", "create", "nightly", "doubled", "--every", "1h"],
        &["schedules", "backfill", "nightly", "--from", "2024-06-01", "--until", "2026-06-01"],
        &["bulk", "show", "x"],
        &["events", "emit", "shipped", "order-1", "--payload", "{"],
        &["stats", "--since", "soon"],
        &["run"],
    ] {
        tell(shell, &mut told, arguments);
    }
    // The beginning of an id is a time.
    let prefix = &good[..6];
    told.replace(&format!("show {prefix}\n"), "show [prefix]\n").replace(&format!("\"{prefix}\""), "\"[prefix]\"")
}

/// Returns the names and kinds of values: of a list, those of all its items together.
fn shape(value: &Value) -> Value {
    match value {
        Value::Null => json!("null"),
        Value::Bool(_) => json!("boolean"),
        Value::Number(_) => json!("number"),
        Value::String(_) => json!("text"),
        Value::Array(items) => match items.iter().map(shape).reduce(join) {
            Some(of_all) => json!([of_all]),
            None => json!([]),
        },
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), shape(value))).collect(),
    }
}

/// Returns the shape that two values have together.
fn join(one: Value, other: Value) -> Value {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let mut fields: Map<String, Value> = one;
            for (name, value) in other {
                let joined = match fields.remove(&name) {
                    Some(before) => join(before, value),
                    None => value,
                };
                fields.insert(name, joined);
            }
            Value::Object(fields)
        }
        (Value::Array(one), Value::Array(other)) => {
            let joined = one.into_iter().chain(other).reduce(join);
            Value::Array(joined.into_iter().collect())
        }
        (one, other) if one == other => one,
        (Value::String(one), Value::String(other)) => json!(format!("{one} or {other}")),
        (Value::String(one), other) | (other, Value::String(one)) if one == "null" => other,
        (one, _) => one,
    }
}

/// Checks each `--json` by the document, and returns the shapes of all.
fn json_shapes(shell: &Shell, Runs { good, bad, asking, unserved }: &Runs) -> String {
    let mut told = String::new();
    let mut add = |arguments: &[&str], text: &str| {
        let value: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {text}"));
        let shape = serde_json::to_string_pretty(&shape(&value)).unwrap();
        writeln!(told, "$ workflow {} --json\n{shape}\n", arguments.join(" ")).unwrap();
        value
    };
    let says = |arguments: &[&str]| shell.says(&[arguments, &["--json"]].concat());
    for (arguments, schema) in [
        (&["runs", "list"][..], "RunPage"),
        (&["runs", "show", good], "RunDetail"),
        (&["runs", "show", bad], "RunDetail"),
        (&["runs", "history", bad], "HistoryPage"),
        (&["runs", "explain", good], "Explanation"),
        (&["runs", "explain", asking], "Explanation"),
        (&["runs", "explain", unserved], "Explanation"),
        (&["runs", "start", "without_code", "--queue", "slow"], "Done"),
        (&["runs", "fork", good, "--queue", "slow"], "Done"),
        (&["counts"], "Counts"),
        (&["approvals", "list"], "ApprovalPage"),
        (&["audit"], "AuditPage"),
        (&["stats", "--by", "lane"], "StatsPage"),
        (&["failures"], "FailurePage"),
        (&["queues", "gates", "mail"], "GatePage"),
        (&["queues", "pause", "mail", "--reason", "a test"], "Done"),
        (&["queues", "resume", "mail"], "Done"),
        (&["limits", "seats", "llm"], "SeatPage"),
        (&["limits", "clear", "llm"], "Done"),
        (&["schedules", "list"], "SchedulePage"),
        (&["schedules", "show", "nightly"], "ScheduleView"),
        (&["schedules", "update", "nightly", "--clear", "limit"], "Done"),
        (
            &["schedules", "backfill", "nightly", "--from", "2024-06-01", "--until", "2026-06-01", "--dry-run"],
            "BackfillView",
        ),
        (&["schedules", "resume", "nightly"], "Done"),
        (&["events", "emit", "shipped", "order-1", "--payload", "{}"], "Done"),
        (&["approvals", "approve", asking, "ship"], "Done"),
        (&["runs", "terminate", "--where", "queue:slow", "--yes"], "BulkView"),
        (&["bulk", "list"], "BulkPage"),
    ] {
        let text = says(arguments);
        check_schema(schema, &text);
        add(arguments, &text);
    }
    for (arguments, schema) in [
        (&["queues", "list"][..], Some("QueueView")),
        (&["limits", "list"], Some("LimitView")),
        (&["schedules", "next", "nightly"], Some("OccurrenceView")),
        (&["workers"], Some("WorkerView")),
        (&["workflows"], Some("WorkflowView")),
        (&["runs", "cancel", unserved], Some("Done")),
        (&["runs", "pause", good], Some("Done")),
        // Findings are of the command line alone.
        (&["doctor"], None),
    ] {
        let items = add(arguments, &says(arguments));
        let items = items.as_array().unwrap_or_else(|| panic!("{arguments:?} prints a list"));
        assert!(!items.is_empty(), "{arguments:?}");
        for (item, schema) in items.iter().filter_map(|item| Some((item, schema?))) {
            check_schema(schema, &item.to_string());
        }
    }
    told
}

async fn what_the_program_prints_has_its_shape(database: Database, by_server: bool) {
    let live = Live::new(database).await;
    let shell = if by_server { Shell::over_http(&live).await } else { Shell::of(&live) };
    let (working, runs) = prepare(&shell, &live).await;
    assert_snapshot("errors", &errors(&shell, &runs));
    assert_snapshot("tables", &tables(&shell, &runs));
    until("the failure is counted", async || {
        let failures: Value = serde_json::from_str(&shell.says(&["failures", "--json"])).ok()?;
        (failures["items"].as_array()?.len() == 1).then_some(())
    })
    .await;
    assert_snapshot("json_shapes", &json_shapes(&shell, &runs));
    working.stop().await;
    live.sweep().await;
}

/// The tables show the flow of a run, and documents keep the workflow.
async fn lists_name_the_flow_of_a_run(database: Database) {
    let live = Live::new(database).await;
    let shell = Shell::of(&live);
    let working = LocalWorker::start(live.worker(()).register(like_a_flow).linger(Duration::ZERO));
    for is_broken in ["true", "false"] {
        shell.says(&["runs", "start", "flow", "--input", is_broken, "--tag", "flow=triage"]);
    }
    let lists = [&["runs", "list"][..], &["approvals", "list"], &["failures"]];
    until("one run has failed, and one waits", async || {
        let lines = |list: &[&str]| shell.says(&[list, &["-o", "ids"]].concat()).lines().count();
        (lists.map(lines) == [2, 1, 1]).then_some(())
    })
    .await;
    for list in lists {
        let table = shell.says(list);
        assert!(table.contains("triage") && !table.contains("flow "), "{table}");
        let document = shell.says(&[list, &["--json"]].concat());
        assert!(document.contains(r#""workflow": "flow""#), "{document}");
    }
    working.stop().await;
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_name_the_flow_of_a_run_on_sqlite() {
    lists_name_the_flow_of_a_run(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_name_the_flow_of_a_run_on_postgres() {
    lists_name_the_flow_of_a_run(Database::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_program_prints_has_its_shape_on_sqlite() {
    what_the_program_prints_has_its_shape(Database::Sqlite, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_program_prints_has_its_shape_on_postgres() {
    what_the_program_prints_has_its_shape(Database::Postgres, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_program_prints_has_its_shape_by_a_server() {
    what_the_program_prints_has_its_shape(Database::Sqlite, true).await;
}
