//! The answers of tools, and their parts.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use workflow_flows::check::{Finding, Severity};
use workflow_sdk::Timestamp;
use workflow_sdk::operate::{Done, StoredPayload};

/// A fault of a flow.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Found {
    /// The kind, such as F010.
    code: String,
    /// `error` or `warning`. A flow with an error cannot start.
    severity: &'static str,
    /// The JSON Pointer of the key or value.
    path: String,
    /// The line, from 1.
    line: usize,
    /// The column in characters, from 1.
    column: usize,
    /// The mistake.
    message: String,
    /// The way out.
    #[serde(skip_serializing_if = "String::is_empty")]
    help: String,
    /// The repair: `edits`, in order. `text` replaces the bytes from `start` to `end` of the
    /// document; `add`, `remove`, `replace` and `move` are operations of JSON Patch on the document
    /// as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<Value>,
}

impl From<Finding> for Found {
    fn from(finding: Finding) -> Self {
        Self {
            code: finding.code.to_string(),
            severity: if finding.severity == Severity::Error { "error" } else { "warning" },
            path: finding.path,
            line: finding.line,
            column: finding.column,
            message: finding.message,
            help: finding.help,
            fix: finding.fix.and_then(|fix| serde_json::to_value(fix).ok()),
        }
    }
}

/// The outcome of a change.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Outcome {
    /// The outcome, such as `started`, `existed`, `decided`, `already_decided` or `canceled`.
    pub(crate) outcome: String,
    /// The run, of a start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) run: Option<String>,
    /// The outcome as a sentence.
    message: String,
    /// Further facts about the outcome.
    #[serde(flatten)]
    more: BTreeMap<String, Value>,
}

impl From<Done> for Outcome {
    fn from(done: Done) -> Self {
        let outcome = serde_json::to_value(&done.outcome).unwrap_or_default();
        let mut more: BTreeMap<String, Value> = serde_json::from_value(outcome).unwrap_or_default();
        let mut text = |name: &str| more.remove(name).and_then(|value| value.as_str().map(str::to_owned));
        let (outcome, run) = (text("outcome").unwrap_or_default(), text("run"));
        Self { outcome, run, message: done.message, more }
    }
}

/// Values that are not shown, with their sizes.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct LeftOut(BTreeMap<String, u64>);

impl LeftOut {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns a payload of at most `most` bytes. Notes a larger one, or a hidden one, under its
    /// name.
    pub(crate) fn show(&mut self, name: &str, payload: Option<StoredPayload>, most: u64) -> Option<Value> {
        let payload = payload?;
        let text = payload.json.filter(|_| payload.bytes <= most);
        let value = text.and_then(|text| serde_json::from_str(text.as_str()).ok());
        if value.is_none() {
            self.0.insert(name.to_owned(), payload.bytes);
        }
        value
    }

    /// Returns a value that has at most `most` bytes as JSON. Notes a larger one under its name.
    pub(crate) fn fit(&mut self, name: &str, value: Value, most: u64) -> Option<Value> {
        let bytes = value.to_string().len() as u64;
        if bytes <= most {
            return Some(value);
        }
        self.0.insert(name.to_owned(), bytes);
        None
    }
}

/// Returns a time as RFC 3339 has it.
pub(crate) fn time(at: Timestamp) -> String {
    at.to_string()
}

/// Returns the word of a status, a kind or a state, which is serialized as its word.
pub(crate) fn word(value: &impl Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

/// Returns the fields of an object.
pub(crate) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
