//! One run of a flow, from its start to its end.

use std::sync::Arc;

use serde_json::Value;
use workflow_sdk::{Ctx, Either, Error, ErrorKind, Result};

use super::block::{run_block, run_in_order};
use super::frame::{Frame, Results, RunState};
use super::graph::{Counter, run_graph};
use super::start::{FlowStart, Position, Resume};
use crate::graph::{Block, OnTimeout};
use crate::{ErrorClass, FlowCode, FlowError, FlowRuntime};

pub(super) async fn run(ctx: &Ctx<FlowRuntime>, start: FlowStart) -> Result<Value> {
    let (state, mut resume) = RunState::new(ctx, start);
    let results = resume.as_mut().map(|resume| Results::resumed(std::mem::take(&mut resume.steps)));
    let frame = Frame::new(ctx, &state, results.unwrap_or_default());
    let flow = state.flow();
    let ended = match within_timeout(&frame, run_body(&frame, resume)).await {
        Ok(last) => output(&frame, last).await,
        Err(error) => Err(error),
    };
    match ended {
        Ok(output) => {
            if let Some(block) = &flow.on_complete {
                run_after(&frame, "on_complete", block).await?;
            }
            Ok(output)
        }
        Err(error) => {
            // A run that was canceled has only its compensations. If its time is over, it failed.
            let has_failed = error.next_input().is_none() && error.kind() != ErrorKind::Canceled;
            if let Some(block) = flow.on_error.as_ref().filter(|_| has_failed) {
                let seen = FlowError::of("", &error).to_value();
                ctx.shield(run_after(&frame.with_error(seen), "on_error", block)).await?;
            }
            Err(error)
        }
    }
}

async fn run_body(frame: &Frame<'_>, resume: Option<Box<Resume>>) -> Result<Arc<Value>> {
    let body = &frame.run.flow().body;
    let position = resume.map(|resume| resume.at);
    match (body, position) {
        (Block::Do(steps), Some(Position::Do(number))) => run_in_order(frame.top(), steps, number).await,
        (Block::Graph { steps, .. }, Some(Position::Graph { id, visits, error })) => {
            run_graph(frame.top(), steps, Counter::resumed(id, visits, error)).await
        }
        (Block::Dag { .. }, _) => run_block(frame.inner(), body).await,
        _ => run_block(frame.top(), body).await,
    }
}

async fn output(frame: &Frame<'_>, last: Arc<Value>) -> Result<Value> {
    match &frame.run.flow().output {
        None => Ok(Arc::unwrap_or_clone(last)),
        Some(template) => frame.render_with("output=", "", "output", template, Some(&last)).await,
    }
}

/// Runs a block whose failure does not change how the run ends. The failure is in the history, and
/// its kind is in the log of the worker that saw it.
async fn run_after(frame: &Frame<'_>, name: &'static str, block: &Block) -> Result<()> {
    let Err(error) = run_block(frame.inner(), block).await else { return Ok(()) };
    if frame.ctx.is_canceled() {
        return Ok(());
    }
    let (run_id, error) = (frame.ctx.run_id(), &error);
    let body = || async move {
        // The text of the error is a payload: it stands in the history alone.
        tracing::warn!(%run_id, kind = %error.kind(), "{name} of the flow failed; the run ends as it would have");
        Ok(error.to_string())
    };
    frame.record::<String, _>(&format!("{name}!"), body).await.map(drop)
}

/// Pauses or cancels the run at the flow's timeout, where the flow asks for that. To fail is the
/// deadline of the run.
async fn within_timeout(
    frame: &Frame<'_>,
    body: impl Future<Output = Result<Arc<Value>>> + Send,
) -> Result<Arc<Value>> {
    let flow = frame.run.flow();
    if flow.on_timeout == OnTimeout::Fail || frame.run.is_timed_out() {
        return body.await;
    }
    let watch = async {
        let end = frame.ctx.created_at() + flow.timeout;
        frame.ctx.sleep_until(end).await?;
        frame.record::<(), _>("timeout!", || end_run(frame)).await?;
        // A later generation of a run that was resumed has no timeout.
        frame.run.time_out();
        // The body goes on: it is interrupted, or the run is paused.
        std::future::pending::<()>().await;
        Ok::<(), Error>(())
    };
    match frame.ctx.select(body, watch).await {
        Either::Left(result) => result,
        Either::Right(result) => Err(result.err().unwrap_or_else(|| Error::msg("the watch ended"))),
    }
}

async fn end_run(frame: &Frame<'_>) -> Result<()> {
    let run_id = frame.ctx.run_id();
    let Some(client) = frame.runtime().client() else {
        let message = "the time of the flow is over, and this worker cannot pause or cancel it; \
                       give it a client with FlowRuntimeBuilder::client";
        return Err(FlowError::new(FlowCode::Tool, ErrorClass::Timeout, "", message).into());
    };
    match frame.run.flow().on_timeout {
        OnTimeout::Pause => client.pause(run_id).await.map(drop)?,
        OnTimeout::Cancel | OnTimeout::Fail => client.cancel(run_id).await.map(drop)?,
    }
    Ok(())
}
