//! The program as its users call it: each command with its exit code and its words, on each
//! database, and the shape of every table.

use std::process::Output;
use std::time::Duration;

use crate::common::{Shell, asks, assert_snapshot, check, doubled, fails, piped, program};
use workflow_sdk::operate::{FailurePage, StatsPage};
use workflow_sdk::prelude::*;
use workflow_tests::document::check_schema;
use workflow_tests::{Database, Live, LocalWorker, until};
use workflow_worker::{Limit, Queue};

#[workflow]
async fn greets(ctx: &Ctx) -> Result<Option<String>> {
    ctx.signal::<String>("greeting").await
}

fn worker(live: &Live) -> LocalWorker {
    let worker = live.worker(()).register(doubled).register(fails).register(asks).register(greets);
    let worker = worker.queue(Queue::new("default")).queue(Queue::new("mail").concurrency(5)).queue(Queue::new("bulk"));
    LocalWorker::start(worker.limit(Limit::new("llm").concurrency(10)).linger(Duration::ZERO))
}

async fn commands(database: Database) {
    let live = Live::new(database).await;
    check_commands(&Shell::of(&live), &live).await;
    live.sweep().await;
}

async fn check_commands(shell: &Shell, live: &Live) {
    let working = worker(live);
    let runs = start_runs(shell).await;
    check_ids(shell, &runs);
    check_lists(shell, &runs);
    check_statistics(shell).await;
    change_runs(shell, &runs);
    change_the_rest(shell);
    check_shapes(shell, &runs);
    check_documents(shell, &runs);
    working.stop().await;
}

/// Each `--json` is a type of the HTTP interface, as its document describes it.
fn check_documents(shell: &Shell, Runs { good, bad, .. }: &Runs) {
    let says = |arguments: &[&str]| shell.says(&[arguments, &["--json"]].concat());
    let check = |arguments: &[&str], schema| check_schema(schema, &says(arguments));
    let check_each = |arguments: &[&str], schema| {
        let items: Vec<serde_json::Value> = serde_json::from_str(&says(arguments)).unwrap();
        assert!(!items.is_empty(), "{arguments:?}");
        items.iter().for_each(|item| check_schema(schema, &item.to_string()));
    };
    check(&["runs", "list"], "RunPage");
    check(&["runs", "show", good], "RunDetail");
    check(&["runs", "show", bad], "RunDetail");
    check(&["runs", "history", bad], "HistoryPage");
    check(&["counts"], "Counts");
    check(&["schedules", "list"], "SchedulePage");
    check(&["approvals", "list"], "ApprovalPage");
    check(&["audit"], "AuditPage");
    check(&["stats", "--by", "lane"], "StatsPage");
    check(&["failures"], "FailurePage");
    check(&["queues", "gates", "mail"], "GatePage");
    check(&["queues", "pause", "bulk", "--reason", "a test"], "Done");
    check_each(&["queues", "list"], "QueueView");
    check_each(&["limits", "list"], "LimitView");
    check_each(&["workers"], "WorkerView");
    check_each(&["workflows"], "WorkflowView");
}

/// The ids of runs.
struct Runs {
    good: String,
    bad: String,
    unserved: String,
}

/// Returns the cursor of the next page, if the standard error names one.
fn cursor_of(page: &Output) -> Option<String> {
    let told = String::from_utf8(page.stderr.clone()).unwrap();
    let (_, rest) = told.split_once("--cursor ")?;
    Some(rest.split([',', '\n']).next().unwrap().to_owned())
}

