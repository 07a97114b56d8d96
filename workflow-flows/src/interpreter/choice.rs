//! `if` and `switch`.

use std::sync::Arc;

use serde_json::{Value, json};
use workflow_sdk::Result;

use super::block::run_block;
use super::evaluation::as_text;
use super::frame::Frame;
use super::mentions::Mentions;
use crate::graph::{Block, Step, Switch};
use crate::{ErrorClass, FlowCode, FlowError};

pub(super) async fn run_if(
    frame: &Frame<'_>,
    step: &Step,
    condition: &str,
    then: &Block,
    otherwise: Option<&Block>,
) -> Result<Value> {
    let holds = frame.decide(&step.id, "if", condition, &[]).await?;
    run_taken(frame, if holds { Some(then) } else { otherwise }).await
}

pub(super) async fn run_switch(frame: &Frame<'_>, step: &Step, switch: &Switch) -> Result<Value> {
    let scope = &frame.scope(&Mentions::of([&switch.value]));
    let body = || async move {
        let value = as_text(&frame.render(&step.id, "switch", &switch.value, scope).await?);
        if switch.tells || switch.cases.contains_key(&value) {
            return Ok(Some(value));
        }
        if switch.default.is_some() {
            return Ok(None);
        }
        let known: Vec<&str> = switch.cases.keys().map(String::as_str).collect();
        let message = format!("no case {value:?}, and no default; the cases are: {}", known.join(", "));
        Err(FlowError::new(FlowCode::NoCase, ErrorClass::Invalid, &step.id, message).into())
    };
    let case: Option<String> = frame.record_decision(&step.id, body).await?;
    let named = case.as_ref().and_then(|case| switch.cases.get(case));
    let output = run_taken(frame, named.or(switch.default.as_ref())).await?;
    Ok(match &switch.default {
        _ if !switch.tells => output,
        Some(_) if named.is_none() => json!({ "branch": "default", "output": output }),
        Some(_) => json!({ "branch": case, "output": output }),
        None => json!({ "branch": case, "output": output, "skipped": named.is_none() }),
    })
}

async fn run_taken(frame: &Frame<'_>, block: Option<&Block>) -> Result<Value> {
    match block {
        None => Ok(Value::Null),
        Some(block) => Ok(Arc::unwrap_or_clone(run_block(frame.inner(), block).await?)),
    }
}
