//! Reports of steps that are done outside of the engine.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::{Instant, sleep};
use workflow_sdk::operate::{
    Action, HistoryItem, Operate, OperateError, OperateErrorCode as Code, PayloadOf, RunSummary,
};
use workflow_sdk::{AttemptStatus, RunId, RunStatus, StepKind, Timestamp};

use super::Flows;
use super::gate::{Answer, Question, StepKey, choose, is_signal, send};
use super::reads::{GateRows, read_history, read_prepared, read_signal_waits};
use crate::graph::Kind;
use crate::{ErrorClass, FlowStart, is_flow};

/// The end of a step that is done outside of the engine: the second message of the engine with two
/// tables. It has a result or an error.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Report {
    /// The result of the step.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub result: Option<Value>,
    /// Why the step failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ReportedError>,
}

/// Reads a result that is `null` as one that is there.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// The failure of a step that is done outside of the engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ReportedError {
    /// The failure.
    pub message: String,
    /// The kind of the failure. Default: `failed`.
    #[serde(default = "failed")]
    pub class: ErrorClass,
}

const fn failed() -> ErrorClass {
    ErrorClass::Failed
}

/// Begins the name of the signal that ends a step that is done outside.
pub(crate) const REPORT: &str = "done:";

/// How long a report looks for a hand-over that may just have begun. The engine writes the row of a
/// body within a small part of it.
const LOOKS_FOR: Duration = Duration::from_secs(1);
/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// A report as the run gets it. It lies in the inbox until a wait takes it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum SentReport {
    /// For one visit of the step.
    OfVisit {
        /// The [number](visit_number) of the visit.
        visit: String,
        /// The report.
        report: Report,
    },
    /// For the visit that takes it.
    OfAny(Report),
}

impl SentReport {
    /// Returns the report, if it is one for the visit with this number. `None`: the number is not
    /// known.
    pub(crate) fn of_visit(self, number: Option<&str>) -> Option<Report> {
        match self {
            Self::OfVisit { visit, .. } if number.is_some_and(|number| number != visit) => None,
            Self::OfVisit { report, .. } | Self::OfAny(report) => Some(report),
        }
    }
}

/// Returns the number of a visit in the whole run.
pub(crate) fn visit_number(generation: impl fmt::Display, visit: u32) -> String {
    format!("{generation}.{visit}")
}

impl Flows {
    /// Returns the action that ends this step with a result from outside. A decision without
    /// options takes the result as its choice. A report that comes while the tool still hands the
    /// work over is kept for the step.
    ///
    /// # Errors
    /// [`NotFound`](Code::NotFound) if there is no such run, [`BadInput`](Code::BadInput) if the
    /// report has not exactly one of result and error, [`Conflict`](Code::Conflict) if the step
    /// does not wait for a report, or a failure of the database.
    ///
    /// # Cancel safety
    /// The call only reads: a dropped future leaves nothing behind.
    pub async fn done(&self, run: RunId, key: &str, report: Report, by: &str) -> Result<Action, OperateError> {
        report_step(self.client.operate(), run, key, report, by).await
    }
}

/// Does what [`Flows::done`] does, with the interface for operators alone: that of a database, or
/// that of a server.
///
/// # Errors
/// See [`Flows::done`].
///
/// # Cancel safety
/// See [`Flows::done`].
pub async fn report_step(
    operate: &dyn Operate,
    run: RunId,
    key: &str,
    report: Report,
    by: &str,
) -> Result<Action, OperateError> {
    if report.result.is_some() == report.error.is_some() {
        let message = "a report has one of result and error";
        return Err(OperateError::new(Code::BadInput, message, "leave one of them out"));
    }
    let step = StepKey::of_token(key);
    let (mut external, last_look) = (None, Instant::now() + LOOKS_FOR);
    loop {
        // The waits first: see `GateRows::read`.
        let waits = read_signal_waits(operate, run, &step, REPORT).await?;
        let prepared = read_prepared(operate, run, &step).await?;
        // Read after the rows: a report that is kept for an older generation decides nothing.
        let present = operate.run(run).await?.summary;
        if !step.is_of(present.generation) {
            return Err(takes_no_report(key));
        }
        if let Some(since) = step.waits_since(&waits, &prepared, REPORT) {
            return step.end(&present, &prepared, since, report);
        }
        if let Some(result) = &report.result {
            let gate = GateRows::read(operate, run, &step).await?;
            if let Some(question) = Question::find(operate, run, &gate, &step).await? {
                let answer = Answer { choice: Some(result.clone()), ..Answer::default() };
                return choose(run, &step, &question, answer, by);
            }
        }
        let handed_over = step.handed_over(&waits, &prepared);
        let is_driven = present.status == RunStatus::Running && Instant::now() < last_look;
        let is_external = match external {
            _ if handed_over.is_none() && !is_driven => false,
            Some(known) => known,
            None => *external.insert(is_external(operate, run, &step).await?),
        };
        match handed_over {
            _ if !is_external => {
                let found = step.find_elsewhere(operate, &present).await?;
                let (since, prepared) = found.ok_or_else(|| takes_no_report(key))?;
                return step.end(&present, &prepared, since, report);
            }
            Some(visit) => return send_for(run, step.signal(REPORT), visit_number(present.generation, visit), report),
            None => sleep(PAUSE).await,
        }
    }
}

