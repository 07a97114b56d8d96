//! Runs flows until it is killed: `flow_worker URL SCHEMA CALLS`. On SQLite the schema is empty.
//! The tools are those of the tests of flows. `echo` and `flaky` write the key of each call as a
//! line of the file CALLS, which outlives the process. It is also the helper for jq of the tests.

use std::fs::{OpenOptions, read_to_string};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::{Calls, echo, runtime, steps};
use serde_json::{Value, json};
use workflow_flows::expression::{Evaluator, jq_helper};
use workflow_flows::{ErrorClass, FlowStore, ToolCall, ToolError, flow};
use workflow_sdk::Client;
use workflow_worker::{LapsedLease, Worker};

#[path = "../../../workflow-flows/tests/common/mod.rs"]
mod common;

/// Writes a call down. Returns the number of calls with its key so far, by all processes.
fn note(file: &Path, call: &ToolCall) -> Result<usize, ToolError> {
    let failed = |error: std::io::Error| ToolError::new(ErrorClass::Invalid, error.to_string());
    let mut calls = OpenOptions::new().create(true).append(true).open(file).map_err(failed)?;
    calls.write_all(format!("{}\n", call.idempotency_key).as_bytes()).map_err(failed)?;
    let text = read_to_string(file).map_err(failed)?;
    Ok(text.lines().filter(|line| *line == call.idempotency_key).count())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    jq_helper();
    let mut arguments = std::env::args().skip(1);
    let (Some(url), Some(schema), Some(calls)) = (arguments.next(), arguments.next(), arguments.next()) else {
        return Err("usage: flow_worker URL SCHEMA CALLS".into());
    };
    let connect = Client::connect(url.as_str());
    let client = if schema.is_empty() { connect.await? } else { connect.schema(schema.as_str()).await? };

    let flows = FlowStore::in_memory();
    let mut child = steps(json!([echo("in", json!("{{input}}")), echo("out", json!("{{steps.in + 1}}"))]));
    child.name = "child".to_owned();
    flows.deploy(&child, "ann", None).await?;

    let echoes = PathBuf::from(calls);
    let flakes = echoes.clone();
    let runtime = runtime(&Calls::default())
        .evaluator(Evaluator::new())
        .flows(flows)
        .tool("echo", move |args: Value, call: ToolCall| {
            let noted = note(&echoes, &call);
            async move { noted.map(|_| args) }
        })
        .tool("flaky", move |args: Value, call: ToolCall| {
            let noted = note(&flakes, &call);
            async move {
                match noted? {
                    1 => Err(ToolError::new(ErrorClass::Unavailable, "not yet")),
                    _ => Ok(args),
                }
            }
        })
        .build();
    // A body that ends late is not called again, so a slow machine does not add calls.
    let worker = Worker::new(client, runtime).register(flow).lapsed_lease(LapsedLease::LetBodiesEnd);
    worker.lease(Duration::from_millis(500)).linger(Duration::ZERO).run().await?;
    Ok(())
}
