//! Gates for people.

use std::pin::pin;
use std::sync::Arc;

use futures::future::{Either, select};
use serde_json::{Value, json};
use workflow_sdk::Result;

use super::block::run_block;
use super::evaluation::{as_text, as_texts, prepared_key};
use super::frame::Frame;
use super::handoff;
use super::mentions::Mentions;
use super::tool::Place;
use crate::graph::{Approval, Block, OnReject, Step};
use crate::token::Gate;
use crate::{ErrorClass, FlowCode, FlowError};

pub(super) async fn run_approval(frame: &Frame<'_>, step: &Step, approval: &Approval) -> Result<Value> {
    let shown = show(frame, step, approval).await?;
    let to: Vec<String> = shown["to"].as_array().into_iter().flatten().map(as_text).collect();
    let mut gate = frame.ctx.approval(&step.id);
    if !to.is_empty() {
        gate = gate.to(to.join(", "));
    }
    if let Some(timeout) = step.timeout {
        gate = gate.timeout(timeout);
    }
    // The gate waits while people are told, so the first one may answer at once. The answer ends
    // the telling.
    let decision = match select(pin!(gate.into_future()), pin!(tell(frame, step, approval, &shown))).await {
        Either::Left((decision, _)) => decision?,
        Either::Right((told, gate)) => {
            told?;
            gate.await?
        }
    };
    let Some(decision) = decision else {
        return unanswered(frame, step, approval.on_timeout.as_ref()).await;
    };
    // The gate is a recorded wait, so the time of its end is equal in each replay.
    let at = jiff::Timestamp::try_from(frame.ctx.now()).unwrap_or_default();
    let result = json!({
        "approved": decision.approved, "by": decision.by, "note": decision.note, "at": at.to_string(),
    });
    match (&approval.on_reject, decision.approved) {
        (_, true) | (OnReject::Continue, false) => Ok(result),
        (OnReject::Fail, false) => {
            let note = decision.note.map(|note| format!(": {note}")).unwrap_or_default();
            let message = format!("rejected by {}{note}", decision.by);
            Err(FlowError::new(FlowCode::Rejected, ErrorClass::Invalid, &step.id, message).into())
        }
        (OnReject::Do(block), false) => stand_in(frame, step, block, result).await,
    }
}

/// Renders what the gate shows, as one step.
async fn show(frame: &Frame<'_>, step: &Step, approval: &Approval) -> Result<Value> {
    let template = json!({ "to": approval.to, "title": approval.title, "show": approval.show });
    let (template, scope) = (&template, &frame.scope(&Mentions::of([&template])));
    let body = || async move {
        let mut shown = frame.render(&step.id, "approval", template, scope).await?;
        shown["to"] = as_texts(&shown["to"]).into();
        if !approval.notify.is_empty() {
            shown[VISIT] = gate_of(frame, step).visit.into();
        }
        Ok(shown)
    };
    frame.record(&prepared_key(&step.id), body).await
}

/// The name of the visit's number beside what its gate shows, if people are told of the gate.
const VISIT: &str = "visit";

/// Tells people of a gate, as one step. That telling fails does not end the gate: it can be seen
/// without being told.
async fn tell(frame: &Frame<'_>, step: &Step, approval: &Approval, shown: &Value) -> Result<()> {
    if approval.notify.is_empty() {
        return Ok(());
    }
    let body = || async move {
        let failures = notify(frame, step, approval, shown).await;
        Ok(if failures.is_empty() { Value::Null } else { json!({ "not_told": failures }) })
    };
    frame.record(&format!("{}.told", step.id), body).await.map(drop::<Value>)
}

/// The most messages of one gate: its receivers times its channels.
const MOST_MESSAGES: usize = 1_000;
/// The longest part of a message that shows the values of the gate, in bytes.
const LONGEST_SHOWN: usize = 4 * 1024;