impl StepKey<'_> {
    /// Ends the wait of the present visit, which has begun at this time.
    fn end(
        &self,
        present: &RunSummary,
        prepared: &[HistoryItem],
        since: Timestamp,
        report: Report,
    ) -> Result<Action, OperateError> {
        let signal = self.signal(REPORT);
        // A workflow in Rust prepares nothing.
        let Some((visit, _)) = self.prepared(prepared) else {
            return send(present.id, signal, since.as_micros(), &report);
        };
        send_for(present.id, signal, visit_number(present.generation, visit), report)
    }

    /// Finds the wait for the report in a scope that the key does not name: one that a flow has
    /// entered again, or one of a workflow in Rust. Only such a step needs the whole history.
    async fn find_elsewhere(
        &self,
        operate: &dyn Operate,
        present: &RunSummary,
    ) -> Result<Option<(Timestamp, Vec<HistoryItem>)>, OperateError> {
        if !self.name.contains('/') && is_flow(&present.lane.workflow) {
            return Ok(None);
        }
        let history = read_history(operate, present.id).await?;
        Ok(self.waits_since(&history, &history, REPORT).map(|since| (since, history)))
    }

    /// Returns the present visit, if its tool is called or has answered, and the wait for the
    /// report has not begun.
    fn handed_over(&self, waits: &[HistoryItem], prepared: &[HistoryItem]) -> Option<u32> {
        let (visit, call) = self.prepared(prepared)?;
        let signal = self.signal(REPORT);
        // A wait that was dropped has no position.
        let is_later = |wait: &HistoryItem| match wait.position {
            None => Some(wait.started_at) >= call.completed_at,
            position => position > call.position,
        };
        let mut waits = waits.iter().filter(|row| row.kind == StepKind::Signal && is_signal(&row.step, &signal));
        let has_begun = match call.status {
            AttemptStatus::Running => false,
            AttemptStatus::Succeeded => waits.any(is_later),
            _ => true,
        };
        (!has_begun && self.visit.is_none_or(|own| own == visit)).then_some(visit)
    }
}

/// Returns whether a run is that of a flow in which this step is done outside.
async fn is_external(operate: &dyn Operate, run: RunId, step: &StepKey<'_>) -> Result<bool, OperateError> {
    let input = match operate.payload(run, PayloadOf::Input).await {
        // The caller may not read payloads.
        Err(error) if error.code == Code::Forbidden => return Ok(false),
        input => input?.json,
    };
    let start = input.and_then(|json| serde_json::from_str::<FlowStart>(json.as_str()).ok());
    let (id, mut found) = (step.name.rsplit('/').next(), false);
    if let Some(start) = start {
        start.definition.for_each_step(|step| {
            found |= Some(step.id.as_str()) == id && matches!(&step.kind, Kind::Tool(call) if call.external);
        });
    }
    Ok(found)
}

/// Sends a report for one visit. All reports for it have one key, so the first one counts, even if
/// the wait began after it.
fn send_for(run: RunId, signal: String, visit: String, report: Report) -> Result<Action, OperateError> {
    send(run, signal, visit.clone(), &SentReport::OfVisit { visit, report })
}

fn takes_no_report(key: &str) -> OperateError {
    let message = format!("step {key:?} does not wait for a result from outside");
    OperateError::new(Code::Conflict, message, "look at what the run waits for")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_report_is_taken_by_its_visit_alone() {
        let read = |sent: Value| serde_json::from_value::<SentReport>(sent).unwrap();
        let of = || read(json!({ "visit": "1.0", "report": { "result": null } }));
        let result = Some(Some(Value::Null));
        assert_eq!(of().of_visit(Some("1.0")).map(|report| report.result), result);
        assert!(of().of_visit(Some("0.0")).is_none());
        assert_eq!(of().of_visit(None).map(|report| report.result), result);
        let bare = read(json!({ "error": { "message": "no paper" } }));
        assert_eq!(bare.of_visit(Some("0.0")).unwrap().error.unwrap().message, "no paper");
        assert!(serde_json::from_value::<SentReport>(json!({ "visit": "1.0" })).is_err());
    }
}
