//! Steps that begin when the steps that they need have ended.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::stream::{FuturesUnordered, StreamExt};
use serde_json::{Map, Value};
use workflow_sdk::Result;

use super::frame::Frame;
use super::step::run_step;
use crate::graph::Step;
use crate::{ErrorClass, FlowCode, FlowError};

/// Runs the steps of a `dag`. The first failure ends it.
pub(super) async fn run_dag(frame: Frame<'_>, steps: &[Step], concurrency: Option<usize>) -> Result<Arc<Value>> {
    let frame = frame.with_siblings();
    let most = concurrency.unwrap_or(usize::MAX).max(1);
    let needed: BTreeSet<&str> = steps.iter().flat_map(|step| &step.needs).map(String::as_str).collect();
    let (mut begun, mut ended) = (vec![false; steps.len()], BTreeSet::new());
    let mut results = Map::new();
    let mut running = FuturesUnordered::new();
    loop {
        for (number, step) in steps.iter().enumerate() {
            let is_due = !begun[number] && step.needs.iter().all(|need| ended.contains(need.as_str()));
            if is_due && running.len() < most {
                begun[number] = true;
                let frame = frame.inner();
                running.push(async move {
                    let outcome = run_step(frame.clone(), step).await;
                    (number, frame.ended(outcome, |_| true).await)
                });
            }
        }
        let Some((number, outcome)) = running.next().await else { break };
        let (id, value) = (steps[number].id.as_str(), outcome?.value);
        if !needed.contains(id) {
            results.insert(id.to_owned(), Value::clone(&value));
        }
        ended.insert(id);
    }
    if let Some(stuck) = begun.iter().position(|begun| !begun) {
        let message = "the steps that it needs never end; a check would have refused this flow";
        return Err(FlowError::new(FlowCode::Tool, ErrorClass::Invalid, &steps[stuck].id, message).into());
    }
    Ok(Arc::new(Value::Object(results)))
}
