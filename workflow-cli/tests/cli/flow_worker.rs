//! `workflow run --flows`: a document of another engine runs without any code.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use workflow_tests::{Database, Live};

const DOCUMENT: &str = r#"{ "steps": [
    { "id": "write", "action": "fs.write", "params": { "path": "note.txt", "content": "${{inputs.text}}" } },
    { "id": "hash", "action": "crypto.hash", "params": { "data": "${{steps.write.output.size}}" }, "depends_on": ["write"] },
    { "id": "count", "action": "expr.eval", "params": { "expression": "len(inputs.text) > 2" }, "depends_on": ["hash"] },
    { "id": "tell", "action": "workflow.notify", "params": { "message": "done" }, "depends_on": ["count"] },
    { "id": "log", "action": "workflow.log", "params": { "message": "${{steps.count.output.result}}" }, "depends_on": ["count"] }
  ] }"#;

fn command(live: &Live, place: &tempfile::TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_workflow"));
    for name in ["WORKFLOW_DATABASE_URL", "WORKFLOW_TOKEN", "WORKFLOW_SCHEMA", "WORKFLOW_ACTOR", "RUST_LOG"] {
        command.env_remove(name);
    }
    command.args(arguments).args(["--to", &live.url_of_tables()]).env("USER", "ann").current_dir(place.path());
    command.envs(live.schema().map(|schema| ("WORKFLOW_SCHEMA", schema))).stdin(Stdio::null());
    command
}

/// Waits until the worker says that it has started.
fn started(child: &mut Child) -> BufReader<std::process::ChildStderr> {
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    let mut said = String::new();
    while log.read_line(&mut line).unwrap() > 0 {
        if line.contains("worker_started") {
            return log;
        }
        said.push_str(&line);
        line.clear();
    }
    panic!("the worker ended before it started: {said}");
}

/// Ends the worker with the test, also where the test fails.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn a_document_runs_without_any_code(database: Database) {
    let live = Live::new(database).await;
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("note.json"), DOCUMENT).unwrap();
    let work = ["run", "--flows", "--files", ".", "--log", "json"];
    let child = command(&live, &place, &work).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut worker = Worker(child);
    let log = started(&mut worker.0);
    // The log is read to its end, so that the worker never waits for its reader.
    let reader = std::thread::spawn(move || log.lines().map_while(Result::ok).collect::<Vec<_>>());

    let run = ["flow", "run", "note.json", "--input", r#"{"text": "abc"}"#, "--wait", "1m"];
    let output = command(&live, &place, &run).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result, json!({ "tell": { "notified": true }, "log": { "logged": true } }));
    assert_eq!(fs::read_to_string(place.path().join("note.txt")).unwrap(), "abc");
    let inbox = command(&live, &place, &["inbox", "list", "--receiver", "ann", "--json"]).output().unwrap();
    assert!(String::from_utf8_lossy(&inbox.stdout).contains("done"), "{inbox:?}");
    // This program has no tools to ask, so it says what the database knows of them.
    let asked = || {
        let output = command(&live, &place, &["flow", "check", "note.json", "--connect"]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let said = asked();
    assert!(said.contains("only the programs of the live workers ") && said.contains("fs.write"), "{said}");

    kill_process(Pid::from_raw(worker.0.id().cast_signed()).unwrap(), Signal::TERM).unwrap();
    assert_eq!(worker.0.wait().unwrap().code(), Some(0));
    assert!(reader.join().unwrap().iter().any(|line| line.contains("worker_stopped")));
    let said = asked();
    assert!(
        said.contains("no live worker runs flows, so none has these tools: ") && said.contains("fs.write"),
        "{said}"
    );
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_runs_without_any_code_on_sqlite() {
    a_document_runs_without_any_code(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_runs_without_any_code_on_postgres() {
    a_document_runs_without_any_code(Database::Postgres).await;
}

#[test]
fn the_options_of_tools_need_each_other() {
    let place = tempfile::tempdir().unwrap();
    let to = place.path().join("runs.db");
    let as_root = ["run", "--flows", "--files", ".", "--program", "sh=/bin/sh", "--program-user", "0:0"];
    for (arguments, words) in [
        (&["run"][..], "run flows with --flows"),
        // Whatever the account of this test is, these programs would be root.
        (&as_root, "add --program-user UID:GID"),
        (&["run", "--flows", "--files", ".", "--program-user", "2001:2001"], "--program <NAME=PATH>"),
        (&["run", "--flows", "--files", ".", "--program", "sh=/bin/sh", "--program-user", "ann"], "write UID:GID"),
        (&["run", "--files", "."], "--flows"),
        (&["run", "--flows", "--program", "sh=/bin/sh"], "--files"),
        (&["run", "--flows", "--network", "10.0.0.0/99"], "is not a network"),
        (&["run", "--flows", "--files", "missing"], "--files missing"),
        (&["run", "--flows", "--files", ".", "--program", "sh"], "write NAME=PATH"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_workflow"));
        command.env_remove("WORKFLOW_SCHEMA").env_remove("WORKFLOW_DATABASE_URL").current_dir(place.path());
        let output = command.args(arguments).arg("--to").arg(&to).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(words), "{arguments:?}: {said}");
    }
}
