//! Commands that show something again whenever it has changed.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use workflow_sdk::prelude::*;
use workflow_tests::{Database, Live};

/// A command that goes on, and its lines.
struct Watching {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Watching {
    fn start(live: &Live, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_workflow"));
        command.args(arguments).env("WORKFLOW_DATABASE_URL", live.url()).stdout(Stdio::piped());
        match live.schema() {
            Some(schema) => command.env("WORKFLOW_SCHEMA", schema),
            None => command.env_remove("WORKFLOW_SCHEMA"),
        };
        let mut child = command.stdin(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Returns the next line. `None`: the command has ended.
    fn line(&mut self) -> Option<String> {
        self.lines.next().map(Result::unwrap)
    }

    fn until(&mut self, is_it: impl Fn(&str) -> bool) {
        while !is_it(&self.line().expect("the command goes on")) {}
    }
}

/// No command outlives its test.
impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn runs_are_shown_again_when_they_change(database: Database) {
    let live = Live::new(database).await;
    let start = async || live.client.start_by_name("greets", &json!("Ada")).await.unwrap().id();
    let first = start().await;
    let mut list = Watching::start(&live, &["runs", "list", "workflow:greets", "--watch", "-o", "ids"]);
    let mut shown = Watching::start(&live, &["runs", "show", &first.to_string(), "--watch", "-o", "jsonl"]);
    let (mut list, mut shown) = tokio::task::spawn_blocking(move || {
        list.until(|line| line == first.to_string());
        let run: Value = serde_json::from_str(&shown.line().unwrap()).unwrap();
        assert_eq!(run["status"], "pending");
        (list, shown)
    })
    .await
    .unwrap();
    let second = start().await;
    live.client.cancel(first).await.unwrap();
    tokio::task::spawn_blocking(move || {
        list.until(|line| line == second.to_string());
        shown.until(|line| serde_json::from_str::<Value>(line).unwrap()["status"] == "canceled");
        assert_eq!(shown.line(), None, "the run has ended");
        assert_eq!(shown.child.wait().unwrap().code(), Some(0));
    })
    .await
    .unwrap();
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_are_shown_again_when_they_change_on_sqlite() {
    runs_are_shown_again_when_they_change(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_are_shown_again_when_they_change_on_postgres() {
    runs_are_shown_again_when_they_change(Database::Postgres).await;
}
