//! Reports of a dry run: each step in its order, for people and for programs.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use workflow_sdk::{AttemptStatus, StepAttempt, StepKind};

use super::runtime::Call;
use super::stub::step_id;
use super::{Ended, Fault};
use crate::clock::exact;

/// Longer values are cut in the report for people.
const WIDEST: usize = 160;

/// One attempt of one step of a dry run.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    /// The key of the record.
    pub(crate) step: String,
    /// The virtual time since the start at which it ended, in milliseconds.
    pub(crate) at_ms: u64,
    pub(crate) kind: StepKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) result: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// The calls of stubs and the answers of people and events.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) calls: Vec<Call>,
}

/// Returns what each step did, in the order in which the steps ended.
pub(crate) fn rows(ended: &Ended) -> Vec<Row> {
    let mut history: Vec<&StepAttempt> = ended.history.iter().filter(|row| is_shown(row)).collect();
    history.sort_by_key(|row| (row.completed_at.unwrap_or(row.started_at), row.position.unwrap_or(i64::MAX)));
    let mut calls: Vec<Option<&Call>> = ended.calls.iter().map(Some).collect();
    history.iter().map(|row| row_of(ended, row, take_calls(&history, row, &mut calls))).collect()
}

/// Returns whether a row is a step of the document, not a record beside one.
fn is_shown(row: &StepAttempt) -> bool {
    let is_call =
        matches!(row.kind, StepKind::Step | StepKind::Sleep | StepKind::Signal | StepKind::Approval | StepKind::Event);
    let is_beside = row.step_key.ends_with(['!', '=']) || row.step_key.contains(".again/");
    let is_limit = row.step_key.contains(".time/timeout");
    (is_call || row.kind == StepKind::Compensation) && !is_beside && !is_limit
}

/// Takes the calls of one attempt. A step with several calls in its attempt takes all of them.
fn take_calls(history: &[&StepAttempt], row: &StepAttempt, calls: &mut [Option<&Call>]) -> Vec<Call> {
    let attempts = history.iter().filter(|other| other.step_key == row.step_key).count();
    let mine: Vec<usize> =
        (0..calls.len()).filter(|at| calls[*at].is_some_and(|call| call.step == row.step_key)).collect();
    let most = if attempts > 1 { 1 } else { mine.len() };
    mine.into_iter().take(most).filter_map(|at| calls[at].take().cloned()).collect()
}

fn row_of(ended: &Ended, row: &StepAttempt, calls: Vec<Call>) -> Row {
    let at = row.completed_at.unwrap_or(row.started_at).since(ended.began);
    let has_value = row.status == AttemptStatus::Succeeded && row.kind == StepKind::Step;
    let value = row.output.as_deref().filter(|_| has_value).and_then(|text| serde_json::from_str(text).ok());
    let value = value.map(|value| if ended.programs.contains(step_id(&row.step_key)) { only(value) } else { value });
    let is_open = row.status == AttemptStatus::Running;
    Row {
        step: row.step_key.clone(),
        at_ms: u64::try_from(at.as_millis()).unwrap_or(u64::MAX),
        kind: row.kind,
        result: value,
        error: match &row.error {
            Some(error) => Some(error.message.clone()),
            None => is_open.then(|| "it has not ended".to_owned()),
        },
        calls,
    }
}

/// Returns the one output of a jq program, which is recorded as a list of its outputs.
fn only(value: Value) -> Value {
    match value {
        Value::Array(mut outputs) if outputs.len() == 1 => outputs.remove(0),
        other => other,
    }
}

/// Returns the report for people.
pub(crate) fn lines(ended: &Ended) -> Vec<String> {
    let rows = rows(ended);
    let width = rows.iter().map(|row| row.step.chars().count()).max().unwrap_or_default();
    let mut lines = Vec::new();
    for row in &rows {
        let at = format!("+{}", exact(Duration::from_millis(row.at_ms)));
        for text in texts(row) {
            lines.push(format!("{at:>10}  {:width$}  {text}", row.step));
        }
    }
    lines.push(match &ended.outcome {
        Ok(output) => format!("output: {output}"),
        Err(fault) => format!("no output: {fault}"),
    });
    lines.push(format!("virtual time: {}; answers of stubs: {}", exact(ended.took), ended.calls.len()));
    lines
}

fn texts(row: &Row) -> Vec<String> {
    let called = |call: &Call| {
        let args = if call.args.is_null() { String::new() } else { format!(" {}", cut(&call.args)) };
        let outcome = match (&call.error, &call.result) {
            (Some(error), _) => format!("error: {error}"),
            (None, Some(result)) => cut(result),
            (None, None) => "no answer".to_owned(),
        };
        format!("{}{args} -> {outcome}", call.tool)
    };
    if !row.calls.is_empty() {
        return row.calls.iter().map(called).collect();
    }
    vec![match (&row.error, &row.result, row.kind) {
        (Some(error), ..) => format!("error: {error}"),
        (None, _, StepKind::Sleep) => "waited".to_owned(),
        (None, _, StepKind::Approval | StepKind::Signal | StepKind::Event) => "no answer".to_owned(),
        (None, result, _) => format!("-> {}", cut(result.as_ref().unwrap_or(&Value::Null))),
    }]
}

fn cut(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(WIDEST) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text,
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Failed(error) => write!(f, "{error}"),
            Self::Other(message) => f.write_str(message),
            Self::Waits(waits) => write!(f, "{waits}; give a stub an answer for it"),
        }
    }
}
