//! The program of a project that `workflow new` creates: a worker, and a command that starts a run.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

#[test]
fn the_program_of_a_new_project_runs_its_workflow() {
    let directory = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_new-app");
    let mut worker = Command::new(program).current_dir(&directory).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(worker.stderr.take().unwrap()).lines();
    assert!(log.any(|line| line.unwrap().contains("worker_started")));
    let input = r#"{"id": "A-1", "cents": 4200}"#;
    let start = ["runs", "start", "checkout", "--input", input, "--wait", "1m"];
    let started = Command::new(program).args(start).current_dir(&directory).output().unwrap();
    worker.kill().unwrap();
    worker.wait().unwrap();
    assert!(started.status.success(), "{started:?}");
    let result = String::from_utf8(started.stdout).unwrap();
    assert!(result.contains("payment-"), "{result}");
}
