//! The questions of approvals and decisions, as they are shown to those that answer them.

use futures::future::try_join_all;
use serde::Serialize;
use serde_json::{Map, Value};
use workflow_sdk::operate::{Operate, OperateError, OperateErrorCode as Code, PayloadOf};
use workflow_sdk::{ApprovalKind, RunId};

use super::Flows;
use super::gate::StepKey;
use super::reads::{read_output, read_prepared};

/// How many steps are read at once.
const AT_ONCE: usize = 8;

/// The question of an approval or a decision that a run waits for, with the values that its flow
/// has rendered for it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct OpenQuestion {
    /// The key of the step with the number of its visit, as [`answer_step`](crate::answer_step)
    /// takes it for a decision.
    pub step: String,
    /// Whether it is an approval or a decision.
    pub kind: ApprovalKind,
    /// The title of an approval, or the prompt of a decision.
    pub prompt: String,
    /// The names of the answers to a decision, each with its description. Empty: every value is an
    /// answer. An approval has none.
    pub options: Vec<(String, String)>,
    /// The people or groups that are asked.
    pub to: Option<String>,
    /// The value that is shown beside the question. `null`: none.
    pub show: Value,
}

/// Reads the question of an approval or a decision. `key` is that of a
/// [`PendingApproval`](workflow_sdk::PendingApproval). Returns `None` if the run has rendered none,
/// as one of a workflow in Rust, or if it is larger than what a read shows. Its texts are whole, as
/// large as a payload may be: a program that shows many questions cuts them.
///
/// The number of a wait is not that of its visit: a visit that failed before it waited has none,
/// and after an answer that was no option a visit waits again. So the rows of all visits of the
/// step are read, and none of other steps.
///
/// # Errors
/// [`NotFound`](workflow_sdk::operate::OperateErrorCode::NotFound) if there is no such run, or a
/// failure of the database.
///
/// # Cancel safety
/// The call only reads: a dropped future leaves nothing behind.
pub async fn read_question(operate: &dyn Operate, run: RunId, key: &str) -> Result<Option<OpenQuestion>, OperateError> {
    let step = StepKey::parse(key);
    let rows = read_prepared(operate, run, &step).await?;
    let Some((visit, row)) = step.prepared(&rows) else { return Ok(None) };
    let shown = read_output(operate, run, row).await?;
    Ok(shown.is_object().then(|| question(format!("{}:{visit}", step.name), &shown)))
}

impl Flows {
    /// Reads the question of a gate, for the run and the key that [`open_token`](Flows::open_token)
    /// has returned: the key names one visit of the step.
    ///
    /// # Errors
    /// [`Conflict`](Code::Conflict) if the run does not wait for an answer at that visit, as when
    /// it was given before; [`NotFound`](Code::NotFound) if there is no such run, or a failure of
    /// the database.
    ///
    /// # Cancel safety
    /// The call only reads: a dropped future leaves nothing behind.
    pub async fn question_by_token(&self, run: RunId, key: &str) -> Result<OpenQuestion, OperateError> {
        let step = StepKey::of_token(key);
        let gate = self.read_present(run, &step).await?;
        let waits = step.open_approval(&gate).is_some() || step.decision_since(&gate).is_some();
        let Some((visit, row)) = step.prepared(&gate.prepared).filter(|_| waits) else {
            let message = format!("the run does not wait for an answer to step {:?}", step.name);
            return Err(OperateError::new(Code::Conflict, message, "ask for a new link"));
        };
        let shown = read_output(self.client.operate(), run, row).await?;
        if !shown.is_object() {
            let message = format!("the question of step {:?} cannot be read here", step.name);
            return Err(OperateError::new(Code::Conflict, message, "ask a server that can read its values"));
        }
        Ok(question(format!("{}:{visit}", step.name), &shown))
    }
}