/// Starts runs that succeed, fail and wait.
async fn start_runs(shell: &Shell) -> Runs {
    let good = shell.says(&["runs", "start", "doubled", "--input", "21", "--key", "order-1", "--tag", "region=eu"]);
    shell.check(&["runs", "start", "doubled", "--input", "21", "--key", "order-1"], 0, &good, "nothing was started");
    shell.check(&["runs", "result", &good], 0, "42", "");
    shell.check(&["runs", "start", "doubled", "--input", "4", "--wait"], 0, "8", "was started");
    shell.check(&["runs", "start", "doubled", "--input", "{"], 2, "", "not JSON");
    shell.check(&["runs", "start", "doubled", "--input", "@/no/such/file"], 2, "", "cannot read");
    shell.check(&["runs", "start", "doubled", "--tag", "eu"], 2, "", "NAME=VALUE");
    let read = piped(shell.command(&["runs", "start", "doubled", "--input", "-", "--wait", "1m"]), "5");
    check(&["--input", "-"], &read, 0, "10", "");
    let greeted = shell.says(&["runs", "start", "greets"]);
    shell.check(&["runs", "signal", &greeted, "--name", "greeting", "--payload", "\"hello\""], 0, "inbox", "");
    shell.check(&["runs", "result", &greeted], 0, "\"hello\"", "");
    let big = "9223372036854775807";
    let unserved = shell.says(&["runs", "start", "without_code", "--input", big]);
    let shown = shell.says(&["runs", "show", &unserved, "--json"]);
    assert!(shown.contains(big), "{shown}");
    let bad = shell.says(&["runs", "start", "fails", "--input", "\"card declined\""]);
    shell.check(&["runs", "result", &bad], 5, "", "card declined");
    shell.check(&["runs", "start", "fails", "--input", "\"no luck\"", "--wait"], 5, "", "no luck");
    let asking = shell.says(&["runs", "start", "asks"]);
    until("the approval is asked for", async || {
        let output = shell.run(&["approvals", "list"]);
        String::from_utf8(output.stdout).ok()?.contains("ship").then_some(())
    })
    .await;
    shell.check(&["runs", "result", &asking, "--wait", "0s"], 7, "", "has not ended");
    shell.check(&["approvals", "approve", &asking, "shipp"], 4, "", "ship");
    if shell.token.is_none() {
        // As in a container; a server takes the account of the token.
        let approve = ["approvals", "approve", &asking, "ship"];
        let nameless = shell.command(&approve).env_remove("USER").output().unwrap();
        check(&approve, &nameless, 2, "", "name the actor: --actor on the command line");
    }
    shell.check(&["approvals", "approve", &asking, "ship", "--note", "fine"], 0, "decision", "");
    shell.check(&["runs", "result", &asking], 0, "true", "");
    shell.check(&["approvals", "approve", &asking, "ship"], 0, "this was approved by ada", "");
    shell.check(&["approvals", "reject", &asking, "ship"], 1, "this was approved by ada", "");
    Runs { good, bad, unserved }
}

fn check_ids(shell: &Shell, Runs { good, .. }: &Runs) {
    let end = &good[good.len() - 8..];
    shell.check(&["runs", "explain", end], 0, "the run succeeded", "");
    shell.check(&["runs", "explain", &good[..23]], 0, "the run succeeded", "");
    shell.check(&["runs", "show", &good[..6]], 2, "", "several runs");
    shell.check(&["runs", "show", "01"], 2, "", "at least 6 digits");
    shell.check(&["runs", "show", "abcdefabcdef"], 4, "", "no run has an id like");
    shell.check(&["runs", "show", "01900000-0000-7000-8000-000000000000"], 4, "", "there is no run");
    shell.check(&["runs", "show", "not-an-id"], 2, "", "not a part of an id");
    shell.check(&["runs", "explain", "order-1"], 2, "", "`workflow runs list key:order-1` finds a run by its key");
}

fn check_lists(shell: &Shell, Runs { good, bad, .. }: &Runs) {
    shell.check(&["runs", "list", "status:failed"], 0, "card declined", "");
    shell.check(&["runs", "list", "status:failed", "-o", "ids"], 0, bad, "");
    shell.check(&["runs", "list", "tag.region:eu", "-o", "ids"], 0, good, "");
    shell.check(&["runs", "list", "key:none"], 0, "", "no run matches");
    shell.check(&["runs", "list", "status:faild"], 2, "", "failed");
    shell.check(&["runs", "list", "--limit", "0"], 2, "", "1 to");
    shell.check(&["runs", "list", "--cursor", "nonsense"], 2, "", "not a cursor");
    let cursor = cursor_of(&shell.run(&["runs", "list", "--limit", "1"])).unwrap();
    shell.check(&["runs", "list", "--limit", "1", "--cursor", &cursor], 0, "RUN", "older runs");
    // A program that reads ids or lines is told that there are more; a document has its cursor.
    for format in ["ids", "jsonl"] {
        shell.check(&["runs", "list", "--limit", "2", "-o", format], 0, "-", "older runs: --cursor");
    }
    let document = shell.run(&["runs", "list", "--limit", "2", "--json"]);
    assert!(document.status.success() && document.stderr.is_empty(), "{document:?}");
    assert_eq!(shell.says(&["runs", "list", "--all", "-o", "ids"]).lines().count(), 8);
    for line in shell.says(&["runs", "list", "-o", "jsonl"]).lines() {
        serde_json::from_str::<workflow_sdk::RunSummary>(line).unwrap();
    }
}

