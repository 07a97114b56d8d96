//! Loops.

use std::sync::Arc;

use serde_json::{Value, json};
use workflow_sdk::Result;

use super::block::run_block;
use super::frame::Frame;
use super::pure::outputs_of;
use super::start::{Attempt, FlowStart, Turn};
use super::step::ends_run;
use crate::expression::ResultKind;
use crate::graph::{AtMax, Loop, OnItemError, Step, Until};
use crate::{ErrorClass, FlowCode, FlowError};

/// A run continues as new after this many turns, so that no history grows without bound. Never
/// change it: with another number, the replay of a run that is under way would diverge.
const TURNS_OF_A_GENERATION: u32 = 1_000;

pub(super) async fn run_loop(frame: &Frame<'_>, step: &Step, repetition: &Loop, attempt: Attempt) -> Result<Value> {
    match &repetition.until {
        Until::For(template) => {
            let rendered = frame.render_step(&step.id, &step.id, "for", template).await?;
            let Value::Array(items) = rendered else {
                let message = format!("for is {}; it must be a list", ResultKind::of(&rendered).name());
                return Err(FlowError::new(FlowCode::Expression, ErrorClass::Invalid, &step.id, message).into());
            };
            run_items(frame, step, repetition, items).await
        }
        Until::Jq(program) => {
            let mut items = outputs_of(frame, &step.id, &step.id, program).await?;
            // `jq: ".steps.a.items"` means the items, as `jq: ".steps.a.items[]"` does.
            if let [Value::Array(list)] = items.as_mut_slice() {
                items = std::mem::take(list);
            }
            run_items(frame, step, repetition, items).await
        }
        Until::While(_) | Until::Until(_) => run_turns(frame, step, repetition, attempt).await,
    }
}

async fn run_items(frame: &Frame<'_>, step: &Step, repetition: &Loop, mut items: Vec<Value>) -> Result<Value> {
    if repetition.at_max == AtMax::Stop {
        items.truncate(repetition.max as usize);
    }
    if items.len() > repetition.max as usize {
        let message =
            format!("{} items, and {} is the loop's max; take fewer, or allow more", items.len(), repetition.max);
        return Err(FlowError::new(FlowCode::TooOften, ErrorClass::Invalid, &step.id, message).into());
    }
    let count = items.len();
    let numbered = items.clone().into_iter().enumerate();
    let frame = &frame.with_siblings();
    let map = frame.ctx.map(numbered, repetition.concurrency.max(1), |ctx, (index, item)| async move {
        let number = index.to_string();
        let place = frame.scoped(&ctx, &[&step.id, &number]).with_item(&step.id, item.clone(), index);
        let result = run_block(place.with_own_results(), &repetition.body).await;
        let result = frame.ended(result, |_| repetition.on_item_error == OnItemError::Fail).await?;
        Ok(json!({ "index": index, "item": item, "result": *result }))
    });
    let map = map.name(&step.id);
    if repetition.on_item_error == OnItemError::Fail {
        return Ok(Value::Array(map.await?));
    }
    let mut results = Vec::with_capacity(count);
    for ((index, item), result) in items.into_iter().enumerate().zip(map.collect_results().await?) {
        results.push(match (result, repetition.on_item_error) {
            (Ok(result), _) => result,
            (Err(error), _) if ends_run(frame, &error) => return Err(error),
            (Err(error), OnItemError::Collect) => {
                let error = FlowError::of(&step.id, &error).to_value();
                json!({ "index": index, "item": item, "result": null, "error": error })
            }
            (Err(_), _) => json!({ "index": index, "item": item, "result": null }),
        });
    }
    Ok(Value::Array(results))
}

async fn run_turns(frame: &Frame<'_>, step: &Step, repetition: &Loop, attempt: Attempt) -> Result<Value> {
    let before = if repetition.collects { json!([]) } else { Value::Null };
    let (first, last) = frame.run.take_turn().map_or((0, before), |turn| (turn.number, turn.last));
    let (mut number, mut last) = (first, Arc::new(last));
    let mut since = first;
    let turns = frame.ctx.scope(&step.id);
    loop {
        if number - since >= TURNS_OF_A_GENERATION {
            let turn = Turn { number, last: Value::clone(&last), attempt };
            if let Some(next) = frame.to_resume(turn) {
                if can_continue(frame, step, &next).await? {
                    return frame.ctx.continue_as_new(next);
                }
                since = number;
            }
        }
        // A `while` decides about the turn that it begins, an `until` about the one that has ended.
        let index = Value::from(number);
        if let Until::While(condition) = &repetition.until
            && !frame
                .decide(&step.id, "while", condition, &[("result", seen(repetition, &last)), ("index", &index)])
                .await?
        {
            return Ok(Arc::unwrap_or_clone(last));
        }
        if number >= repetition.max {
            return at_max(step, repetition, last);
        }
        let name = number.to_string();
        let turn = turns.scope(&name);
        if let (Some(every), true) = (repetition.every, number > 0) {
            turn.sleep(every).await?;
        }
        let inner = frame.scoped(&turn, &[&step.id, &name]).with_item(&step.id, Value::Null, number as usize);
        let result = run_block(inner, &repetition.body).await?;
        if repetition.collects {
            if let Value::Array(results) = Arc::make_mut(&mut last) {
                results.push(Value::clone(&result));
            }
        } else {
            last = result;
        }
        number += 1;
        if let Until::Until(condition) = &repetition.until
            && frame
                .decide(&step.id, "until", condition, &[("result", seen(repetition, &last)), ("index", &index)])
                .await?
        {
            return Ok(Arc::unwrap_or_clone(last));
        }
    }
}

/// Decides whether a run continues as new with this state, or goes on because it is too large. The
/// answer is recorded, so a replay by a worker with another limit of payloads follows it.
async fn can_continue(frame: &Frame<'_>, step: &Step, next: &FlowStart) -> Result<bool> {
    let body = || async move {
        let text = serde_json::to_string(next)?;
        Ok(text.len() <= frame.ctx.payload_limit())
    };
    frame.record(&format!("{}.next", step.id), body).await
}

/// Returns the `result` that a condition sees. A loop that collects shows none, because a copy of a
/// list that grows would be made in each turn.
fn seen<'v>(repetition: &Loop, last: &'v Value) -> &'v Value {
    if repetition.collects { &Value::Null } else { last }
}

fn at_max(step: &Step, repetition: &Loop, last: Arc<Value>) -> Result<Value> {
    if repetition.at_max == AtMax::Stop {
        return Ok(Arc::unwrap_or_clone(last));
    }
    let message = format!("it took {} turns, which is the loop's max; end it earlier, or allow more", repetition.max);
    Err(FlowError::new(FlowCode::TooOften, ErrorClass::Invalid, &step.id, message).into())
}
