//! Answers to the gates of a run: approvals and decisions.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
pub(crate) use workflow_sdk::internal::DECISION_SIGNAL as DECISION;
use workflow_sdk::operate::{Action, HistoryItem, Operate, OperateError, OperateErrorCode as Code, Payload};
use workflow_sdk::{ApprovalKind, AttemptStatus, PendingApproval, RunId, StepKind, Timestamp};

use super::Flows;
use super::reads::{GateRows, read_output};
use crate::interpreter::prepared_key;
use crate::token::Gate;

/// An answer to an approval or a decision: the first message of the engine with two tables.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Answer {
    /// Whether an approval is given. Default: `true`. A decision has none.
    #[serde(default = "approves")]
    pub approved: bool,
    /// The choice of a decision: one of its options, or any value if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<Value>,
    /// A remark, which goes to the run with the answer. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

const fn approves() -> bool {
    true
}

impl Default for Answer {
    fn default() -> Self {
        Self { approved: true, choice: None, note: None }
    }
}

impl Flows {
    /// Returns the action that gives this answer to the approval or decision with this key, in the
    /// name of an account. Performing it decides the gate; if two do so, the first one counts.
    ///
    /// # Errors
    /// [`NotFound`](Code::NotFound) if there is no such run, [`BadInput`](Code::BadInput) if the
    /// answer does not fit the gate, or a failure of the database. An approval that the run does
    /// not wait for is refused when the action is performed.
    pub async fn ready(&self, run: RunId, key: &str, answer: Answer, by: &str) -> Result<Action, OperateError> {
        answer_step(self.client.operate(), run, key, answer, by).await
    }

    /// Returns the action that [`ready`](Flows::ready) returns, for the run and the key that
    /// [`open_token`](Flows::open_token) has returned: the key names one visit of the step.
    ///
    /// # Errors
    /// [`Conflict`](Code::Conflict) if the present visit of the step is another one, and those of
    /// [`ready`](Flows::ready).
    pub async fn ready_by_token(
        &self,
        run: RunId,
        key: &str,
        answer: Answer,
        by: &str,
    ) -> Result<Action, OperateError> {
        let step = StepKey::of_token(key);
        let gate = self.read_present(run, &step).await?;
        answer_visit(self.client.operate(), run, &gate, &step, answer, by).await
    }

    /// Reads the rows of a gate. Refuses the key of another visit of the step than the present one.
    pub(super) async fn read_present(&self, run: RunId, step: &StepKey<'_>) -> Result<GateRows, OperateError> {
        let operate = self.client.operate();
        let gate = GateRows::read(operate, run, step).await?;
        if !step.is_present(&gate.prepared) || !step.is_of(operate.run(run).await?.summary.generation) {
            let message = format!("the run is at another visit of step {:?}", step.name);
            return Err(OperateError::new(Code::Conflict, message, "ask for a new link"));
        }
        Ok(gate)
    }

    /// Returns the run and the key of the gate that a token decides. The key names one visit.
    ///
    /// # Errors
    /// [`NotFound`](Code::NotFound) for every token that these tokens have not issued. The error
    /// does not say what is wrong with it.
    pub fn open_token(&self, token: &str) -> Result<(RunId, String), OperateError> {
        let opened = self.tokens.as_ref().and_then(|tokens| tokens.open(token).ok());
        let gate = opened.and_then(|gate| Some((gate.run.parse().ok()?, key_of(&gate))));
        gate.ok_or_else(|| OperateError::new(Code::NotFound, "the token decides no gate", "ask for a new link"))
    }
}

/// Does what [`Flows::ready`] does, with the interface for operators alone: that of a database, or
/// that of a server.
///
/// # Errors
/// See [`Flows::ready`].
pub async fn answer_step(
    operate: &dyn Operate,
    run: RunId,
    key: &str,
    answer: Answer,
    by: &str,
) -> Result<Action, OperateError> {
    let step = StepKey::parse(key);
    let gate = GateRows::read(operate, run, &step).await?;
    answer_visit(operate, run, &gate, &step, answer, by).await
}