fn change_runs(shell: &Shell, Runs { good, bad, unserved }: &Runs) {
    shell.check(&["runs", "set-priority", "high", unserved], 0, "is changed", "");
    shell.check(&["runs", "set-priority", "soon", unserved], 2, "", "urgent, high, normal, low");
    shell.check(&["runs", "set-priority", "low", good], 0, "had ended before", "");
    shell.check(&["runs", "move-to", "slow", unserved], 0, "is changed", "");
    shell.check(&["runs", "move-to", "slow", unserved], 0, "as it was", "");
    shell.check(&["runs", "move-to", "", unserved], 2, "", "queue");
    shell.check(&["runs", "move-to", "slow", good], 1, "had ended before", "");
    shell.check(&["runs", "signal", good, "--name", "paid"], 1, "had ended before", "");
    shell.check(&["runs", "move-to", "default", "--where", "queue:slow", "--yes"], 0, "1 changed", "");
    shell.check(&["runs", "cancel", unserved, "--reason", "a test"], 0, "is canceled", "");
    shell.check(&["runs", "cancel", unserved], 0, "had ended before", "");
    shell.check(&["runs", "result", unserved], 6, "", "canceled");
    shell.check(&["runs", "pause", good], 0, "had ended before", "");
    shell.check(&["runs", "retry", good], 1, "", "only a failed run");
    shell.check(&["runs", "retry", bad], 0, "tried again", "");
    shell.check(&["runs", "result", bad], 5, "", "card declined");
    let canceled = ["runs", "delete", "--where", "status:canceled"];
    shell.check(&canceled, 2, "", "add --yes");
    shell.check(&[&canceled[..], &["--dry-run"]].concat(), 0, unserved, "1 run matches; those that have ended");
    shell.check(&[&canceled[..], &["--yes"]].concat(), 0, "1 changed", "goes on if this command ends");
    shell.check(&["bulk", "list"], 0, "run.delete", "");
    let bulks = shell.says(&["bulk", "list", "-o", "ids"]);
    let newest = bulks.lines().next().unwrap();
    shell.check(&["bulk", "show", newest], 0, "done: 1 of 1 runs", "");
    shell.check(&["bulk", "stop", newest], 0, "as it was", "");
    shell.check(&["bulk", "show", "x"], 2, "", "not the id");
    shell.check(&["bulk", "show", "01900000-0000-7000-8000-000000000000"], 4, "", "no bulk operation");
    shell.check(&[&canceled[..], &["--yes"]].concat(), 0, "", "no run matches");
    shell.check(&["runs", "delete", unserved], 4, "", "no run");
    shell.check(&["runs", "delete"], 2, "", "required");
    for verb in [&["delete"][..], &["terminate"], &["cancel"], &["move-to", "slow"], &["signal", "--name", "go"]] {
        for query in ["", " "] {
            let every = [&["runs"][..], verb, &["--where", query, "--yes"]].concat();
            shell.check(&every, 2, "", "the query of --where is empty, so it would mean every run");
        }
    }
    shell.check(&["runs", "delete", good, "--where", "status:failed"], 2, "", "cannot be used with");
    let waits = [shell.says(&["runs", "start", "greets"]), shell.says(&["runs", "start", "greets"])];
    let ids = format!("{}\n{good}\n\n{}\n", waits[0], waits[1]);
    check(
        &["terminate", "-"],
        &piped(shell.command(&["runs", "terminate", "-", "--json"]), &ids),
        0,
        "already_ended",
        "",
    );
    let ids = format!("{bad}\n{good}\n");
    check(&["retry", "-"], &piped(shell.command(&["runs", "retry", "-"]), &ids), 8, "tried again", "only a failed run");
    let fork = shell.says(&["runs", "fork", good, "--input", "50"]);
    shell.check(&["runs", "result", &fork], 0, "100", "");
    shell.check(&["runs", "fork", good, "--from", "triple"], 4, "", "double");
}

