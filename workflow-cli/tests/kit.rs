//! A program that `kit` makes: it works, ends when it is asked to, and has the verbs of operators.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// The example `orders`, which cargo builds beside the tests.
fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().parent().unwrap().join("examples/orders")
}

fn command(directory: &tempfile::TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(arguments).current_dir(directory.path()).stdin(Stdio::null());
    for name in ["WORKFLOW_DATABASE_URL", "WORKFLOW_SCHEMA", "RUST_LOG"] {
        command.env_remove(name);
    }
    command
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
    assert!(says(&directory, &["--help"]).contains("Usage: orders"));
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