async fn answer_visit(
    operate: &dyn Operate,
    run: RunId,
    gate: &GateRows,
    step: &StepKey<'_>,
    answer: Answer,
    by: &str,
) -> Result<Action, OperateError> {
    match Question::find(operate, run, gate, step).await? {
        Some(question) => choose(run, step, &question, answer, by),
        None if answer.choice.is_some() => Err(waits_for_no_choice(step.name)),
        None => {
            let Answer { approved: approve, note, .. } = answer;
            let step = step.open_approval(gate).unwrap_or_else(|| step.of_approval());
            Ok(Action::DecideApproval { run, step, approve, note })
        }
    }
}

/// Returns the key of the step of a gate, with the number of its visit and of the generation that
/// has counted the visit.
fn key_of(gate: &Gate) -> String {
    format!("{}:{}@{}", gate.key, gate.visit, gate.generation)
}

/// A step that waits, as it is named from outside.
pub(super) struct StepKey<'k> {
    /// The id of the step behind its scopes.
    pub(super) name: &'k str,
    /// The number of earlier visits. `None`: the present visit, whatever its number.
    pub(super) visit: Option<u32>,
    /// The generation of the run that has counted the visit. `None`: the present one.
    generation: Option<i64>,
}

impl<'k> StepKey<'k> {
    /// Reads a key, which may have the number of a visit behind a colon.
    pub(super) fn parse(key: &'k str) -> Self {
        let numbered = key.rsplit_once(':').and_then(|(name, visit)| Some((name, visit.parse().ok()?)));
        let (name, visit) = numbered.map_or((key, None), |(name, visit)| (name, Some(visit)));
        Self { name, visit, generation: None }
    }

    /// Reads a key that may be that of a token: see [`key_of`].
    pub(super) fn of_token(key: &'k str) -> Self {
        let numbered = key.rsplit_once('@').and_then(|(key, generation)| {
            let step = Self::parse(key);
            step.visit.is_some().then_some(Self { generation: Some(generation.parse().ok()?), ..step })
        });
        numbered.unwrap_or_else(|| Self::parse(key))
    }

    /// Returns whether this key may name a visit of the present generation of its run, which has
    /// this number.
    pub(super) fn is_of(&self, generation: i64) -> bool {
        self.generation.is_none_or(|own| own == generation)
    }

    /// Returns the key that the engine gives to an approval.
    fn of_approval(&self) -> String {
        match self.visit {
            None | Some(0) => self.name.to_owned(),
            Some(visit) => format!("{}:{visit}", self.name),
        }
    }

    /// Returns the key of the open approval of the present visit, if this key has its number, as
    /// that of a token has. If a visit failed before it waited, the next approval has a smaller
    /// one.
    pub(super) fn open_approval(&self, gate: &GateRows) -> Option<String> {
        let open = self.open(gate, ApprovalKind::Approval).next().map(|wait| wait.key.clone());
        open.filter(|_| self.is_present(&gate.prepared))
    }

    /// Returns when the run began to wait for a decision, if it does at this visit.
    pub(super) fn decision_since(&self, gate: &GateRows) -> Option<Timestamp> {
        let since = self.open(gate, ApprovalKind::Decision).map(|wait| wait.since).max();
        since.filter(|_| self.may_be_present(&gate.prepared))
    }

