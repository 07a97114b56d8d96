//! A program counter that goes from step to step.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use serde_json::{Map, Value, json};
use workflow_sdk::Result;

use super::frame::Frame;
use super::mentions::Mentions;
use super::start::Position;
use super::step::run_step;
use crate::graph::{Next, Step};
use crate::{ErrorClass, FlowCode, FlowError};

/// The visits of a step without a bound of its own.
const MAX_VISITS: u32 = 100;

/// Where a graph is.
pub(super) struct Counter {
    current: String,
    visits: BTreeMap<String, u32>,
    error: Value,
}

impl Counter {
    pub(super) fn new(start: &str) -> Self {
        Self { current: start.to_owned(), visits: BTreeMap::new(), error: Value::Null }
    }

    pub(super) fn resumed(current: String, visits: BTreeMap<String, u32>, error: Value) -> Self {
        Self { current, visits, error }
    }
}

/// Runs a graph from this place to its end.
pub(super) async fn run_graph(frame: Frame<'_>, steps: &[Step], counter: Counter) -> Result<Arc<Value>> {
    let graph = Graph { steps, visits: Mutex::new(counter.visits) };
    graph.run(frame, counter.current, counter.error).await
}

struct Graph<'g> {
    steps: &'g [Step],
    /// Branches share the counts.
    visits: Mutex<BTreeMap<String, u32>>,
}

impl Graph<'_> {
    /// Runs from this step to the end of the graph or of the branch.
    fn run<'r>(&'r self, frame: Frame<'r>, from: String, error: Value) -> BoxFuture<'r, Result<Arc<Value>>> {
        async move {
            let (mut current, mut error) = (from, error);
            loop {
                let step = self.visit(&current)?;
                let at = frame.at(|| self.position(&current, &error));
                let place = if error.is_null() { at } else { at.with_error(error.clone()) };
                let outcome = run_step(place, step).await?;
                if let Some((goto, seen)) = outcome.goto {
                    (current, error) = (goto, seen);
                    continue;
                }
                current = match &step.next {
                    None | Some(Next::Done | Next::Join) => return Ok(outcome.value),
                    Some(Next::Goto(id)) => id.clone(),
                    Some(Next::Branch { cases, otherwise }) => {
                        branch(&frame, step, cases, otherwise.as_deref(), &outcome.value).await?
                    }
                    Some(Next::Parallel { branches, join }) => {
                        let results = self.fan_out(&frame, branches).await?;
                        match join {
                            Some(join) => join.clone(),
                            None => return Ok(Arc::new(Value::Object(results))),
                        }
                    }
                };
            }
        }
        .boxed()
    }

    /// Returns the state before the visit that was just counted.
    fn position(&self, id: &str, error: &Value) -> Position {
        let mut visits = self.visits.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(count) = visits.get_mut(id) {
            *count -= 1;
        }
        Position::Graph { id: id.to_owned(), visits, error: error.clone() }
    }

    fn visit(&self, id: &str) -> Result<&Step> {
        let Some(step) = self.steps.iter().find(|step| step.id == id) else {
            let message = "there is no such step; a check would have refused this flow";
            return Err(FlowError::new(FlowCode::Tool, ErrorClass::Invalid, id, message).into());
        };
        let mut visits = self.visits.lock().unwrap_or_else(PoisonError::into_inner);
        let count = visits.entry(id.to_owned()).or_default();
        *count += 1;
        let most = step.max_visits.unwrap_or(MAX_VISITS);
        if *count > most {
            let message = format!("it was visited {most} times, which is its max_visits; end the cycle, or allow more");
            return Err(FlowError::new(FlowCode::TooOften, ErrorClass::Invalid, id, message).into());
        }
        Ok(step)
    }

    async fn fan_out(&self, frame: &Frame<'_>, branches: &[String]) -> Result<Map<String, Value>> {
        let frame = &frame.inner().with_siblings();
        let mut running: FuturesUnordered<_> = branches
            .iter()
            .map(|id| async move {
                let result = self.run(frame.clone(), id.clone(), Value::Null).await;
                (id, frame.ended(result, |_| true).await)
            })
            .collect();
        let mut results = Map::new();
        while let Some((id, result)) = running.next().await {
            results.insert(id.clone(), Value::clone(&*result?));
        }
        Ok(results)
    }
}

/// Decides where a graph goes on. The decision names its condition, for readers of the history.
async fn branch(
    frame: &Frame<'_>,
    step: &Step,
    cases: &[(String, String)],
    otherwise: Option<&str>,
    result: &Arc<Value>,
) -> Result<String> {
    let mut mentions = Mentions::default();
    cases.iter().for_each(|(condition, _)| mentions.add_text(condition));
    let scope = &frame.scope(&mentions).with("result", Arc::clone(result));
    let body = || async move {
        for (condition, then) in cases {
            if frame.condition(&step.id, "branch", condition, scope).await? {
                return Ok(json!({ "then": then, "because": condition }));
            }
        }
        let Some(otherwise) = otherwise else {
            let message = "no branch is true, and there is no else; add one";
            return Err(FlowError::new(FlowCode::NoBranch, ErrorClass::Invalid, &step.id, message).into());
        };
        Ok(json!({ "then": otherwise, "because": "else" }))
    };
    let decision: Value = frame.record_decision(&step.id, body).await?;
    Ok(decision["then"].as_str().unwrap_or_default().to_owned())
}
