//! The conformance features of the Serverless Workflow specification. This program is its own
//! helper for jq, so it has no harness. `WORKFLOW_CNCF_FEATURES` names another directory of
//! features.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops when it cannot continue")]

mod feature;
mod server;

use std::path::{Path, PathBuf};
use std::time::Duration;

use feature::{Assertion, Scenario};
use serde_json::Value;
use workflow_flows::check::{Options, check};
use workflow_flows::expression::jq_helper;
use workflow_flows::graph::Flow;
use workflow_flows::{FlowClient, FlowError, FlowRuntime, FlowStart, flow};
use workflow_sdk::{AttemptStatus, Client, ClientError, StepAttempt};
use workflow_tools::http::Http;
use workflow_worker::Worker;

/// Longer than any scenario takes.
const LIMIT: Duration = Duration::from_secs(60);

/// The scenarios that call the public servers for which a stub stands, and those of them that pass.
const CALLING: usize = 9;
const CALLING_PASSED: usize = 7;

/// The scenarios that need nothing. All of them pass.
const ALONE: usize = 12;

fn main() {
    jq_helper();
    if std::env::args().any(|argument| argument == "--list") {
        println!("the_conformance_features: test");
        return;
    }
    the_conformance_features();
}

fn the_conformance_features() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let given = std::env::var_os("WORKFLOW_CNCF_FEATURES");
    let beside = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cncf").join(name);
    let directory = given.clone().map_or_else(|| beside("features"), PathBuf::from);
    let read = |directory: &Path| -> Vec<Scenario> {
        let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|word| name.contains(word.as_str()));
        feature::read(directory).into_iter().filter(|scenario| is_wanted(&scenario.name)).collect()
    };
    let (calling, alone) = read(&directory).into_iter().partition(Scenario::calls);
    let (alone, calling) = (run_all(alone), run_all(calling));
    println!(
        "{} of {} scenarios that need nothing, {} of {} that call a server",
        alone.0, alone.1, calling.0, calling.1
    );
    let own = run_all(read(&beside("own")));
    println!("{} of {} scenarios of this project", own.0, own.1);
    assert_eq!(own.0, own.1, "scenarios of this project");
    if given.is_none() && wanted.is_empty() {
        assert_eq!(alone, (ALONE, ALONE), "scenarios that need nothing");
        assert_eq!(calling, (CALLING_PASSED, CALLING), "scenarios that call a server");
    }
}

/// Runs scenarios. Returns how many passed, and how many there are.
fn run_all(scenarios: Vec<Scenario>) -> (usize, usize) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let address = runtime.block_on(server::begin());
    let mut passed = 0;
    for scenario in &scenarios {
        let faults = runtime.block_on(async {
            let run = tokio::time::timeout(LIMIT, run(scenario, &address));
            run.await.unwrap_or_else(|_| vec!["it had not ended in time".to_owned()])
        });
        passed += usize::from(faults.is_empty());
        println!("{} {}: {}", if faults.is_empty() { "ok    " } else { "FAILED" }, scenario.file, scenario.name);
        faults.iter().for_each(|fault| println!("       {fault}"));
    }
    (passed, scenarios.len())
}

/// The end of a workflow.
struct Ended {
    outcome: Result<Value, FlowError>,
    /// The names of the steps, in the order in which they ended.
    order: Vec<String>,
}

/// Runs one scenario. Returns what is not as it has to be.
async fn run(scenario: &Scenario, address: &str) -> Vec<String> {
    let source = scenario.definition.replace("https://petstore.swagger.io", &format!("{address}/petstore"));
    let source = source.replace("https://httpbin.org", &format!("{address}/httpbin"));
    let checked = check(&source, &Options::default());
    let Some(flow) = checked.flow else {
        let found = checked.findings.into_iter();
        return found.map(|it| format!("{}:{} {:?} {}", it.line, it.column, it.code, it.message)).collect();
    };
    let ended = execute(flow, scenario.input.clone()).await;
    scenario.assertions.iter().filter_map(|assertion| fault(assertion, &ended)).collect()
}

async fn execute(definition: Flow, input: Value) -> Ended {
    let http = Http::builder().allow_network("127.0.0.1".parse().unwrap()).build().unwrap();
    let client = Client::connect("sqlite::memory:").await.unwrap();
    let worker = Worker::new(client.clone(), FlowRuntime::builder().custom_tool(http).build()).register(flow);
    let run = client.start_definition(FlowStart::new(definition).input(input).actor("test")).await.unwrap();
    let result = tokio::select! {
        ended = worker.run() => panic!("the worker has ended: {ended:?}"),
        result = run.result() => result,
    };
    let outcome = match result {
        Ok(output) => Ok(output),
        Err(ClientError::RunFailed { error, .. }) => Err(error.downcast().expect("a flow fails with its own error")),
        Err(other) => panic!("{other}"),
    };
    Ended { outcome, order: order(&run.history().await.unwrap()) }
}

/// Returns the names of tasks in the order of their outcomes. Steps beside a task have a hyphen or
/// a sign in their names.
fn order(history: &[StepAttempt]) -> Vec<String> {
    let mut done: Vec<&StepAttempt> = history.iter().filter(|row| row.status != AttemptStatus::Running).collect();
    done.sort_by_key(|row| row.position.unwrap_or(i64::MAX));
    let names = done.into_iter().filter_map(|row| row.step_key.rsplit('/').next());
    let is_task = |name: &&str| name.chars().all(char::is_alphanumeric) && *name != "input" && *name != "exit";
    names.filter(is_task).map(str::to_owned).collect()
}

/// Returns what is wrong, if an assertion does not hold.
fn fault(assertion: &Assertion, ended: &Ended) -> Option<String> {
    if let Assertion::Unknown(sentence) = assertion {
        return Some(format!("this program does not know the sentence {sentence:?}"));
    }
    let place = |name: &String| ended.order.iter().position(|other| other == name);
    let output = ended.outcome.as_ref().ok();
    let at = |path: &str| output.and_then(|output| output.pointer(&format!("/{}", path.replace('.', "/"))));
    let holds = match assertion {
        Assertion::Completes => output.is_some(),
        Assertion::CompletesWith(expected) => output == Some(expected),
        Assertion::Faults => ended.outcome.is_err(),
        Assertion::FaultsWith(expected) => {
            let error = ended.outcome.as_ref().err();
            error.and_then(|error| serde_json::from_str(&error.message).ok()).as_ref() == Some(expected)
        }
        Assertion::Has(paths) => paths.iter().all(|path| at(path).is_some()),
        Assertion::HasValue(path, expected) => at(path) == Some(expected),
        Assertion::HasItems(path, count) => at(path).and_then(Value::as_array).map(Vec::len) == Some(*count),
        Assertion::First(name) => ended.order.first() == Some(name),
        Assertion::Last(name) => ended.order.last() == Some(name),
        Assertion::After(later, earlier) => place(earlier).is_some() && place(later) > place(earlier),
        Assertion::Unknown(_) => false,
    };
    (!holds).then(|| format!("{assertion:?}: found {:?}, ran {:?}", ended.outcome, ended.order))
}
