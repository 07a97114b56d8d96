//! Programs end with their call, and so does what they have started.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use workflow_flows::ErrorClass;
use workflow_tests::until;

use crate::{WAITING, block_on, call, directory, error, running, script, shell};

/// Waits until no process has this word.
async fn gone(word: &str) {
    until("nothing of it runs", async || (running(word) == 0).then_some(())).await;
}

pub(crate) fn a_program_that_ignores_signals_is_killed_at_its_timeout() {
    let root = directory();
    let begun = Instant::now();
    let mut args = script("trap '' TERM INT HUP; for n in 1 2 3; do sleep 61.125; done");
    args["timeout"] = json!("300ms");
    let late = error(&shell(root.path()), args);
    assert_eq!(late.class, ErrorClass::Timeout);
    assert!(late.message.contains("within 300ms"), "{late}");
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    block_on(gone("61.125"));
}

pub(crate) fn children_end_with_their_program_and_with_the_call() {
    let root = directory();
    let shell = shell(root.path());
    // One stays in the group, one leaves it, one is a child of a child. All hold the output open.
    let starts = "sleep 62.125 & setsid sleep 62.125 & sh -c 'sleep 62.125 & wait' & ";
    let begun = Instant::now();
    let result = block_on(call(&shell, script(&format!("{starts} sleep 0.1; echo begun")))).unwrap();
    assert_eq!(result["stdout"], "begun\n");
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    block_on(gone("62.125"));
    block_on(async {
        let calling = tokio::spawn(async move { call(&shell, script(&format!("{starts} wait"))).await });
        // The script has the word three times, and so has each of its processes.
        until("the children run", async || (running("62.125") >= 5).then_some(())).await;
        calling.abort();
        gone("62.125").await;
    });
}

/// Waits for a program until this process is killed.
pub(crate) fn wait_for_a_program(root: &Path) {
    let _ = block_on(call(&shell(root), script("exec sleep 63.125")));
}

pub(crate) fn no_program_outlives_its_worker() {
    let root = directory();
    let mut worker = Command::new(std::env::current_exe().unwrap());
    let mut worker = worker.arg(WAITING).arg(root.path()).stdout(Stdio::null()).spawn().unwrap();
    block_on(until("the program runs", async || (running("sleep\u{0}63.125") == 1).then_some(())));
    worker.kill().unwrap();
    worker.wait().unwrap();
    block_on(gone("63.125"));
}
