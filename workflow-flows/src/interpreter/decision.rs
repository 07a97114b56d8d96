//! Choices of a person or an agent.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use workflow_sdk::Result;

use super::approval::unanswered;
use super::evaluation::prepared_key;
use super::frame::Frame;
use crate::flows::DECISION;
use crate::graph::{Decision, Step};

/// The answer to a decision: the payload of the signal `decision:KEY`.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Choice {
    choice: Value,
    #[serde(default)]
    by: String,
    #[serde(default)]
    note: Option<String>,
}

pub(super) async fn run_decision(frame: &Frame<'_>, step: &Step, decision: &Decision) -> Result<Value> {
    let template = json!({
        "prompt": decision.prompt, "options": decision.options, "show": decision.show, "to": decision.to,
    });
    frame.render_step(&prepared_key(&step.id), &step.id, "decision", &template).await?;
    let began = frame.ctx.now();
    let signal = format!("{DECISION}{}{}", frame.path, step.id);
    loop {
        let mut wait = frame.ctx.signal::<Choice>(signal.as_str());
        if let Some(timeout) = step.timeout {
            // The present time is equal in each replay.
            let passed = frame.ctx.now().duration_since(began).unwrap_or_default();
            wait = wait.timeout(timeout.saturating_sub(passed));
        }
        let Some(Choice { choice, by, note }) = wait.await? else {
            return match &decision.fallback {
                Some(choice) => Ok(json!({ "choice": choice, "by": null, "note": "no answer came in time" })),
                None => unanswered(frame, step, None).await,
            };
        };
        // An answer that is no option is dropped, and the question stays open.
        let is_option = choice.as_str().is_some_and(|choice| decision.options.contains_key(choice));
        if decision.options.is_empty() || is_option {
            return Ok(json!({ "choice": choice, "by": by, "note": note }));
        }
    }
}