fn change_the_rest(shell: &Shell) {
    shell.check(&["queues", "pause", "--help"], 0, "Runs under way go on until they end or wait.", "");
    shell.check(&["queues", "pause", "bulk", "--reason", "maintenance"], 0, "queue bulk is paused", "");
    shell.check(&["queues", "list"], 0, "maintenance", "");
    shell.check(&["queues", "resume", "bulk"], 0, "queue bulk goes on", "");
    shell.check(&["queues", "resume", "bulk"], 0, "was not paused; nothing was changed", "");
    shell.check(&["queues", "resume", "blk"], 4, "", "did you mean \"bulk\"?");
    shell.check(&["queues", "limit", "mail", "--concurrency", "2", "--rate", "100/1m,20"], 0, "changed", "");
    shell.check(&["queues", "limit", "mail"], 2, "", "required");
    shell.check(&["queues", "limit", "mail", "--rate", "many"], 2, "", "100/1m");
    shell.check(&["queues", "unlimit", "mail"], 0, "queue mail is changed", "");
    shell.check(&["queues", "unlimit", "mail"], 0, "as it was", "");
    shell.check(&["queues", "gates", "mail"], 0, "", "no gate");
    shell.check(&["limits", "set", "llm", "--concurrency", "3"], 0, "changed", "");
    shell.check(&["limits", "list"], 0, "3 at once per key (set)", "");
    shell.check(&["limits", "seats", "llm"], 0, "", "no step holds a seat");
    shell.check(&["limits", "seats", "lm"], 4, "", "did you mean");
    shell.check(&["limits", "seats", "llm", "--cursor", "x"], 2, "", "cursor");
    shell.check(&["limits", "clear", "llm"], 0, "limit llm is changed", "");
    shell.check(&["limits", "clear", "llm"], 0, "as it was", "");
    shell.check(&["limits", "clear", "llmm"], 4, "", "did you mean \"llm\"?");
    shell.check(&["schedules", "list"], 0, "", "there is no schedule");
    shell.check(&["schedules", "pause", "nightly", "--reason", "x"], 4, "", "nightly");
    shell.check(&["schedules", "show", "nightly"], 4, "", "nightly");
    change_schedules(shell);
    shell.check(&["events", "emit", "shipped", "order-1", "--payload", "{}"], 0, "no run waits", "");
    shell.check(&["events", "emit", "shipped", "order-1", "--payload", "{"], 2, "", "not JSON");
    shell.check(&["doctor"], 0, "no worker deletes ended runs", "");
    shell.check(&["doctor", "--json"], 0, "\"level\": \"warn\"", "");
    shell.check(&["run"], 2, "", "has no worker");
    shell.check(&["preflight"], 2, "", "workflow_cli::kit");
    shell.check(&["replay", "019a"], 2, "", "workflow_cli::kit");
    match shell.token {
        None => shell.check(&["prune", "--dry-run"], 1, "", "no retention is declared"),
        Some(_) => shell.check(&["prune", "--dry-run"], 2, "", "cannot ask a server"),
    };
    shell.check(&["workers"], 0, "live", "");
    shell.check(&["workflows"], 0, "doubled", "");
    shell.check(&["counts"], 0, "failed", "");
    shell.check(&["audit", "--verb", "queue."], 0, "maintenance", "");
    shell.check(&["audit", "--by", "ada", "--limit", "1"], 0, "VERB", "older changes");
    shell.check(&["audit", "--by", "bob"], 0, "", "no change matches");
}