/// Tells each receiver through each channel. Returns what failed.
async fn notify(frame: &Frame<'_>, step: &Step, approval: &Approval, shown: &Value) -> Vec<String> {
    let channel_default = [Value::from("")];
    // A template that gives an empty list names no receiver, and the channel's would get the token.
    let to = if approval.to.is_empty() {
        &channel_default[..]
    } else {
        shown["to"].as_array().map(Vec::as_slice).unwrap_or_default()
    };
    if to.len().saturating_mul(approval.notify.len()) > MOST_MESSAGES {
        return vec![format!("the receivers times the channels are more than {MOST_MESSAGES} messages; none was sent")];
    }
    let visit = shown[VISIT].as_u64().and_then(|visit| visit.try_into().ok()).unwrap_or_default();
    let gate = gate_at(frame, step, visit);
    let token = frame.runtime().tokens().map(|tokens| tokens.issue(&gate));
    let Gate { run, key: gate, .. } = gate;
    let mut data = json!({ "show": shown["show"], "run": run, "key": gate });
    if let Some(token) = &token {
        data["token"] = token.as_str().into();
    }
    let title = as_text(&shown["title"]);
    let text = format!("{title}\nThe step {gate:?} of the run {run} waits for an answer.{}", lines(&shown["show"]));
    let mut failures = Vec::new();
    for (number, receiver) in to.iter().enumerate() {
        // A channel keeps one message per key.
        let key = match number {
            0 => frame.ctx.idempotency_key().to_owned(),
            _ => format!("{}#{number}", frame.ctx.idempotency_key()),
        };
        // The message has the token of the gate, which no failure may repeat.
        let place = Place { step: &step.id, key: &key, timeout: None, token: token.clone() };
        let message = json!({ "to": as_text(receiver), "title": title, "text": text, "data": data });
        failures.extend(handoff::tell(frame, &place, &approval.notify, &message).await);
    }
    failures
}

/// Returns what a gate shows as lines of a text, each after a line break. Long ones are cut.
fn lines(show: &Value) -> String {
    let mut text = match show {
        Value::Null => String::new(),
        Value::Object(values) => {
            values.iter().map(|(name, value)| format!("\n{name}: {}", as_text(value))).collect::<String>()
        }
        value => format!("\n{}", as_text(value)),
    };
    if text.len() > LONGEST_SHOWN {
        text.truncate(text.floor_char_boundary(LONGEST_SHOWN));
        text.push_str(" ..");
    }
    text
}

/// Returns the gate of a step. Call it only in the body that renders the gate's values: from the
/// second visit on, the key of that body ends with the number of the visit.
pub(super) fn gate_of(frame: &Frame<'_>, step: &Step) -> Gate {
    let visit = frame.ctx.idempotency_key().rsplit_once("!:").and_then(|(_, visit)| visit.parse().ok());
    gate_at(frame, step, visit.unwrap_or_default())
}

fn gate_at(frame: &Frame<'_>, step: &Step, visit: u32) -> Gate {
    Gate {
        run: frame.ctx.run_id().to_string(),
        generation: frame.ctx.generation(),
        key: format!("{}{}", frame.path, step.id),
        visit,
    }
}

/// Ends a gate or a question that was not answered in time.
pub(super) async fn unanswered(frame: &Frame<'_>, step: &Step, block: Option<&Block>) -> Result<Value> {
    match block {
        Some(block) => stand_in(frame, step, block, Value::Null).await,
        None => {
            let message = format!("no answer came within {:?}", step.timeout.unwrap_or_default());
            Err(FlowError::new(FlowCode::Unanswered, ErrorClass::Timeout, &step.id, message).into())
        }
    }
}

/// Runs a block whose result stands for the step's. It sees the answer as the step's result.
async fn stand_in(frame: &Frame<'_>, step: &Step, block: &Block, answer: Value) -> Result<Value> {
    frame.set(step, &Arc::new(answer));
    Ok(Arc::unwrap_or_clone(run_block(frame.inner(), block).await?))
}
