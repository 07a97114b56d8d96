//! Flows and Rust workflows as children.

use std::time::{Duration, SystemTime};

use serde::Deserialize;
use serde_json::Value;
use workflow_sdk::{Child, Error, ErrorKind, Result};

use super::evaluation::prepared_key;
use super::frame::Frame;
use super::mentions::Mentions;
use super::start::FlowStart;
use super::timeout::time_is_up;
use crate::client::{deadline_of, tags_of};
use crate::graph::{FlowCall, Step};
use crate::{ErrorClass, FlowCode, FlowError, flow, is_flow};

pub(super) async fn run_child(frame: &Frame<'_>, step: &Step, call: &FlowCall) -> Result<Value> {
    let scope = frame.ctx.scope(&step.id);
    if call.is_workflow {
        let seen = &frame.scope(&Mentions::of([&call.args]));
        let body = || async move {
            let args = frame.render(&step.id, "args", &call.args, seen).await?;
            // The child refuses args that are no start of a flow.
            if is_flow(&call.name)
                && let Ok(start) = FlowStart::deserialize(&args)
            {
                check_input(&start, step)?;
            }
            Ok(args)
        };
        let mut args: Value = frame.record(&prepared_key(&step.id), body).await?;
        if is_flow(&call.name) {
            act_for(&mut args, &frame.run.start.actor, &step.id)?;
        }
        let child = scope.child_by_name(&call.name, &args);
        let child = match &call.version {
            Some(version) => child.version(version),
            None => child,
        };
        return follow(frame, step, call, (child, None)).await;
    }
    let start = find(frame, step, call).await?;
    let (tags, deadline) = (tags_of(&start.name, &start.version), deadline_of(&start.definition));
    let child = tags.into_iter().fold(scope.child(flow, start), |child, (name, value)| child.tag(name, value));
    follow(frame, step, call, (child, deadline)).await
}

/// Starts a child whose own deadline is given, and waits for its end unless it is detached.
async fn follow(
    frame: &Frame<'_>,
    step: &Step,
    call: &FlowCall,
    (child, own): (Child<'_, Value>, Option<Duration>),
) -> Result<Value> {
    let child = match &call.queue {
        Some(queue) => child.queue(queue),
        None => child,
    };
    // A child that is waited for ends with its step, so another attempt begins after its end.
    let timeout = step.timeout.filter(|_| !call.detach);
    let child = match own.into_iter().chain(timeout).min() {
        Some(deadline) => child.deadline(deadline),
        None => child,
    };
    if call.detach {
        return Ok(child.detach().await?.id().to_string().into());
    }
    let began = frame.ctx.now();
    match (child.await, timeout) {
        (Err(error), Some(limit)) if has_timed_out(frame, &error, began + limit) => Err(time_is_up(step, limit)),
        (ended, _) => ended,
    }
}

/// Returns whether the deadline of a child was the timeout of its step, and not the deadline of a
/// child's child or of this run.
fn has_timed_out(frame: &Frame<'_>, error: &Error, end: SystemTime) -> bool {
    // The present time is equal in each replay.
    error.kind() == ErrorKind::Deadline && !frame.ctx.is_canceled() && frame.ctx.now() >= end
}

/// Makes a run of the workflow of flows act for this account, whatever account its input names.
fn act_for(input: &mut Value, actor: &str, step: &str) -> Result<()> {
    let Some(fields) = input.as_object_mut() else {
        let message = "args of the workflow flow must be an object".to_owned();
        return Err(FlowError::new(FlowCode::Tool, ErrorClass::Invalid, step, message).into());
    };
    fields.insert("actor".to_owned(), actor.into());
    Ok(())
}

/// Refuses an input that does not fit the schema of the flow, as a start by a client does.
fn check_input(start: &FlowStart, step: &Step) -> Result<()> {
    start.check_input().map_err(|error| {
        let message = format!("args do not fit the flow {:?}: {}", start.name, error.message);
        FlowError::new(FlowCode::Tool, ErrorClass::Invalid, &step.id, message).into()
    })
}

/// Finds the version of the flow, renders its input and checks it, as one step: the child has the
/// version that was the newest at its start.
async fn find(frame: &Frame<'_>, step: &Step, call: &FlowCall) -> Result<FlowStart> {
    let scope = &frame.scope(&Mentions::of([&call.args]));
    let actor = &frame.run.start.actor;
    let failed = |class, message: String| Error::from(FlowError::new(FlowCode::Tool, class, &step.id, message));
    let body = || async move {
        let Some(flows) = frame.runtime().flows() else {
            let message = "this worker knows no flows by name; give it a store with FlowRuntimeBuilder::flows";
            return Err(failed(ErrorClass::Unavailable, message.to_owned()));
        };
        let found = flows.find(&call.name, call.version.as_deref()).await;
        let Some(found) = found.map_err(|error| failed(ErrorClass::Unavailable, error.to_string()))? else {
            let version = call.version.as_ref().map(|version| format!(" version {version:?}")).unwrap_or_default();
            let message = format!("there is no flow {:?}{version}; deploy it first", call.name);
            return Err(failed(ErrorClass::Invalid, message));
        };
        let input = frame.render(&step.id, "args", &call.args, scope).await?;
        let start = found.into_start().actor(actor).input(input);
        check_input(&start, step)?;
        Ok(start)
    };
    frame.record(&prepared_key(&step.id), body).await
}