    /// Returns the open waits of this kind of the step, in whatever scope they stand.
    fn open<'g>(&self, gate: &'g GateRows, kind: ApprovalKind) -> impl Iterator<Item = &'g PendingApproval> {
        gate.waits.iter().filter(move |wait| wait.kind == kind && visit_of(&wait.key, self.name).is_some())
    }

    /// Returns whether this key has the number of the present visit.
    fn is_present(&self, prepared: &[HistoryItem]) -> bool {
        self.visit.is_some() && self.may_be_present(prepared)
    }

    /// Returns whether this key has the number of the present visit, or none.
    fn may_be_present(&self, prepared: &[HistoryItem]) -> bool {
        self.visit.is_none_or(|visit| self.prepared(prepared).is_some_and(|(present, _)| present == visit))
    }

    /// Returns the name of the signal of this kind that the step waits for.
    pub(super) fn signal(&self, kind: &str) -> String {
        format!("{kind}{}", self.name)
    }

    /// Returns since when one of these rows waits for the signal of this kind, if the run is at
    /// this visit.
    pub(super) fn waits_since(&self, waits: &[HistoryItem], prepared: &[HistoryItem], kind: &str) -> Option<Timestamp> {
        let signal = self.signal(kind);
        let open = waits.iter().filter(|row| is_open(row) && is_signal(&row.step, &signal));
        open.map(|row| row.started_at).max().filter(|_| self.may_be_present(prepared))
    }

    /// Returns the last visit and the row of the values that were rendered for it, before the step
    /// began to wait.
    pub(super) fn prepared<'h>(&self, history: &'h [HistoryItem]) -> Option<(u32, &'h HistoryItem)> {
        let name = prepared_key(self.name);
        let rows = history.iter().filter_map(|row| Some((visit_of(&row.step, &name)?, row)));
        rows.max_by_key(|(visit, row)| (*visit, row.attempt))
    }
}

/// Returns whether a row is that of a wait for a signal that goes on. One that was dropped, as the
/// loser of a race is, has ended without a position.
fn is_open(row: &HistoryItem) -> bool {
    row.kind == StepKind::Signal && row.status == AttemptStatus::Running
}

/// Returns which visit a row of this name is, from 0.
fn visit_of(step_key: &str, name: &str) -> Option<u32> {
    match step_key.strip_prefix(name)? {
        "" => Some(0),
        numbered => numbered.strip_prefix(':')?.parse().ok(),
    }
}

/// Returns whether a row waits for this signal: its key is the name, behind scopes, and with the
/// number of a repetition.
pub(super) fn is_signal(step_key: &str, signal: &str) -> bool {
    let unnumbered = step_key.rsplit_once(':').filter(|(_, number)| number.bytes().all(|byte| byte.is_ascii_digit()));
    let found = |key: &str| key == signal || key.strip_suffix(signal).is_some_and(|scopes| scopes.ends_with('/'));
    found(step_key) || unnumbered.is_some_and(|(key, _)| found(key))
}

/// A decision that a run waits for.
pub(super) struct Question {
    /// When the run began to wait.
    since: Timestamp,
    /// The answers that it takes. Empty: all.
    options: Vec<String>,
}

impl Question {
    /// Finds the open decision of this step.
    pub(super) async fn find(
        operate: &dyn Operate,
        run: RunId,
        gate: &GateRows,
        step: &StepKey<'_>,
    ) -> Result<Option<Self>, OperateError> {
        let Some(since) = step.decision_since(gate) else { return Ok(None) };
        let shown = match step.prepared(&gate.prepared) {
            Some((_, row)) => read_output(operate, run, row).await?,
            None => Value::Null,
        };
        let options = shown["options"].as_object().map(Map::keys);
        Ok(Some(Self { since, options: options.into_iter().flatten().cloned().collect() }))
    }
}

pub(super) fn choose(
    run: RunId,
    step: &StepKey<'_>,
    question: &Question,
    answer: Answer,
    by: &str,
) -> Result<Action, OperateError> {
    let key = step.name;
    let Answer { choice, note, .. } = answer;
    let known = || if question.options.is_empty() { "any value".to_owned() } else { question.options.join(", ") };
    let refused = |message: String| Err(OperateError::new(Code::BadInput, message, format!("{CHOOSE}{}", known())));
    let Some(choice) = choice else { return refused(format!("step {key:?} waits for a choice")) };
    let is_option = choice.as_str().is_some_and(|choice| question.options.iter().any(|option| option == choice));
    if !question.options.is_empty() && !is_option {
        return refused(format!("step {key:?} has no option {choice}"));
    }
    let payload = json!({ "choice": choice, "by": by, "note": note });
    send(run, step.signal(DECISION), question.since.as_micros(), &payload)
}

