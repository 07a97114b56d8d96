//! The frame around every kind of step.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;
use workflow_sdk::{Error, Result};

use super::block::run_block;
use super::evaluation::is_too_many;
use super::frame::Frame;
use super::outcome::Outcome;
use super::start::Attempt;
use super::{
    approval, child, choice, decision, emission, external, handoff, knowledge, parallel, pure, recipe, repetition,
    retry, timeout, tool, undo, wait,
};
use crate::graph::{Kind, OnError, Step};
use crate::{FlowError, graph::RetryRule};

/// Runs a step: its condition, its attempts, what follows a failure, and its undo.
pub(super) async fn run_step(frame: Frame<'_>, step: &Step) -> Result<Outcome> {
    frame.may_begin().await;
    // A loop that continues as new has begun already, whatever its condition gives now.
    if let Some(condition) = &step.when
        && !frame.run.is_resuming()
        && !frame.decide(&step.id, "when", condition, &[]).await?
    {
        let skipped = Arc::new(Value::Null);
        frame.set(step, &skipped);
        return Ok(Outcome::of(skipped));
    }
    frame.may_begin().await;
    let running = frame.runs(step);
    let outcome = match attempts(&frame, step).await {
        Ok(value) => {
            let value = Arc::new(value);
            frame.set(step, &value);
            if let Some(tool) = &step.undo {
                undo::arm(&frame, step, tool, &value)?;
            }
            return Ok(Outcome::of(value));
        }
        Err(error) => {
            drop(running);
            after_failure(&frame, step, error).await?
        }
    };
    frame.set(step, &outcome.value);
    Ok(outcome)
}

async fn after_failure(frame: &Frame<'_>, step: &Step, error: Error) -> Result<Outcome> {
    if ends_run(frame, &error) || step.on_error == OnError::Fail {
        return Err(error);
    }
    let seen = FlowError::of(&step.id, &error).to_value();
    Ok(match &step.on_error {
        OnError::Fail => return Err(error),
        OnError::Ignore => Outcome::of(Arc::new(Value::Null)),
        OnError::Goto(id) => Outcome { value: Arc::new(Value::Null), goto: Some((id.clone(), seen)) },
        OnError::Do(block) => Outcome::of(run_block(frame.inner().with_error(seen), block).await?),
    })
}

/// Returns whether nothing in the flow may handle this error: the run continues as new, was told to
/// end, or has made as many decisions as it may.
pub(super) fn ends_run(frame: &Frame<'_>, error: &Error) -> bool {
    let has_decided_enough = || frame.run.has_decided_enough() && is_too_many(error);
    error.next_input().is_some() || frame.ctx.is_canceled() || has_decided_enough()
}

/// Runs a step with its retries, and makes its output.
async fn attempts(frame: &Frame<'_>, step: &Step) -> Result<Value> {
    // The attempts of these are attempts of the engine's step, which makes the output too.
    match &step.kind {
        Kind::Tool(call) if !call.external => return tool::run_tool(frame, step, call).await,
        Kind::Recipe(recipe) => return recipe::run_recipe(frame, step, recipe).await,
        _ => {}
    }
    let repeated = step.retry.as_ref().filter(|rule| rule.attempts > 1).map(|_| frame.repeated());
    let frame = repeated.as_ref().unwrap_or(frame);
    // A loop that continues as new is in the attempt in which it was.
    let mut attempt = frame.run.attempt();
    attempt.deadline = attempt.deadline.or_else(|| timeout::deadline(frame, step));
    let result = loop {
        match timeout::limited(frame, step, attempt.deadline, run_kind(frame, step, attempt)).await {
            Ok(result) => break result,
            Err(error) if ends_run(frame, &error) => return Err(error),
            Err(error) => match next_attempt(step, &error, attempt.number) {
                Some(rule) => {
                    frame.may_begin().await;
                    frame.begin_attempt();
                    let scope = frame.ctx.scope(format!("{}.again", step.id));
                    scope.sleep(retry::delay(rule, attempt.number, frame.ctx.random())).await?;
                    attempt = Attempt { number: attempt.number + 1, deadline: timeout::deadline(frame, step) };
                }
                None => return Err(error),
            },
        }
    };
    match &step.output {
        None => Ok(result),
        Some(template) => {
            let name = format!("{}=", step.id);
            frame.render_with(&name, &step.id, "output", template, Some(&result)).await
        }
    }
}

/// Returns the rule if another attempt follows.
fn next_attempt<'s>(step: &'s Step, error: &Error, attempt: u32) -> Option<&'s RetryRule> {
    let class = FlowError::of(&step.id, error).class;
    step.retry.as_ref().filter(|rule| attempt < rule.attempts && retry::retries(Some(rule), class))
}

fn run_kind<'a>(frame: &'a Frame<'a>, step: &'a Step, attempt: Attempt) -> BoxFuture<'a, Result<Value>> {
    match &step.kind {
        Kind::Tool(call) => external::run_external(frame, step, call).boxed(),
        Kind::Recipe(recipe) => recipe::run_recipe(frame, step, recipe).boxed(),
        Kind::If { condition, then, otherwise } => {
            choice::run_if(frame, step, condition, then, otherwise.as_ref()).boxed()
        }
        Kind::Switch(switch) => choice::run_switch(frame, step, switch).boxed(),
        Kind::Loop(repetition) => repetition::run_loop(frame, step, repetition, attempt).boxed(),
        Kind::Parallel(parallel) => parallel::run_parallel(frame, step, parallel).boxed(),
        Kind::Approval(approval) => approval::run_approval(frame, step, approval).boxed(),
        Kind::Decision(decision) => decision::run_decision(frame, step, decision).boxed(),
        Kind::Kb(write) => knowledge::run_write(frame, step, write).boxed(),
        Kind::Handoff(handoff) => handoff::run_handoff(frame, step, handoff).boxed(),
        Kind::Wait(wait) => wait::run_wait(frame, step, wait).boxed(),
        Kind::Emit(emission) => emission::run_emission(frame, step, emission).boxed(),
        Kind::Flow(call) => child::run_child(frame, step, call).boxed(),
        Kind::Set(values) => pure::run_set(frame, step, values).boxed(),
        Kind::Jq(program) => pure::run_jq(frame, step, program).boxed(),
        Kind::Fail(failure) => pure::run_fail(frame, step, failure).boxed(),
        Kind::Nothing => std::future::ready(Ok(Value::Null)).boxed(),
    }
}
