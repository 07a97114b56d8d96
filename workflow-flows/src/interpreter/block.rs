use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;
use workflow_sdk::Result;

use super::frame::Frame;
use super::start::Position;
use super::step::run_step;
use super::{dag, graph};
use crate::graph::{Block, Step};

/// Runs a block and returns its result.
pub(super) fn run_block<'a>(frame: Frame<'a>, block: &'a Block) -> BoxFuture<'a, Result<Arc<Value>>> {
    match block {
        Block::Do(steps) => run_in_order(frame, steps, 0).boxed(),
        Block::Dag { steps, concurrency } => dag::run_dag(frame, steps, *concurrency).boxed(),
        Block::Graph { start, steps } => graph::run_graph(frame, steps, graph::Counter::new(start)).boxed(),
    }
}

/// Runs the steps from this number on, one after the other.
pub(super) async fn run_in_order(frame: Frame<'_>, steps: &[Step], from: usize) -> Result<Arc<Value>> {
    let mut last = Arc::new(Value::Null);
    for (number, step) in steps.iter().enumerate().skip(from) {
        last = run_step(frame.at(|| Position::Do(number)), step).await?.value;
    }
    Ok(last)
}
