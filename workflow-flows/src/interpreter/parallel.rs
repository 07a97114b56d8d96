//! Blocks that run at once.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use serde_json::{Map, Value, json};
use workflow_sdk::{Ctx, Result};

use super::block::run_block;
use super::frame::Frame;
use super::step::ends_run;
use crate::graph::{Block, Parallel, ParallelMode, Step};
use crate::{FlowError, FlowRuntime};

pub(super) async fn run_parallel(frame: &Frame<'_>, step: &Step, parallel: &Parallel) -> Result<Value> {
    let scope = &frame.ctx.scope(&step.id);
    let frame = &frame.with_siblings();
    let most = parallel.concurrency.unwrap_or(usize::MAX).max(1);
    let mut left = parallel.branches.iter();
    let mut running = FuturesUnordered::new();
    let mut results = Map::new();
    let mut failure = None;
    loop {
        while running.len() < most
            && let Some((name, block)) = left.next()
        {
            running.push(run_branch(frame, scope, (step.id.as_str(), parallel.mode), name, block));
        }
        let Some((name, result)) = running.next().await else { break };
        match (parallel.mode, result) {
            (_, Err(error)) if ends_run(frame, &error) => return Err(error),
            (ParallelMode::All, result) => {
                results.insert(name.clone(), Value::clone(&*result?));
            }
            (ParallelMode::Settle, Ok(value)) => {
                results.insert(name.clone(), json!({ "ok": *value }));
            }
            (ParallelMode::Settle, Err(error)) => {
                results.insert(name.clone(), json!({ "error": FlowError::of(&step.id, &error).to_value() }));
            }
            (ParallelMode::Race, result) => return Ok(json!({ "winner": name, "result": *result? })),
            (ParallelMode::First, Ok(value)) => return Ok(json!({ "winner": name, "result": *value })),
            (ParallelMode::First, Err(error)) => failure = failure.or(Some(error)),
        }
    }
    failure.map_or(Ok(Value::Object(results)), Err)
}

/// Runs one branch. The steps of a branch have keys of their own, below its name.
fn run_branch<'b>(
    frame: &'b Frame<'_>,
    scope: &'b workflow_sdk::Scope<'b, FlowRuntime>,
    (step, mode): (&'b str, ParallelMode),
    name: &'b String,
    block: &'b Block,
) -> BoxFuture<'b, (&'b String, Result<Arc<Value>>)> {
    async move {
        let branch = scope.scope(name);
        let ctx: &Ctx<FlowRuntime> = &branch;
        let result = run_block(frame.scoped(ctx, &[step, name]), block).await;
        let fails = |error: &_| matches!(mode, ParallelMode::All | ParallelMode::Race) || ends_run(frame, error);
        (name, frame.ended(result, fails).await)
    }
    .boxed()
}
