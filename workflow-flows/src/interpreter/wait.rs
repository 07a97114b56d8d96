//! Waits for a time or an event.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use workflow_sdk::{Result, Timestamp as Instant};

use super::approval::unanswered;
use super::evaluation::{as_text, prepared_key};
use super::frame::Frame;
use super::mentions::Mentions;
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
            Some(condition) if !frame.decide(&step.id, "match", condition, &[("event", &event)]).await? => {}
            _ => return Ok(event),
        }
    }
}