/// Schedules from their creation to their deletion, without code.
fn change_schedules(shell: &Shell) {
    let check = |verb: &str, more: &[&str], code: i32, out: &str, err: &str| {
        shell.check(&[&["schedules", verb][..], more].concat(), code, out, err);
    };
    let yearly = &["nightly", "doubled", "--input", "21", "--cron", "0 7 1 1 *"][..];
    check("create", &["nightly", "doubled", "--cron", "0 25 * * *"], 2, "", "of the hour at column 3");
    check("create", &["nightly", "doubled", "--cron", "0 7 * * *", "--tz", "Europe/Berlim"], 2, "", "did you mean");
    check("create", &["nightly", "doubled"], 2, "", "has no times");
    check("create", &["nightly", "doubled", "--every", "1h", "--input", "{"], 2, "", "not JSON");
    check("create", &["nightly", "", "--every", "1h"], 2, "", "starts nothing");
    check("create", &["nightly", "doubled", "--every", "1h", "--cron", "0 7 * * *"], 2, "", "cannot be used with");
    check("create", &["nightly", "doubled", "--every", "1h", "--overlap", "wait"], 2, "", "buffer-one");
    for (bound, time, says) in [
        ("--until", "30d", "an age lies in the past"),
        ("--from", "2h", "an age lies in the past"),
        ("--until", "soon", "write a day"),
        ("--until", "2023-06-01", "2023-06-01T00:00:00.000Z, has passed"),
        ("--until", "now", "has passed"),
    ] {
        check("create", &["nightly", "doubled", "--every", "1h", bound, time], 2, "", says);
    }
    check("list", &[], 0, "", "there is no schedule");
    check("create", yearly, 0, "schedule nightly is created", "");
    check("create", yearly, 0, "as it was", "");
    check("create", &["nightly", "doubled", "--every", "1h"], 1, "", "exists already");
    check("next", &["nightly", "--count", "2"], 0, "-01-01T07:00:00+00:00[UTC]", "");
    check("next", &["nightly", "--count", "0"], 2, "", "1..=1000");
    check("next", &["nigthly"], 4, "", "nigthly");
    check("next", &[], 2, "", "required");
    check("next", &["--cron", "0 7 1 7 *", "--tz", "Europe/Berlin"], 0, "-07-01T07:00:00+02:00[Europe/Berlin]", "");
    check("next", &["--cron", "0 0 31 2 *"], 0, "", "no further time");
    check("next", &["--cron", "7"], 2, "", "five fields");
    check("update", &["nightly"], 2, "", "says nothing");
    check("update", &["nightly", "--cron", "0 8 1 1 *", "--zone", "Europe/Berlin", "--limit", "9"], 0, "changed", "");
    check("update", &["nightly", "--clear", "limit"], 0, "changed", "");
    check("update", &["nightly", "--until", "2023-06-01"], 2, "", "has passed");
    check("update", &["nightly", "--from", "now", "--until", "9999-12-24"], 0, "changed", "");
    check("update", &["nightly", "--clear", "from", "--clear", "until"], 0, "changed", "");
    check("update", &["nightly", "--clear", "queue"], 2, "", "deadline");
    check("update", &["nigthly", "--limit", "9"], 4, "", "nigthly");
    check("show", &["nightly"], 0, "0 8 1 1 * (Europe/Berlin)", "");
    let three_years = &["nightly", "--from", "2023-06-01", "--until", "2026-06-01"][..];
    check("backfill", three_years, 2, "", "add --yes");
    check("backfill", &[three_years, &["--dry-run"]].concat(), 0, "2024-01-01T08:00:00+01:00[Europe/Berlin]", "");
    check("backfill", &[three_years, &["--yes", "--max", "2"]].concat(), 2, "", "more than 2 runs");
    check("backfill", &["nightly", "--from", "2026-06-01", "--until", "2023-06-01", "--yes"], 2, "", "no time in it");
    check("backfill", &[three_years, &["--yes", "--input", "{"]].concat(), 2, "", "not JSON");
    check("backfill", &[three_years, &["--yes"]].concat(), 0, "runs started: 3", "");
    check("backfill", &[three_years, &["--yes"]].concat(), 0, "occurrences that had a run before: 3", "");
    let started = shell.says(&["runs", "list", "schedule:nightly", "-o", "ids"]);
    assert_eq!(started.lines().count(), 3);
    started.lines().for_each(|run| shell.check(&["runs", "result", run], 0, "42", ""));
    let many_years = &["nightly", "--from", "2003-06-01", "--until", "2026-06-01", "--dry-run"][..];
    check("backfill", many_years, 0, "\n  ... 13 more\n  2022-01-01T08:00:00+01:00[Europe/Berlin]", "");
    check("delete", &["nightly"], 0, "schedule nightly is deleted", "");
}

/// A run that failed by its deadline is tried again with another one.
async fn a_retry_takes_a_new_deadline(database: Database) {
    let live = Live::new(database).await;
    let shells = [Shell::of(&live), Shell::over_http(&live).await];
    let working = worker(&live);
    tokio::task::spawn_blocking(move || shells.iter().for_each(retry_late_runs)).await.unwrap();
    working.stop().await;
    live.sweep().await;
}