/// Begins the help of a refused choice, before the options.
const CHOOSE: &str = "choose ";

/// Returns the refusal of [`answer_step`] or [`report_step`](crate::report_step) for an actor that
/// may see payloads. Options of a decision are payloads: without them, the refusal does not tell
/// them.
#[must_use]
pub fn refusal_for(error: OperateError, sees_payloads: bool) -> OperateError {
    if sees_payloads || error.code != Code::BadInput || !error.help.starts_with(CHOOSE) {
        return error;
    }
    OperateError::new(Code::BadInput, "the decision has no such option", "ask a person who sees its question")
}

/// Answers a wait, which this text tells from others for the signal. It has one key: if two answer
/// at the same moment, the first answer counts.
pub(super) fn send(
    run: RunId,
    name: String,
    wait: impl fmt::Display,
    answer: &impl Serialize,
) -> Result<Action, OperateError> {
    let payload = serde_json::to_string(answer)
        .map_err(|error| OperateError::new(Code::BadInput, format!("the answer is not JSON: {error}"), "send JSON"))?;
    let key = Some(format!("{name}@{wait}"));
    Ok(Action::SignalRun { run, name, payload: Payload::new(payload)?, key })
}

fn waits_for_no_choice(key: &str) -> OperateError {
    let message = format!("step {key:?} does not wait for a choice");
    OperateError::new(Code::Conflict, message, "look at what the run waits for; an approval takes no choice")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_name_a_step_and_perhaps_a_visit() {
        for (key, name, visit, approval) in [
            ("gate", "gate", None, "gate"),
            ("gate:0", "gate", Some(0), "gate"),
            ("each/3/gate:2", "each/3/gate", Some(2), "each/3/gate:2"),
            ("gate:x", "gate:x", None, "gate:x"),
            ("gate:0@1", "gate:0@1", None, "gate:0@1"),
        ] {
            let step = StepKey::parse(key);
            assert_eq!((step.name, step.visit, step.of_approval().as_str()), (name, visit, approval));
        }
    }

    #[test]
    fn keys_of_tokens_name_a_generation() {
        let gate = Gate { run: "r".to_owned(), generation: 3, key: "each/3/gate".to_owned(), visit: 2 };
        let key = key_of(&gate);
        let step = StepKey::of_token(&key);
        assert_eq!((step.name, step.visit), ("each/3/gate", Some(2)));
        assert_eq!([2, 3, 4].map(|generation| step.is_of(generation)), [false, true, false]);
        for (key, name) in [("gate:2", "gate"), ("gate", "gate"), ("gate@3", "gate@3"), ("a:0@x", "a:0@x")] {
            let step = StepKey::of_token(key);
            assert_eq!((step.name, step.is_of(7)), (name, true));
        }
    }

    #[test]
    fn rows_are_known_by_their_names() {
        assert_eq!(visit_of("gate!", "gate!"), Some(0));
        assert_eq!(visit_of("gate!:12", "gate!"), Some(12));
        for other in ["gate!x", "each/gate!", "gate", "gate!:x", "gate!:1:2"] {
            assert_eq!(visit_of(other, "gate!"), None, "{other}");
        }
        for own in ["decision:a/b", "decision:a/b:3", "a/decision:a/b", "a/decision:a/b:1"] {
            assert!(is_signal(own, "decision:a/b"), "{own}");
        }
        for other in ["decision:b", "decision:a/bb", "xdecision:a/b", "decision:a/b:x"] {
            assert!(!is_signal(other, "decision:a/b"), "{other}");
        }
    }
}
