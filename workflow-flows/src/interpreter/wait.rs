//! Waits for a time or an event.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use workflow_sdk::{Result, Timestamp as Instant};

use super::approval::unanswered;
use super::evaluation::{as_text, failed, prepared_key};
use super::frame::Frame;
use super::mentions::Mentions;
use crate::expression::{ExpressionError, ResultKind};
use crate::graph::{Step, Wait};
use crate::instant::parse_instant;
use crate::{ErrorClass, FlowCode, FlowError};

pub(super) async fn run_wait(frame: &Frame<'_>, step: &Step, wait: &Wait) -> Result<Value> {
    let scope = frame.ctx.scope(&step.id);
    match wait {
        Wait::For(duration) => {
            scope.sleep(*duration).await?;
            Ok(Value::Null)
        }
        Wait::Until(template) => {
            let instant = until(frame, step, template).await?;
            scope.sleep_until(Instant::from_micros(instant)).await?;
            Ok(Value::Null)
        }
        Wait::Event { name, key, matches } => event(frame, step, name, key, matches.as_deref()).await,
    }
}

/// Computes the time of a wait as a step, in microseconds since 1970.
async fn until(frame: &Frame<'_>, step: &Step, template: &str) -> Result<i64> {
    let now = Timestamp::try_from(frame.ctx.now()).unwrap_or_default();
    let scope = &frame.scope(&Mentions::of_source(template));
    let body = || async move {
        let text = frame.render_text(&step.id, "until", template, scope).await?;
        let instant = parse_instant(&text, now).map_err(|message| {
            FlowError::new(FlowCode::Expression, ErrorClass::Invalid, &step.id, format!("until: {message}"))
        })?;
        Ok(instant.as_microsecond())
    };
    frame.record_decision(&step.id, body).await
}

async fn event(frame: &Frame<'_>, step: &Step, name: &str, key: &str, matches: Option<&str>) -> Result<Value> {
    let key = as_text(&frame.render_step(&prepared_key(&step.id), &step.id, "key", &key.into()).await?);
    let began = frame.ctx.now();
    let scope = frame.ctx.scope(&step.id);
    loop {
        let mut wait = scope.event::<Value>(name).key(&key);
        if let Some(timeout) = step.timeout {
            // The present time is equal in each replay.
            let passed: Duration = frame.ctx.now().duration_since(began).unwrap_or_default();
            wait = wait.timeout(timeout.saturating_sub(passed));
        }
        let Some(event) = wait.await? else { return unanswered(frame, step, None).await };
        match matches {
            Some(condition) if !fits(frame, step, condition, &event).await? => {}
            _ => return Ok(event),
        }
    }
}

/// The record of a decision about an event.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Match {
    Decided(bool),
    /// The event has no value for the condition, or one of another type.
    Unfit {
        unfit: String,
    },
}

/// Returns whether another event may let the condition be evaluated. A value of the flow itself,
/// such as one of its input, would be missing for each event.
fn is_of_event(error: &ExpressionError) -> bool {
    match error {
        ExpressionError::Missing { path, .. } => {
            path.strip_prefix("event").is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        }
        ExpressionError::Failed(_) => true,
        _ => false,
    }
}

/// Decides whether an event is the one that a step waits for. A condition that cannot be evaluated
/// for an event does not hold for it: anything may emit, and must not fail the runs that wait.
async fn fits(frame: &Frame<'_>, step: &Step, condition: &str, event: &Value) -> Result<bool> {
    let scope = &frame.scope(&Mentions::of_source(condition)).with("event", event.clone());
    let body = || async move {
        let missing = frame.run.flow().missing_path;
        Ok(match frame.runtime().evaluator().value(condition, scope, missing).await {
            Ok(Value::Bool(holds)) => Match::Decided(holds),
            Ok(other) => Match::Unfit { unfit: format!("it is {}, and no boolean", ResultKind::of(&other).name()) },
            Err(error) if is_of_event(&error) => Match::Unfit { unfit: error.to_string() },
            Err(error) => return Err(failed(&step.id, "match", &error)),
        })
    };
    let decided = frame.record_decision(&step.id, body).await?;
    Ok(matches!(decided, Match::Decided(true)))
}