/// The visit of a step that waits for an answer or a report.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StepVisit {
    /// The key of the step with the number of the visit, from 0. It is taken by
    /// [`answer_step`](crate::answer_step) for a decision, and by
    /// [`report_step`](crate::report_step) for a step that is done outside.
    pub step: String,
    /// The place of the values that the flow has rendered for the visit.
    pub prepared: PayloadOf,
}

/// Reads the present visits of steps that wait, one for each key, in the order of the keys. A key
/// is that of a wait: of a [`PendingApproval`](workflow_sdk::PendingApproval), or of a wait for a
/// signal without the beginning of its name. The item is `None` if the run has rendered no values
/// for such a step, as one of a workflow in Rust. See [`read_question`] about the numbers and about
/// the rows that are read for each key.
///
/// # Errors
/// [`NotFound`](workflow_sdk::operate::OperateErrorCode::NotFound) if there is no such run, or a
/// failure of the database.
///
/// # Cancel safety
/// The call only reads: a dropped future leaves nothing behind.
pub async fn read_visits(
    operate: &dyn Operate,
    run: RunId,
    keys: &[&str],
) -> Result<Vec<Option<StepVisit>>, OperateError> {
    let mut visits = Vec::with_capacity(keys.len());
    for part in keys.chunks(AT_ONCE) {
        visits.extend(try_join_all(part.iter().map(|key| read_visit(operate, run, key))).await?);
    }
    Ok(visits)
}

async fn read_visit(operate: &dyn Operate, run: RunId, key: &str) -> Result<Option<StepVisit>, OperateError> {
    let step = StepKey::parse(key);
    let rows = read_prepared(operate, run, &step).await?;
    let visit = step.prepared(&rows).map(|(visit, row)| StepVisit {
        step: format!("{}:{visit}", step.name),
        prepared: PayloadOf::Step { step: row.step.clone(), attempt: row.attempt },
    });
    Ok(visit)
}

fn question(step: String, shown: &Value) -> OpenQuestion {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let options = shown["options"].as_object().map(Map::iter).into_iter().flatten();
    let to = match &shown["to"] {
        Value::Array(to) => to.iter().map(text).collect::<Vec<_>>().join(", "),
        to => to.as_str().unwrap_or_default().to_owned(),
    };
    let (kind, prompt) = match shown.get("prompt") {
        Some(prompt) => (ApprovalKind::Decision, prompt),
        None => (ApprovalKind::Approval, &shown["title"]),
    };
    OpenQuestion {
        step,
        kind,
        prompt: text(prompt),
        options: options.map(|(name, meaning)| (name.clone(), text(meaning))).collect(),
        to: Some(to).filter(|to| !to.is_empty()),
        show: shown["show"].clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_question_has_its_options_with_what_they_mean() {
        let shown = json!({ "prompt": "Which?", "options": { "b": "later", "a": 7 }, "to": "ops", "show": null });
        let OpenQuestion { step, kind, prompt, mut options, to, show } = question("ask:0".to_owned(), &shown);
        options.sort();
        assert_eq!((step.as_str(), kind), ("ask:0", ApprovalKind::Decision));
        assert_eq!((prompt.as_str(), to.as_deref()), ("Which?", Some("ops")));
        assert_eq!(options, [("a".to_owned(), "7".to_owned()), ("b".to_owned(), "later".to_owned())]);
        assert_eq!(show, Value::Null);
    }

    #[test]
    fn an_approval_asks_by_its_title() {
        let shown = json!({ "to": ["ops", "finance"], "title": "Refund 42?", "show": { "cents": 4200 }, "visit": 0 });
        let asked = question("refund:0".to_owned(), &shown);
        assert_eq!((asked.prompt.as_str(), asked.to.as_deref()), ("Refund 42?", Some("ops, finance")));
        assert_eq!(
            (asked.kind, asked.options.len(), asked.show),
            (ApprovalKind::Approval, 0, json!({ "cents": 4200 }))
        );
    }
}
