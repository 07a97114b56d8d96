//! Every document of the dialect `opcode` in `workflow-flows/tests/opcode`, run unchanged on both
//! databases: requests go to a server on this machine, the test answers the decisions, files stand
//! below a temporary root, and the programs are scripts of this test under the names that the
//! documents call. This program is its own helper, so it has no harness: `cargo test -p
//! workflow-tools --test opcode -- WORD` runs the documents whose names have a word in them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops when it cannot continue")]

mod cases;
mod place;
mod server;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use cases::{CASES, Case};
use place::Place;
use serde_json::{Value, json};
use workflow_flows::check::{Catalog, Code, Options, check};
use workflow_flows::expression::jq_helper;
use workflow_flows::graph::Flow;
use workflow_flows::{FlowClient, FlowRuntime, FlowStart, flow};
use workflow_sdk::RunHandle;
use workflow_tests::{Database, Live, LocalWorker};
use workflow_tools::shell::shell_helper;

/// Longer than all documents take together.
const LIMIT: Duration = Duration::from_secs(120);

fn main() {
    jq_helper();
    shell_helper();
    if std::env::args().any(|argument| argument == "--list") {
        println!("every_document_ends_as_expected: test");
        return;
    }
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    every_document_stands_in_the_table();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for database in [Database::Sqlite, Database::Postgres] {
        let all = async { tokio::time::timeout(LIMIT, every_document_ends_as_expected(database, &wanted)).await };
        assert!(runtime.block_on(all).is_ok(), "the documents had not ended after {LIMIT:?}");
    }
}

fn documents() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../workflow-flows/tests/opcode")
}

fn every_document_stands_in_the_table() {
    let files = std::fs::read_dir(documents()).unwrap().map(|entry| entry.unwrap().path());
    let names = files.filter(|path| path.extension().is_some_and(|ending| ending == "json"));
    let names: BTreeSet<String> = names.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    let listed: BTreeSet<String> = CASES.iter().map(|case| case.document.to_owned()).collect();
    assert_eq!(names, listed, "left: the files; right: the table");
}

/// Checks a document with the tools of the worker, and lowers it.
fn read(case: &Case, tools: &Catalog) -> Result<Flow, String> {
    let source = std::fs::read_to_string(documents().join(format!("{}.json", case.document))).unwrap();
    let options = Options { catalog: Some(tools), ..Options::default() };
    let checked = check(&source, &options);
    let lacks = |code| checked.findings.iter().any(|finding| finding.code == code);
    if lacks(Code::F040) || lacks(Code::F041) {
        return Err(format!("{:?}", checked.findings));
    }
    checked.flow.ok_or_else(|| format!("{:?}", checked.findings))
}

/// Runs all documents at once, and compares their ends with the table.
async fn every_document_ends_as_expected(database: Database, wanted: &[String]) {
    let live = Live::new(database).await;
    let (place, url) = (Place::new(), server::begin().await);
    let tools = place.tools();
    let catalog = tools.iter().fold(Catalog::new(), |catalog, tool| catalog.tool(tool.name(), tool.input_schema()));
    let runtime = FlowRuntime::builder().tools(tools).client(live.client.clone()).build();
    let worker = LocalWorker::start(live.worker(runtime).register(flow));

    let (mut runs, mut faults) = (Vec::new(), Vec::new());
    let is_wanted = |case: &&Case| wanted.is_empty() || wanted.iter().any(|word| case.document.contains(word));
    for case in CASES.iter().filter(is_wanted) {
        let definition = match read(case, &catalog) {
            Ok(definition) => definition,
            Err(findings) => {
                faults.push(format!("{}: it is refused: {findings}", case.document));
                continue;
            }
        };
        let input: Value = serde_json::from_str(&case.input.replace("URL", &url)).unwrap();
        let start = FlowStart::new(definition).input(input).actor("ann");
        let run = live.client.start_definition(start).await.unwrap();
        for (key, choice) in case.decisions {
            // A signal that comes before its step waits for it.
            let answer = json!({ "choice": choice, "by": "ann" });
            run.signal(format!("decision:{key}").as_str(), &answer).await.unwrap();
        }
        runs.push((case, run));
    }
    let count = runs.len();
    for (case, run) in runs {
        let fault = fault(case, &run).await;
        println!("{} {} on {}", if fault.is_none() { "ok    " } else { "FAILED" }, case.document, database.name());
        faults.extend(fault.map(|fault| format!("{}: {fault}", case.document)));
    }
    worker.stop().await;
    live.sweep().await;
    println!("{} of {count} documents on {}", count.saturating_sub(faults.len()), database.name());
    assert!(faults.is_empty(), "on {}:\n{}", database.name(), faults.join("\n"));
}

/// Returns what is not as the table says.
async fn fault(case: &Case, run: &RunHandle<Value>) -> Option<String> {
    let output = match run.result().await {
        Ok(output) => output,
        Err(error) => return Some(format!("it failed: {error}")),
    };
    for (pointer, expected) in case.output {
        let expected: Value = serde_json::from_str(expected).unwrap();
        if output.pointer(pointer) != Some(&expected) {
            return Some(format!("{pointer} is not {expected}: {output}"));
        }
    }
    let history = run.history().await.unwrap();
    for (step, pointer, expected) in case.records {
        let expected: Value = serde_json::from_str(expected).unwrap();
        let row = history.iter().find(|row| row.step_key == *step);
        let output =
            row.and_then(|row| row.output.as_deref()).and_then(|text| serde_json::from_str::<Value>(text).ok());
        if output.as_ref().and_then(|output| output.pointer(pointer)) != Some(&expected) {
            return Some(format!("{pointer} of {step} is not {expected}: {output:?}"));
        }
    }
    None
}
