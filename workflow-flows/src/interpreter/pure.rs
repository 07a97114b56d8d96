//! Steps without effects: `set`, `jq` and `fail`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use workflow_sdk::Result;

use super::evaluation;
use super::frame::Frame;
use super::mentions::Mentions;
use crate::graph::{Failure, Step};
use crate::{FlowCode, FlowError};

/// Sets variables. All templates see the variables as they were before.
pub(super) async fn run_set(frame: &Frame<'_>, step: &Step, values: &BTreeMap<String, Value>) -> Result<Value> {
    let template: Value = values.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    let rendered = frame.render_step(&step.id, &step.id, "set", &template).await?;
    frame.set_vars(&rendered);
    Ok(rendered)
}

/// Runs a jq program. Several outputs become a list, none becomes null.
pub(super) async fn run_jq(frame: &Frame<'_>, step: &Step, program: &str) -> Result<Value> {
    let outputs = outputs_of(frame, &step.id, &step.id, program).await?;
    Ok(match outputs.len() {
        0 | 1 => outputs.into_iter().next().unwrap_or_default(),
        _ => Value::Array(outputs),
    })
}

/// Runs a jq program as a step of this name, on `{input, steps, vars, item, now, ..}`. A program
/// that names `idempotency_key` reads that of this step, too: equal in each attempt of a block.
pub(super) async fn outputs_of(frame: &Frame<'_>, name: &str, step: &str, program: &str) -> Result<Vec<Value>> {
    // Equal in each replay, and the program does not run in one.
    let now = jiff::Timestamp::try_from(frame.ctx.now()).unwrap_or_default();
    let mentions = &Mentions::of_jq(program);
    let scope = &frame.scope(mentions);
    let key = &mentions.root("idempotency_key").then(|| frame.call_key(step));
    let body = || async move {
        let roots = scope.iter().map(|(root, value)| (root.to_owned(), Value::clone(value)));
        let mut input: Map<String, Value> = roots.collect();
        input.insert("now".to_owned(), now.to_string().into());
        if let Some(key) = key {
            input.insert("idempotency_key".to_owned(), key.as_str().into());
        }
        let outputs = frame.runtime().evaluator().jq(program, &Value::Object(input)).await;
        outputs.map_err(|error| evaluation::failed(step, "jq", &error))
    };
    frame.record(name, body).await
}

/// Ends the block with a failure.
pub(super) async fn run_fail(frame: &Frame<'_>, step: &Step, failure: &Failure) -> Result<Value> {
    let scope = &frame.scope(&Mentions::of_source(&failure.message));
    let body = || async move {
        let message = frame.render_text(&step.id, "message", &failure.message, scope).await?;
        Err(FlowError::new(FlowCode::Wanted, failure.class, &step.id, message).into())
    };
    frame.record::<Value, _>(&step.id, body).await
}
