//! Random flows against a straight interpreter, which is a plain recursive function: with a death
//! before and after each commit and in other orders of the steps, each flow has the same output.
//! Both evaluate with the evaluator of workers.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../common/mod.rs"]
mod common;
mod shapes;
mod straight;

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use common::{Calls, InPlace, runtime};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde_json::{Value, json};
use shapes::{Made, lower, shapes};
use straight::World;
use workflow_flows::{FlowStart, FlowStore, Model, ModelAnswer, ModelCall, ToolCall, ToolError, flow};
use workflow_testing::{TestEnv, TestError, idempotent_effect};

/// The number of flows in CI. `WORKFLOW_CASES=10000` runs more.
fn cases() -> u32 {
    std::env::var("WORKFLOW_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(8)
}

/// A flow that runs more steps is left out: its kills take too long, because each of its commits is
/// a run of its own.
const MOST_STEPS: u32 = 40;

/// Answers with its question.
struct Asked;

#[async_trait]
impl Model for Asked {
    async fn complete(&self, call: ModelCall) -> Result<ModelAnswer, ToolError> {
        Ok(ModelAnswer::new(json!({ "asked": call.prompt })))
    }
}

/// The end of a run: its output, or the step and the message of its failure.
fn outcome(ended: Result<Value, TestError>) -> Result<Value, Value> {
    ended.map_err(|error| match error {
        TestError::Client(workflow_sdk::ClientError::RunFailed { error, .. }) => {
            error.downcast::<workflow_flows::FlowError>().unwrap().to_value()
        }
        other => panic!("{other}"),
    })
}

fn sorted(undone: &[Value]) -> Vec<String> {
    let mut texts: Vec<String> = undone.iter().map(Value::to_string).collect();
    texts.sort_unstable();
    texts
}

async fn agrees(made: Made, n: u8, evaluator: InPlace, expected: (Result<Value, Value>, Vec<Value>)) {
    let flows = FlowStore::in_memory();
    for child in &made.children {
        flows.deploy(child, "ann", None).await.unwrap();
    }
    let undone = Arc::new(Mutex::new(Vec::new()));
    let of_tool = Arc::clone(&undone);
    let build = move || {
        let undone = Arc::clone(&of_tool);
        let undo = move |args: Value, call: ToolCall| {
            idempotent_effect("undone", &call.idempotency_key);
            undone.lock().unwrap().push(args.clone());
            async move { Ok(args) }
        };
        let runtime = runtime(&Calls::default()).evaluator(evaluator.clone()).flows(flows.clone());
        runtime.model(Asked).tool("undone", undo).build()
    };
    let env = TestEnv::with_state(build).register(flow).await.unwrap();
    let start = FlowStart::new(made.flow).input(json!({ "n": n }));
    let run = env.start(flow, start.clone()).await.unwrap();
    assert_eq!(outcome(run.finish().await), expected.0);
    assert_eq!(sorted(&undone.lock().unwrap()), sorted(&expected.1), "the undos");
    env.crash_everywhere(flow, start.clone()).await.unwrap();
    env.interleave(flow, start, [1, 2]).await.unwrap();
}

#[test]
fn random_flows_agree_with_a_straight_interpreter() {
    let mut runner = TestRunner::new(Config { cases: cases(), max_shrink_iters: 200, ..Config::default() });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let evaluator = InPlace::default();
    let ran = runner.run(&(shapes(), any::<u8>()), |(shapes, n)| {
        let made = lower(&shapes);
        let world = World::new(&evaluator, &made.children, json!({ "n": n }));
        let steps = world.counter();
        let expected = world.run(&made.flow.body);
        if steps.get() > MOST_STEPS {
            return Err(TestCaseError::reject("it has too many steps"));
        }
        runtime.block_on(agrees(made, n, evaluator.clone(), expected));
        Ok(())
    });
    ran.unwrap();
}
