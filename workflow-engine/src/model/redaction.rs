//! Replaces the data of runs in their histories by placeholders.

use serde_json::Value;

use super::{AttemptStatus, RunHistory, RunId, SignalOutcome, StepAttempt, StepKind, StoredError};

/// Stands in place of a text.
const REDACTED: &str = "redacted";

impl RunHistory {
    /// Returns the history with a placeholder of equal JSON shape for each payload.
    ///
    /// Strings become `"redacted"` and numbers become 0. `true`, `false`, `null`, field names and
    /// the lengths of lists stay. The texts of errors are replaced too.
    ///
    /// Payloads are the input, the output, the outputs of steps, transactions, children, signals
    /// and approvals, and published values. Names, keys, times and kinds stay.
    ///
    /// A replay of the redacted history (`Client::export` has an example) gives these values to the
    /// code. If the code decides by a value, or decodes a string that must have a certain form (an
    /// enum, a date), the replay may take another path than the run did. See
    /// [`RunHistory::redact_with`].
    ///
    /// ```
    /// use workflow_sdk::RunHistory;
    ///
    /// # let json = r#"{
    /// #     "format": 1,
    /// #     "run": { "id": "018f0000-0000-7000-8000-000000000001", "queue": "default",
    /// #              "workflow": "greet", "version": "1", "status": "parked", "started_at": 0,
    /// #              "input": "{\"name\":\"Ada\",\"vip\":true,\"visits\":[3,4]}" },
    /// #     "steps": []
    /// # }"#;
    /// let history = RunHistory::from_json(json)?;
    /// assert_eq!(history.run.input, r#"{"name":"Ada","vip":true,"visits":[3,4]}"#);
    /// let redacted = history.redact();
    /// assert_eq!(redacted.run.input, r#"{"name":"redacted","vip":true,"visits":[0,0]}"#);
    /// assert!(redacted.run.redacted);
    /// # Ok::<(), workflow_sdk::HistoryError>(())
    /// ```
    #[must_use]
    pub fn redact(self) -> Self {
        self.redact_with(|_, value| placeholder(value))
    }

    /// Returns the history with each payload replaced by the result of `change`. The function
    /// receives the key of the step, or `None` for the input and the output of the run. Its result
    /// should decode as the payload did, and keep the values by which the code decides.
    #[must_use]
    pub fn redact_with(mut self, mut change: impl FnMut(Option<&str>, Value) -> Value) -> Self {
        let run = &mut self.run;
        run.redacted = true;
        run.input = changed(&run.input, |value| change(None, value));
        run.output = run.output.take().map(|output| changed(&output, |value| change(None, value)));
        if let Some(error) = &mut run.error {
            redact_error(error, |value| change(None, value));
        }
        for step in &mut self.steps {
            let payload = payload_of(step);
            let key = step.step_key.as_str();
            if let Some(output) = &mut step.output {
                match payload {
                    Payload::Whole => *output = changed(output, |value| change(Some(key), value)),
                    Payload::Published => *output = changed_value(output, |value| change(Some(key), value)),
                    Payload::None => {}
                }
            }
            if let Some(error) = &mut step.error {
                redact_error(error, |value| change(Some(key), value));
            }
        }
        self
    }
}

/// The part of an output that is a payload.
enum Payload {
    Whole,
    /// The value that was published, beside its number.
    Published,
    None,
}

/// Returns the part of an output that is a payload. A replay needs the other parts: the notes of
/// waits that have begun, and the outputs that the engine has made.
fn payload_of(step: &StepAttempt) -> Payload {
    match step.kind {
        StepKind::Published => Payload::Published,
        StepKind::Sleep | StepKind::Interruption | StepKind::Patch => Payload::None,
        _ if step.status == AttemptStatus::Running || is_of_engine(step) => Payload::None,
        _ => Payload::Whole,
    }
}

/// Returns whether the engine has made an output: the id of a child that is not awaited, or the
/// answer of an inbox to a signal. The step of such a child ends in the moment in which it begins;
/// the output of a child that is awaited comes later.
fn is_of_engine(step: &StepAttempt) -> bool {
    let Some(output) = step.output.as_deref() else { return false };
    match step.kind {
        StepKind::Child => step.completed_at == Some(step.started_at) && serde_json::from_str::<RunId>(output).is_ok(),
        StepKind::Step => {
            serde_json::from_str(output).is_ok_and(|answer| !matches!(answer, SignalOutcome::Repeated(_)))
        }
        _ => false,
    }
}

/// Changes the value in the row of a published one. A row in another form has no value.
fn changed_value(text: &str, change: impl FnOnce(Value) -> Value) -> String {
    match serde_json::from_str(text) {
        Ok(Value::Object(mut row)) => {
            let value = row.get_mut("value").map(Value::take);
            row.insert("value".to_owned(), change(value.unwrap_or_default()));
            Value::Object(row).to_string()
        }
        _ => Value::Null.to_string(),
    }
}

fn redact_error(error: &mut StoredError, change: impl FnOnce(Value) -> Value) {
    error.message = REDACTED.into();
    error.not_understood = None;
    error.causes.iter_mut().for_each(|cause| *cause = REDACTED.into());
    if let Some(payload) = &mut error.payload {
        payload.json = changed(&payload.json, change);
    }
}

/// Text that is not JSON becomes null, because no shape can be kept.
fn changed(text: &str, change: impl FnOnce(Value) -> Value) -> String {
    change(serde_json::from_str(text).unwrap_or(Value::Null)).to_string()
}

fn placeholder(value: Value) -> Value {
    match value {
        Value::Null | Value::Bool(_) => value,
        Value::Number(_) => 0.into(),
        Value::String(_) => REDACTED.into(),
        Value::Array(items) => items.into_iter().map(placeholder).collect(),
        Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, placeholder(value))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Timestamp;
    use crate::model::run_retry::tests::row;

    #[test]
    fn only_outputs_that_the_engine_has_made_are_no_payloads() {
        let id = "\"018f0000-0000-7000-8000-000000000001\"";
        let is_payload = |kind, output: &str, completed_at| {
            let at = Timestamp::from_micros;
            let step = StepAttempt {
                kind,
                output: Some(output.to_owned()),
                started_at: at(7),
                completed_at: Some(at(completed_at)),
                ..row("a", Some(1))
            };
            matches!(payload_of(&step), Payload::Whole)
        };
        assert!(!is_payload(StepKind::Child, id, 7), "the id of a child that is not awaited");
        assert!(is_payload(StepKind::Child, id, 8), "the output of a child that is awaited");
        assert!(is_payload(StepKind::Child, "\"Ada\"", 7));
        assert!(!is_payload(StepKind::Step, "\"accepted\"", 8), "the answer of an inbox");
        assert!(is_payload(StepKind::Step, id, 7) && is_payload(StepKind::Signal, "\"accepted\"", 8));
    }
}