fn retry_late_runs(shell: &Shell) {
    let late = || shell.says(&["runs", "start", "doubled", "--input", "21", "--deadline", "0s"]);
    let runs = [late(), late()];
    for run in &runs {
        shell.check(&["runs", "result", run], 5, "", "deadline");
        let help = format!("`workflow runs retry {run} --deadline 1h`");
        shell.check(&["runs", "retry", run], 1, "", &help);
    }
    shell.check(&["runs", "retry", &runs[0], "--deadline", "soon"], 2, "", "write a duration");
    shell.check(&["runs", "retry", &runs[0], "--deadline", "1h"], 0, "tried again", "");
    shell.check(&["runs", "result", &runs[0]], 0, "42", "");
    let others = ["runs", "retry", "--where", "status:failed", "--deadline", "1h", "--yes"];
    shell.check(&others, 0, "1 changed", "");
    shell.check(&["runs", "result", &runs[1]], 0, "42", "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_takes_a_new_deadline_on_sqlite() {
    a_retry_takes_a_new_deadline(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_takes_a_new_deadline_on_postgres() {
    a_retry_takes_a_new_deadline(Database::Postgres).await;
}

/// Each list is read on to its end by the cursors that its pages tell.
async fn lists_are_read_on_to_their_ends(database: Database) {
    let live = Live::new(database).await;
    let shell = Shell::of(&live);
    for name in ["a", "b", "c"] {
        shell.says(&["runs", "start", "without_code", "--queue", "gated", "--gate", name]);
        shell.says(&["schedules", "create", name, "without_code", "--every", "1h"]);
        shell.says(&["runs", "start", "asks"]);
    }
    let working = worker(&live);
    until("three approvals are asked for", async || {
        (shell.says(&["approvals", "list", "-o", "ids"]).lines().count() == 3).then_some(())
    })
    .await;
    for (list, count) in [
        (&["runs", "list"][..], 6),
        (&["queues", "gates", "gated"][..], 3),
        (&["schedules", "list"][..], 3),
        (&["approvals", "list"][..], 3),
    ] {
        let (mut ids, mut cursor) = (Vec::new(), None);
        loop {
            let at: Vec<&str> = cursor.iter().flat_map(|cursor: &String| ["--cursor", cursor.as_str()]).collect();
            let arguments = [list, &["--limit", "2", "-o", "ids"], &at].concat();
            let page = shell.run(&arguments);
            assert!(page.status.success(), "{arguments:?}: {page:?}");
            ids.extend(String::from_utf8(page.stdout.clone()).unwrap().lines().map(str::to_owned));
            cursor = cursor_of(&page);
            if cursor.is_none() || ids.len() > count {
                break;
            }
        }
        let different: std::collections::BTreeSet<&String> = ids.iter().collect();
        assert_eq!((ids.len(), different.len()), (count, count), "{list:?}: {ids:?}");
        shell.check(&[list, &["--cursor", "x"]].concat(), 2, "", "cursor");
    }
    working.stop().await;
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_are_read_on_to_their_ends_on_sqlite() {
    lists_are_read_on_to_their_ends(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_are_read_on_to_their_ends_on_postgres() {
    lists_are_read_on_to_their_ends(Database::Postgres).await;
}

fn check_shapes(shell: &Shell, Runs { good, bad, .. }: &Runs) {
    assert_snapshot("show", &shell.says(&["runs", "show", good]));
    assert_snapshot("show_json", &shell.says(&["runs", "show", good, "--json"]));
    shell.check(&["runs", "result", bad], 5, "", "card declined");
    assert_snapshot("show_failed", &shell.says(&["runs", "show", bad, "--ascii"]));
    assert_snapshot("list", &shell.says(&["runs", "list", "workflow:fails"]));
    assert_snapshot("history", &shell.says(&["runs", "history", bad]));
    assert_snapshot("queues", &shell.says(&["queues", "list"]));
    assert_snapshot("limits", &shell.says(&["limits", "list"]));
    assert_snapshot("workflows", &shell.says(&["workflows"]));
}

async fn check_statistics(shell: &Shell) {
    until("all runs are counted", async || {
        let page: StatsPage = serde_json::from_str(&shell.says(&["stats", "--json"])).ok()?;
        let total = &page.groups.first()?.total;
        (total.begun == 7 && total.failed == 2 && total.succeeded == 5).then_some(())
    })
    .await;
    let by_workflow = ["stats", "--by", "workflow", "--ascii"];
    assert_snapshot("stats_by_workflow", &shell.says(&by_workflow));
    shell.check(&["stats", "--by", "workflow", "-o", "ids"], 0, "doubled\nfails\n", "");
    shell.check(&["stats", "--since", "2h", "--ascii"], 0, "# ", "");
    shell.check(&["stats", "--since", "30d", "--step", "day"], 0, "total", "");
    shell.check(&["stats", "--workflow", "none"], 0, "", "nothing was counted");
    shell.check(&["stats", "--since", "soon"], 2, "", "write -15m");
    shell.check(&["stats", "--since", "now"], 2, "", "is empty");
    shell.check(&["stats", "--since", "365d", "--step", "minute"], 2, "", "longer steps");
    assert_snapshot("failures", &shell.says(&["failures"]));
    let page: FailurePage = serde_json::from_str(&shell.says(&["failures", "--json"])).unwrap();
    assert!(page.complete && page.items.len() == 2, "{page:?}");
    shell.check(&["failures", "--limit", "1"], 0, "fails", "more groups");
    shell.check(&["failures", "--workflow", "doubled"], 0, "", "nothing has failed");
    shell.check(&["failures", "--since", "1h", "-o", "ids"], 0, &page.items[0].last_run.to_string(), "");
    shell.check(&["failures", "--limit", "0"], 2, "", "1 to 1000");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_do_what_they_say_on_sqlite() {
    commands(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_do_what_they_say_on_postgres() {
    commands(Database::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_do_what_they_say_by_a_server() {
    let live = Live::new(Database::Sqlite).await;
    let mut shell = Shell::over_http(&live).await;
    check_commands(&shell, &live).await;
    for token in [None, Some("wrong")] {
        shell.token = token;
        shell.check(&["counts"], 3, "", "set WORKFLOW_TOKEN to the token of the server");
    }
    shell.url.push_str("/elsewhere");
    shell.check(&["counts"], 4, "", "no such path");
    live.sweep().await;
    // Nothing listens on a port that is closed again.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    shell.url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    shell.check(&["counts"], 9, "", "cannot be reached");
}

#[test]
fn a_command_without_a_database_says_how_to_name_one() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("none.db");
    let file = file.to_str().unwrap();
    let says = |arguments: &[&str], code, err| check(arguments, &program(arguments).output().unwrap(), code, "", err);
    says(&["runs", "list"], 2, "WORKFLOW_DATABASE_URL");
    says(&["--to", file, "runs", "list"], 9, "there is no database file");
    says(&["--to", "mysql://host/db", "runs", "list"], 2, "unknown scheme");
    let away = ["--to", "postgres://user:s3cr3t@127.0.0.1:1/none"];
    for verb in [&["runs", "list"][..], &["migrate"], &["run", "--flows", "--log", "off"], &["serve", "--log", "off"]] {
        let address: &[&str] = if verb[0] == "serve" { &["--http", "127.0.0.1:0"] } else { &[] };
        let arguments = [&away[..], verb, address].concat();
        let output = program(&arguments).output().unwrap();
        check(&arguments, &output, 9, "", "the database cannot be reached: ");
        check(&arguments, &output, 9, "", "Connection refused");
        check(&arguments, &output, 9, "", "help: check that the server runs, and the host");
        assert!(!String::from_utf8_lossy(&output.stderr).contains("s3cr3t"), "{output:?}");
    }
    // Nothing can be said about a file below a file, as about one in a directory without rights.
    let below = format!("{}/none.db", env!("CARGO_BIN_EXE_workflow"));
    says(&["--to", &below, "runs", "list"], 9, "cannot write the database file");
    says(&["--to", file, "--timeout", "0s", "runs", "list"], 2, "give --timeout a time in this range");
    says(&["--to", "https://ada:pw@host", "runs", "list"], 2, "a password");
    says(&["--to", "https://host", "migrate"], 2, "cannot ask a server");
    says(&["--to", file, "--timeout", "soon", "runs", "list"], 2, "write a duration");
    says(&["--to", file, "run", "--flows", "--concurrency", "0"], 2, "0 is not in 1..");
    for arguments in [&["serve", "--http"][..], &["run", "--http"], &["mcp", "--http"], &["dashboard", "--listen"]] {
        let arguments = [&["--to", file][..], arguments, &["localhost:7792"]].concat();
        says(&arguments, 2, "write an IP address and a port, as 127.0.0.1:7777");
    }
    says(&["frobnicate"], 2, "unrecognized subcommand");
    says(&[], 2, "Usage: workflow");
    assert!(!std::path::Path::new(file).exists(), "a command that only looks creates no database");
    says(&["--to", file, "migrate"], 0, "up to date");
    says(&["--to", file, "runs", "list"], 0, "no run matches");
    says(&["--to", &format!("sqlite://{file}"), "runs", "list"], 0, "no run matches");
}

#[test]
fn help_and_completions_are_printed() {
    let says = |arguments: &[&str], out| check(arguments, &program(arguments).output().unwrap(), 0, out, "");
    says(&["--help"], "Exit codes:");
    says(&["--version"], env!("CARGO_PKG_VERSION"));
    says(&["runs", "cancel", "--help"], "--where");
    says(&["completions", "bash"], "_workflow()");
    says(&["completions", "zsh"], "#compdef workflow");
}

#[test]
fn the_demonstration_kills_a_worker_and_the_run_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    for arguments in [&["--to", "demo.db", "demo"][..], &["demo", "--to", "demo.db"]] {
        let refused = program(arguments).current_dir(directory.path()).output().unwrap();
        check(arguments, &refused, 2, "", "leave out --to");
    }
    let mut demo = program(&["demo"]);
    demo.env("WORKFLOW_DATABASE_URL", "postgres://user@127.0.0.1:1/none").env("TMPDIR", directory.path());
    let output = demo.output().unwrap();
    check(&["demo"], &output, 0, "", "SIGKILL, in the middle of ship");
    let told = String::from_utf8(output.stderr).unwrap();
    for line in [
        "reserve   begun 1, ended 1",
        "charge    begun 1, ended 1",
        "ship      begun 2, ended 1, 1 cut off by the kill",
        "notify    begun 1, ended 1",
        "is on its way",
    ] {
        assert!(told.contains(line), "not {line:?} in {told}");
    }
    // The last line is a command, which shows where the worker died.
    let command = told.lines().last().and_then(|line| line.strip_prefix("Look at the run:  workflow ")).unwrap();
    let arguments: Vec<&str> = command.split(' ').collect();
    let shown = program(&arguments).env("TERM", "xterm").output().unwrap();
    check(&arguments, &shown, 0, "⚡", "");
    check(&arguments, &shown, 0, "a worker died", "");
}

/// A new user follows the README alone.
#[test]
fn the_readme_leads_to_a_killed_and_resumed_run() {
    let readme = include_str!("../../../README.md");
    let see_it = readme.split("## See it").nth(1).unwrap().split("\n## ").next().unwrap();
    let commands: Vec<&str> = see_it.lines().filter_map(|line| line.strip_prefix("    ")).collect();
    assert!(commands.contains(&"cargo install --locked --path workflow-cli"), "{commands:?}");
    let verbs: Vec<&str> = commands.iter().filter_map(|line| line.strip_prefix("workflow ")).collect();
    assert_eq!(verbs, ["demo", "--to FILE dashboard", "new ../my-app"]);
    for verb in verbs {
        // The program knows each verb.
        let words: Vec<&str> = verb.split(' ').chain(["--help"]).collect();
        check(&words, &program(&words).output().unwrap(), 0, "Usage:", "");
    }
}

async fn a_cancel_of_many_never_terminates(database: Database) {
    let live = Live::new(database).await;
    let shell = Shell::of(&live);
    let working = worker(&live);
    let runs = [shell.says(&["runs", "start", "greets"]), shell.says(&["runs", "start", "greets"])];
    let [one, other] = [runs[0].as_str(), &runs[1]];
    until("both runs wait", async || {
        (shell.says(&["runs", "list", "status:parked", "-o", "ids"]).lines().count() == 2).then_some(())
    })
    .await;
    working.stop().await;
    until("no worker lives", async || shell.says(&["workers", "-o", "ids"]).is_empty().then_some(())).await;
    shell.check(&["runs", "cancel", one], 0, "was asked to end", "");
    let matching = ["runs", "cancel", "--where", "is:open", "--yes"];
    shell.check(&matching, 0, "was asked to end, and cleans up", "");
    for arguments in [&matching[..], &["runs", "cancel", one, other]] {
        shell.check(arguments, 0, &format!("run {other} was asked to end before"), "");
    }
    let read = piped(shell.command(&["runs", "cancel", "-"]), one);
    check(&["runs", "cancel", "-"], &read, 0, "was asked to end before", "");
    assert_eq!(shell.says(&["runs", "list", "status:parked", "-o", "ids"]).lines().count(), 2);
    shell.check(&["runs", "cancel", one], 0, "is canceled", "");
    shell.check(&["runs", "cancel", "--where", "is:open"], 2, "", "1 run matches, and nothing was changed");
    shell.check(&["runs", "cancel", one, "--dry-run"], 0, one, "1 run matches; those that have ended");
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_of_many_never_terminates_on_sqlite() {
    a_cancel_of_many_never_terminates(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_of_many_never_terminates_on_postgres() {
    a_cancel_of_many_never_terminates(Database::Postgres).await;
}
