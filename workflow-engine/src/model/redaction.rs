//! Histories without the data of their runs.

use serde_json::Value;

use super::{AttemptStatus, RunHistory, StepKind, StoredError};

/// In place of a text.
const REDACTED: &str = "redacted";

impl RunHistory {
    /// The history with a placeholder of the same JSON shape for each payload: texts become `"redacted"`, numbers 0; what is
    /// `true`, `false` or `null` stays, and so do the names of fields and the lengths of lists. Texts of errors go too.
    ///
    /// Payloads are the input and the output, what steps, transactions, children, signals and approvals have given, and
    /// published values. Names, keys, times and kinds stay.
    ///
    /// A [replay](crate::Client::export) of it gives the code these values. Where it decides by them, or decodes a text that is
    /// not any text (an enum, a date), it may go another way than the run did: see [`RunHistory::redact_with`].
    ///
    /// ```
    /// use workflow_sdk::RunHistory;
    ///
    /// # let json = r#"{
    /// #     "format": 1,
    /// #     "run": { "id": "018f0000-0000-7000-8000-000000000001", "queue": "default", "workflow": "greet", "version": "1",
    /// #              "status": "parked", "input": "{\"name\":\"Ada\",\"vip\":true,\"visits\":[3,4]}", "started_at": 0 },
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

    /// The history with what this function makes of each payload. It gets the key of the step, or `None` for the input and
    /// the output of the run. What it gives back should decode as the payload did, and keep what the code decides by.
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
            // What a wait writes when it begins, and what the engine writes, is no payload: a replay needs it.
            let is_payload = step.status != AttemptStatus::Running && holds_payloads(step.kind);
            if is_payload && let Some(output) = step.output.take() {
                step.output = Some(changed(&output, |value| change(Some(key), value)));
            }
            if let Some(error) = &mut step.error {
                redact_error(error, |value| change(Some(key), value));
            }
        }
        self
    }
}

fn holds_payloads(kind: StepKind) -> bool {
    match kind {
        StepKind::Step
        | StepKind::Transaction
        | StepKind::Compensation
        | StepKind::Signal
        | StepKind::Approval
        | StepKind::Child
        | StepKind::Published
        | StepKind::Emitted => true,
        StepKind::Sleep | StepKind::Interruption | StepKind::Patch => false,
    }
}

fn redact_error(error: &mut StoredError, change: impl FnOnce(Value) -> Value) {
    error.message = REDACTED.into();
    error.causes.iter_mut().for_each(|cause| *cause = REDACTED.into());
    if let Some(payload) = &mut error.payload {
        payload.json = changed(&payload.json, change);
    }
}

/// What is no JSON is nothing that could be kept.
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
