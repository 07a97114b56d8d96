//! The tool `shell.run`. This program is its own helper, so it has no harness: `cargo test -p
//! workflow-tools --test shell -- WORD` runs the tests whose names have a word in them.
//!
//! A program of these tests that meets no limit ends by itself after a moment, and takes little.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops when it cannot continue")]

mod bounds;
mod confined;
mod flow;
mod killed;
mod programs;
mod refused;

use std::os::unix::fs::PermissionsExt;
use std::panic::catch_unwind;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use workflow_flows::{Tool, ToolCall, ToolError};
use workflow_tools::shell::{Shell, ShellBuilder, shell_helper};

/// The first argument of a process that waits for a program, for the test that kills it.
const WAITING: &str = "--wait-for-a-program";

type Test = (&'static str, fn());

/// A test by its name.
macro_rules! tests {
    ($($module:ident::$name:ident,)*) => { [$((stringify!($name), $module::$name as fn())),*] };
}

const TESTS: [Test; 22] = tests![
    programs::a_program_gets_words_and_input,
    programs::the_environment_is_what_the_operator_names,
    programs::folders_stay_below_the_root,
    programs::exit_codes_and_signals_fail_the_call,
    programs::no_error_holds_a_secret,
    programs::the_action_of_the_dialects_keeps_exit_codes,
    refused::only_listed_programs_run,
    refused::arguments_that_do_not_fit_are_refused,
    refused::a_tool_that_cannot_be_bounded_is_not_made,
    refused::a_helper_that_is_none_is_found_out,
    bounds::the_kernel_has_the_limits,
    bounds::an_endless_output_is_cut,
    bounds::a_program_cannot_take_the_processor,
    bounds::a_program_cannot_fill_the_disk,
    bounds::a_program_cannot_fill_the_memory,
    bounds::a_program_cannot_start_many_processes,
    confined::a_program_reads_and_writes_only_what_it_may,
    confined::a_program_reaches_no_server,
    killed::a_program_that_ignores_signals_is_killed_at_its_timeout,
    killed::children_end_with_their_program_and_with_the_call,
    killed::no_program_outlives_its_worker,
    flow::a_flow_runs_a_program_for_an_actor_that_may,
];

fn main() {
    shell_helper();
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--nocapture").collect();
    if let [WAITING, root] = wanted.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        return killed::wait_for_a_program(root.as_ref());
    }
    if wanted.iter().any(|argument| argument == "--list") {
        return TESTS.iter().for_each(|(name, _)| println!("{name}: test"));
    }
    let chosen = TESTS.iter().filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|word| name.contains(word)));
    let mut failed: Vec<&str> = Vec::new();
    for (name, test) in chosen {
        let passed = catch_unwind(test).is_ok();
        println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
        failed.extend((!passed).then_some(name));
    }
    assert!(failed.is_empty(), "failed: {failed:?}");
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(future)
}

/// A root that every account may write to, so that only the tool stands between it and others.
fn directory() -> TempDir {
    let directory = TempDir::new().unwrap();
    std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o777)).unwrap();
    directory
}

/// A tool with some programs, without root's rights: the kernel does not limit root's processes.
/// The account is one that nothing else uses.
fn builder(root: &Path) -> ShellBuilder {
    let builder = Shell::builder(root)
        .program("sh", "/bin/sh")
        .program("cat", "/bin/cat")
        .program("env", "/usr/bin/env")
        .program("printf", "/usr/bin/printf")
        .variable("PATH", "/usr/bin:/bin")
        .timeout(Duration::from_secs(60));
    let account = 100_000 + std::process::id();
    if rustix::process::getuid().is_root() { builder.user(account, account) } else { builder }
}

fn shell(root: &Path) -> Shell {
    builder(root).build().unwrap()
}

/// Calls a tool as a step does.
async fn call(tool: &dyn Tool, args: Value) -> Result<Value, ToolError> {
    tool.call(ToolCall::new(args, "ann", "run-1/charge")).await
}

/// The arguments for a script.
fn script(text: &str) -> Value {
    json!({ "program": "sh", "args": ["-c", text] })
}

/// The output of a script.
fn stdout(tool: &Shell, text: &str) -> String {
    block_on(call(tool, script(text))).unwrap()["stdout"].as_str().unwrap().to_owned()
}

/// The error of a call.
fn error(tool: &dyn Tool, args: Value) -> ToolError {
    block_on(call(tool, args)).expect_err("it is refused")
}

/// The processes whose command line contains this text, without this one.
fn running(mark: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let has = |path: &Path| {
        std::fs::read(path.join("cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(mark))
    };
    processes.filter(|entry| has(&entry.path())).count()
}
