//! Replaces the data of runs in their histories by placeholders.

use serde_json::Value;

use super::{AttemptStatus, RunHistory, RunId, SignalOutcome, StepKind, StoredError};

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
            let key = step.step_key.as_str();
            if let Some(output) = step.output.take() {
                step.output = Some(match payload_of(step.kind, step.status, &output) {
                    Part::Whole => changed(&output, |value| change(Some(key), value)),
                    Part::Published => changed_value(&output, |value| change(Some(key), value)),
                    Part::Nothing => output,
                });
            }
            if let Some(error) = &mut step.error {
                redact_error(error, |value| change(Some(key), value));
            }
        }
        self
    }
}

/// The part of an output that is a payload.
enum Part {
    Whole,
    /// The value that was published, beside its number.
    Published,
    Nothing,
}

/// Returns the part of an output that is a payload. Notes of waits that have begun, the id of a
/// child that is not awaited, the answer of the inbox to a signal, and rows of the engine itself
/// are no payloads, and a replay needs them.
fn payload_of(kind: StepKind, status: AttemptStatus, output: &str) -> Part {
    let is_running = status == AttemptStatus::Running;
    let is_word = |outcome| !matches!(outcome, SignalOutcome::Repeated(_));
    let is_engines = || {
        serde_json::from_str(output).is_ok_and(is_word)
            || kind == StepKind::Child && serde_json::from_str::<RunId>(output).is_ok()
    };
    match kind {
        StepKind::Published => Part::Published,
        StepKind::Sleep | StepKind::Interruption | StepKind::Patch => Part::Nothing,
        _ if is_running || is_engines() => Part::Nothing,
        _ => Part::Whole,
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
