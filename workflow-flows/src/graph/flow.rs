use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Block, Trigger, millis};

/// A whole flow. Its serialized form is part of the input of each of its runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// The version of the language: 1.
    pub language: u32,
    /// The name, `[a-z0-9][a-z0-9._-]{0,127}`.
    pub name: String,
    /// Its purpose. Empty if the document says nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The JSON Schema 2020-12 of the input. `true` allows all.
    pub input: Value,
    /// The time that a run may take from its start. Default: 24 hours.
    #[serde(with = "millis")]
    pub timeout: Duration,
    /// The effect of the timeout.
    pub on_timeout: OnTimeout,
    /// The value of a path to something missing.
    #[serde(default)]
    pub missing_path: MissingPath,
    /// The steps.
    pub body: Block,
    /// The template of the output. `None`: the result of the last step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// Runs when the run fails. The first error stays the run's error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_error: Option<Block>,
    /// Runs after success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_complete: Option<Block>,
    /// The triggers, which start runs by themselves. The interpreter does not read them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub triggers: Vec<Trigger>,
}

/// Says what happens to a run that takes too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnTimeout {
    /// It fails.
    #[default]
    Fail,
    /// It is canceled.
    Cancel,
    /// It is paused until an operator resumes it.
    Pause,
}

/// Says what a template's path to something missing gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MissingPath {
    /// An error that names the nearest name.
    #[default]
    Error,
    /// The empty text, as the dialect `two-table` has it.
    Empty,
}
