//! A program that `kit` makes: it works, ends when it is asked to, and has the verbs of operators.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use workflow_tests::{Database, Live};

/// The example `orders`, which cargo builds beside the tests.
fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().parent().unwrap().join("examples/orders")
}

fn command(directory: &tempfile::TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(arguments).current_dir(directory.path()).stdin(Stdio::null());
    for name in ["WORKFLOW_DATABASE_URL", "ORDERS_DATABASE_URL", "WORKFLOW_SCHEMA", "WORKFLOW_HTTP_TOKEN", "RUST_LOG"] {
        command.env_remove(name);
    }
    command
}

#[test]
fn a_variable_with_the_name_of_the_program_names_its_database() {
    let directory = tempfile::tempdir().unwrap();
    let migrate = |variables: &[(&str, &str)]| {
        let mut command = command(&directory, &["migrate"]);
        let output = command.envs(variables.iter().copied()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    let exists = |file: &str| directory.path().join(file).exists();
    migrate(&[("ORDERS_DATABASE_URL", "own.db")]);
    assert!(exists("own.db") && !exists("orders.db"));
    migrate(&[("ORDERS_DATABASE_URL", "other.db"), ("WORKFLOW_DATABASE_URL", "general.db")]);
    assert!(exists("general.db") && !exists("other.db"));
    migrate(&[("ORDERS_DATABASE_URL", "")]);
    assert!(exists("orders.db"), "the database of the code");
    let examine = |variables: &[(&str, &str)], arguments: &[&str], words: &str| {
        let mut command = command(&directory, &[&["doctor"][..], arguments].concat());
        let output = command.envs(variables.iter().copied()).output().unwrap();
        let told = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && told.contains(words), "not {words:?} in {told}");
    };
    examine(&[], &[], "orders.db, as the program says");
    examine(&[("ORDERS_DATABASE_URL", "own.db")], &[], "own.db, as the variable ORDERS_DATABASE_URL says");
    let both = [("ORDERS_DATABASE_URL", "own.db"), ("WORKFLOW_DATABASE_URL", "general.db")];
    examine(&both, &[], "general.db, as the variable WORKFLOW_DATABASE_URL says");
    examine(&both, &["--to", "own.db"], "own.db, as --to says");
}

fn run(directory: &tempfile::TempDir, arguments: &[&str]) -> Output {
    command(directory, arguments).output().unwrap()
}

fn says(directory: &tempfile::TempDir, arguments: &[&str]) -> String {
    let output = run(directory, arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// Waits until the worker says that it has started.
fn started(child: &mut Child) -> BufReader<std::process::ChildStderr> {
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while log.read_line(&mut line).unwrap() > 0 {
        if line.contains("worker_started") {
            return log;
        }
        line.clear();
    }
    panic!("the worker ended before it started");
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(child.id().cast_signed()).unwrap(), signal).unwrap();
}

#[test]
fn one_program_works_and_operates() {
    let directory = tempfile::tempdir().unwrap();
    let refused = run(&directory, &["runs", "list"]);
    assert_eq!(refused.status.code(), Some(9), "only `run` and `migrate` make tables: {refused:?}");
    for (arguments, is_json) in [(&["--color", "never"][..], false), (&["run", "--log", "json"][..], true)] {
        let mut child = command(&directory, arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut log = started(&mut child);
        let result = says(&directory, &["runs", "start", "checkout", "--input", "7", "--wait", "1m"]);
        assert_eq!(result, "\"parcel 7 is on its way\"");
        assert!(says(&directory, &["doctor"]).contains("1 worker lives"));
        signal(&child, Signal::TERM);
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut log, &mut rest).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "it ends as it was asked to: {rest}");
        assert!(rest.contains("worker_stopped"), "{rest}");
        assert_eq!(rest.lines().all(|line| line.starts_with('{')), is_json, "{rest}");
    }
    let id = says(&directory, &["runs", "list", "--limit", "1", "-o", "ids"]);
    assert!(says(&directory, &["runs", "show", &id]).contains("ship"));
    assert!(says(&directory, &["preflight"]).contains('0'), "no run is unfinished");
    let preflight = |arguments: &[&str]| -> (Option<i32>, serde_json::Value) {
        let output = run(&directory, &[&["preflight", "--json"][..], arguments].concat());
        (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}")))
    };
    let (code, report) = preflight(&[]);
    assert_eq!((code, &report["clean"], &report["fits"]), (Some(0), &true.into(), &0.into()), "{report}");
    let fits = says(&directory, &["replay", &id]);
    assert_eq!(fits, format!("run {id} fits this code: it ends with an output"));
    let json: serde_json::Value = serde_json::from_str(&says(&directory, &["replay", &id, "--json"])).unwrap();
    assert_eq!((&json["fits"], &json["outcome"]), (&true.into(), &"succeeds".into()), "{json}");
    // No worker lives, but the program declares how long runs stay.
    let counted: serde_json::Value =
        serde_json::from_str(&says(&directory, &["prune", "--dry-run", "--json"])).unwrap();
    assert_eq!(counted, serde_json::json!({ "items": [], "deleted": 0, "kept": 0 }));
    let other = says(&directory, &["runs", "start", "nothing", "--input", "1", "-o", "ids"]);
    let (code, report) = preflight(&["--strict"]);
    let unregistered = serde_json::json!([{ "workflow": "nothing", "version": "1", "runs": 1 }]);
    assert_eq!((code, &report["clean"], &report["unregistered"]), (Some(1), &false.into(), &unregistered), "{report}");
    let refusals = [(&other[..], 1, "not registered"), ("00000000-0000-7000-8000-000000000000", 4, "no run")];
    for (run_id, code, says) in refusals {
        let refused = run(&directory, &["replay", run_id]);
        assert_eq!(refused.status.code(), Some(code), "{refused:?}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains(says), "{refused:?}");
    }
    assert!(says(&directory, &["--help"]).contains("Usage: orders"));
}

/// The verbs that need the code of a program refuse tables that a later release has made.
#[tokio::test]
async fn the_verbs_of_a_worker_refuse_a_newer_database() {
    let live = Live::new(Database::Sqlite).await;
    let directory = tempfile::tempdir().unwrap();
    let mut raw = live.raw().await;
    raw.execute("UPDATE workflow_schema SET version = version + 1000").await;
    let run_id = "01900000-0000-7000-8000-000000000000";
    let commands: [&[&str]; 6] =
        [&[], &["run", "--once"], &["run", "--no-migrate"], &["preflight"], &["replay", run_id], &["prune", "--yes"]];
    for arguments in commands {
        let refused = run(&directory, &[arguments, &["--to", &live.url()]].concat());
        assert_eq!(refused.status.code(), Some(9), "{arguments:?}: {refused:?}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains("this program knows up to"), "{refused:?}");
    }
    drop(raw);
    live.sweep().await;
}

/// A worker that works once drives what is due in its queues, and leaves everything else. `to`
/// names the database.
fn works_once(directory: &tempfile::TempDir, to: &[&str]) {
    let says = |arguments: &[&str]| says(directory, &[arguments, to].concat());
    let start = |more: &[&str]| says(&[&["runs", "start", "checkout", "-o", "ids", "--input"][..], more].concat());
    let ended = || says(&["runs", "list", "is:ended", "-o", "ids"]);
    let once = ["run", "--once", "--log", "off"];
    says(&once);
    assert_eq!(ended(), "", "nothing was due");
    let (due, later) = (start(&["7"]), start(&["8", "--in", "1h"]));
    let mail = start(&["9", "--queue", "mail"]);
    says(&once);
    assert_eq!(ended(), due, "neither the delayed run nor that of another queue");
    assert_eq!(says(&["runs", "result", &due, "--wait", "0s"]), "\"parcel 7 is on its way\"");
    let other = start(&["10"]);
    let of_queues = says(&["run", "--once", "--queues", "mail,reports", "--log", "off"]);
    assert_eq!(of_queues, "", "the standard output holds data alone");
    assert_eq!(says(&["runs", "result", &mail, "--wait", "0s"]), "\"parcel 9 is on its way\"");
    let open = says(&["runs", "list", "is:open", "-o", "ids"]);
    assert!(open.contains(&other) && open.contains(&later) && open.lines().count() == 2, "{open}");
    for _ in 0..20 {
        start(&["11"]);
    }
    says(&["run", "--once", "--concurrency", "2", "--log", "off"]);
    assert_eq!(says(&["runs", "list", "is:open", "-o", "ids"]), later, "more than one claim");
    let refused = run(directory, &[&["run", "--once", "--queues", "mail,"][..], to].concat());
    assert_eq!(refused.status.code(), Some(1), "a queue has a name: {refused:?}");
}

#[test]
fn a_worker_that_works_once_ends_when_nothing_is_due_on_sqlite() {
    works_once(&tempfile::tempdir().unwrap(), &[]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_works_once_ends_when_nothing_is_due_on_postgres() {
    let live = Live::new(Database::Postgres).await;
    let (url, schema) = (live.url(), live.schema().unwrap().to_owned());
    let works = move || works_once(&tempfile::tempdir().unwrap(), &["--to", &url, "--schema", &schema]);
    tokio::task::spawn_blocking(works).await.unwrap();
    live.sweep().await;
}

/// Returns the address that the program listens on, from its log.
fn address(child: &mut Child) -> (String, BufReader<std::process::ChildStderr>) {
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while log.read_line(&mut line).unwrap() > 0 {
        let of_http = line.trim_end().split_once("address\":\"").filter(|_| line.contains("listening for HTTP"));
        if let Some((_, address)) = of_http {
            return (address.split('"').next().unwrap().to_owned(), log);
        }
        line.clear();
    }
    panic!("the program ended before it listened");
}

/// Asks for a path; returns the status and the whole answer.
fn get(address: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.unwrap_or_else(|| panic!("no status: {answer}")), answer)
}

/// Asks until the answer has this status.
fn until_status(address: &str, path: &str, status: u16) -> String {
    let limit = Instant::now() + Duration::from_secs(20);
    loop {
        let (now, answer) = get(address, path);
        if now == status {
            return answer;
        }
        assert!(Instant::now() < limit, "{path} answers {now}, not {status}: {answer}");
        std::thread::yield_now();
    }
}

/// A worker on a port: it is ready once it works, counts what it does, and is not ready any more
/// while a last step ends.
#[test]
fn a_worker_serves_its_health_its_metrics_and_the_interface() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["run", "--log", "json", "--http", "127.0.0.1:0"];
    let mut child = command(&directory, &arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let (address, mut log) = address(&mut child);
    until_status(&address, "/readyz", 200);
    assert_eq!(get(&address, "/healthz").0, 200);
    says(&directory, &["runs", "start", "checkout", "--input", "7", "--wait", "1m"]);
    let held = directory.path().join("held");
    std::fs::write(&held, "").unwrap();
    let id = says(&directory, &["runs", "start", "checkout", "--input", "8", "-o", "ids"]);
    let (status, runs) = get(&address, "/api/v1/runs");
    assert!(status == 200 && runs.contains(&id), "{runs}");
    let shown = get(&address, "/metrics").1;
    assert!(shown.contains("text/plain; version=0.0.4"), "{shown}");
    for line in [
        "workflow_runs_ended_total{queue=\"default\",workflow=\"checkout\",version=\"1\",outcome=\"succeeded\"} 1",
        "workflow_steps_total{workflow=\"checkout\",step=\"ship\",outcome=\"succeeded\"} 1",
        "workflow_step_duration_seconds_bucket{workflow=\"checkout\",step=\"ship\",le=\"+Inf\"} 1",
        "workflow_database_up 1",
        "workflow_queue_workers{queue=\"default\"} 1",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line} is missing:\n{shown}");
    }
    until_contains(&address, "workflow_worker_runs 1\n");
    signal(&child, Signal::TERM);
    let answer = until_status(&address, "/readyz", 503);
    assert!(answer.contains("or stops"), "{answer}");
    assert_eq!(get(&address, "/healthz").0, 200, "it lives until its last step has ended");
    std::fs::remove_file(&held).unwrap();
    let mut rest = String::new();
    log.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{rest}");
    assert!(TcpStream::connect(&address).is_err(), "the port is closed");
}

fn until_contains(address: &str, line: &str) {
    let limit = Instant::now() + Duration::from_secs(20);
    while !get(address, "/metrics").1.contains(line) {
        assert!(Instant::now() < limit, "{line}");
        std::thread::yield_now();
    }
}

#[test]
fn the_interface_is_served_without_a_worker_and_ends_as_it_is_asked() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["serve", "--log", "json", "--http", "127.0.0.1:0"];
    let refused = run(&directory, &arguments);
    assert_eq!(refused.status.code(), Some(9), "it makes no tables: {refused:?}");
    says(&directory, &["migrate"]);
    let mut child = command(&directory, &arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let (address, _log) = address(&mut child);
    assert_eq!(get(&address, "/readyz").0, 200);
    assert!(get(&address, "/api/v1/counts").1.contains("\"due\""));
    assert!(get(&address, "/metrics").1.contains("workflow_runs{state=\"due\"} 0"));
    let taken = run(&directory, &["serve", "--http", &address]);
    assert_eq!(taken.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&taken.stderr).contains("cannot listen on"), "{taken:?}");
    signal(&child, Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// The run of a killed program is finished by the next one.
#[test]
fn a_killed_program_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    says(&directory, &["migrate"]);
    let id = says(&directory, &["runs", "start", "checkout", "--input", "1", "--in", "1s"]);
    let mut first = command(&directory, &[]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let _log = started(&mut first);
    signal(&first, Signal::KILL);
    first.wait().unwrap();
    let mut second = command(&directory, &[]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let _log = started(&mut second);
    assert_eq!(says(&directory, &["runs", "result", &id, "--wait", "1m"]), "\"parcel 1 is on its way\"");
    signal(&second, Signal::KILL);
    second.wait().unwrap();
}

const PARCELS: &str = "flow: 1\nname: parcels\ndo: [ { id: a, tool: pack, args: \"{{input}}\" } ]\n";

/// Writes a flow, and one with a misspelled tool.
fn write_flows(directory: &tempfile::TempDir) {
    std::fs::write(directory.path().join("good.yaml"), PARCELS).unwrap();
    std::fs::write(
        directory.path().join("bad.yaml"),
        PARCELS.replace("tool: pack", "tool: pakc").replace("name: parcels", "name: letters"),
    )
    .unwrap();
}

#[test]
fn a_check_asks_the_tools_of_the_program() {
    let directory = tempfile::tempdir().unwrap();
    write_flows(&directory);
    let refused = run(&directory, &["flow", "check", "good.yaml", "--connect"]);
    assert_eq!(refused.status.code(), Some(9), "it makes no tables: {refused:?}");
    says(&directory, &["migrate"]);
    assert!(says(&directory, &["flow", "check", "bad.yaml"]).contains("is valid"), "nothing is asked");
    assert!(says(&directory, &["flow", "check", "good.yaml", "--connect", "--actor", "ann"]).contains("is valid"));
    let guest = ["good.yaml", "--connect", "--actor", "guest"];
    for (arguments, code) in [
        ([&["flow", "check"][..], &["bad.yaml", "--connect"]].concat(), "F040"),
        ([&["flow", "check"][..], &guest].concat(), "F072"),
        ([&["flow", "deploy"][..], &["good.yaml", "bad.yaml", "--connect"]].concat(), "F040"),
        ([&["flow", "deploy"][..], &guest].concat(), "F072"),
    ] {
        let refused = run(&directory, &arguments);
        let text = String::from_utf8_lossy(&refused.stdout).into_owned();
        assert!(refused.status.code() == Some(1) && text.contains(code), "{arguments:?}: {refused:?}");
    }
    assert_eq!(says(&directory, &["flow", "list", "-o", "ids"]), "", "nothing was deployed");
    says(&directory, &["flow", "deploy", "good.yaml", "--connect", "--actor", "ann"]);
    assert_eq!(says(&directory, &["flow", "list", "-o", "ids"]), "parcels");
}

#[test]
fn a_deployed_flow_runs_dry() {
    let directory = tempfile::tempdir().unwrap();
    write_flows(&directory);
    says(&directory, &["migrate"]);
    says(&directory, &["flow", "deploy", "good.yaml"]);
    let dry = ["flow", "run", "parcels", "--dry-run", "--input", "7"];
    let shown = says(&directory, &dry);
    assert!(shown.contains("pack") && shown.contains('7'), "{shown}");
    let unknown = run(&directory, &[&dry[..], &["--version", "9"]].concat());
    assert_eq!(unknown.status.code(), Some(4), "{unknown:?}");
    let missing = run(&directory, &["flow", "run", "letters", "--dry-run", "--input", "7"]);
    assert_eq!(missing.status.code(), Some(4), "{missing:?}");
    std::fs::write(directory.path().join("stubs.yaml"), "tools: { pack: { result: by hand } }\n").unwrap();
    let stubbed = says(&directory, &[&dry[..], &["--stub", "stubs.yaml"]].concat());
    assert!(stubbed.contains("by hand"), "{stubbed}");
    assert_eq!(says(&directory, &["runs", "list", "-o", "ids"]), "", "nothing was started");
}

/// Posts JSON; returns the status and the whole answer.
fn post(address: &str, path: &str, body: &serde_json::Value) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let body = body.to_string();
    let length = body.len();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\naccept: \
         application/json, text/event-stream\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.unwrap_or_else(|| panic!("no status: {answer}")), answer)
}

#[test]
fn a_worker_with_flows_serves_them() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["run", "--log", "json", "--http", "127.0.0.1:0"];
    let mut child = command(&directory, &arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let (address, mut log) = address(&mut child);
    let bad = serde_json::json!({ "document": PARCELS.replace("tool: pack", "tool: pakc").replace("name: parcels", "name: letters") });
    let (status, answer) = post(&address, "/api/v1/flows:check?connect=true", &bad);
    assert!(status == 200 && answer.contains("F040"), "{answer}");
    let start = serde_json::json!({ "document": PARCELS, "input": 7 });
    let (status, answer) = post(&address, "/api/v1/flows:run?wait=60s", &start);
    assert!(status == 200 && answer.contains("parcel 7"), "{answer}");
    let call = |tool: &str, arguments: serde_json::Value| {
        let params = serde_json::json!({ "name": tool, "arguments": arguments });
        post(
            &address,
            "/mcp",
            &serde_json::json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }),
        )
    };
    let (status, answer) = call("flow_check", serde_json::json!({ "document": bad["document"], "connect": true }));
    assert!(status == 200 && answer.contains("F040"), "{answer}");
    let (status, answer) = call("flow_deploy", serde_json::json!({ "document": PARCELS, "connect": true }));
    assert!(status == 200 && answer.contains("is_new"), "{answer}");
    assert!(get(&address, "/api/v1/flows").1.contains("parcels"));
    signal(&child, Signal::TERM);
    let mut rest = String::new();
    log.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{rest}");
}
