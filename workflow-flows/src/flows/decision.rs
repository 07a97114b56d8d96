//! The questions of decisions, as they are shown to those that answer them.

use futures::future::try_join_all;
use serde_json::{Map, Value};
use workflow_sdk::RunId;
use workflow_sdk::operate::{Operate, OperateError, PayloadOf};

use super::gate::{StepKey, read_output, read_prepared};

/// How many steps are read at once.
const AT_ONCE: usize = 8;

/// A decision that a run waits for, with the values that its flow has rendered for it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct OpenDecision {
    /// The key of the step with the number of its visit, as [`answer_step`](crate::answer_step)
    /// takes it.
    pub step: String,
    /// The question.
    pub prompt: String,
    /// The names of the answers, each with its description. Empty: every value is an answer.
    pub options: Vec<(String, String)>,
    /// The person or group that is asked.
    pub to: Option<String>,
    /// The value that is shown beside the question. `null`: none.
    pub show: Value,
}

/// Reads the question of a decision. `key` is that of a
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
pub async fn read_decision(operate: &dyn Operate, run: RunId, key: &str) -> Result<Option<OpenDecision>, OperateError> {
    let step = StepKey::parse(key);
    let rows = read_prepared(operate, run, &step).await?;
    let Some((visit, row)) = step.prepared(&rows) else { return Ok(None) };
    let shown = read_output(operate, run, row).await?;
    Ok(shown.is_object().then(|| decision(format!("{}:{visit}", step.name), &shown)))
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
/// for such a step, as one of a workflow in Rust. See [`read_decision`] about the numbers and about
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

fn decision(step: String, shown: &Value) -> OpenDecision {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let options = shown["options"].as_object().map(Map::iter).into_iter().flatten();
    OpenDecision {
        step,
        prompt: text(&shown["prompt"]),
        options: options.map(|(name, meaning)| (name.clone(), text(meaning))).collect(),
        to: shown["to"].as_str().map(str::to_owned),
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
        let OpenDecision { step, prompt, mut options, to, show } = decision("ask:0".to_owned(), &shown);
        options.sort();
        assert_eq!((step.as_str(), prompt.as_str(), to.as_deref()), ("ask:0", "Which?", Some("ops")));
        assert_eq!(options, [("a".to_owned(), "7".to_owned()), ("b".to_owned(), "later".to_owned())]);
        assert_eq!(show, Value::Null);
    }
}
